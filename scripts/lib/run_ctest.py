#!/usr/bin/env python3
"""Runs ctest in a build folder: quiet about what passes, loud about the rest, and strict.

  run_ctest.py BUILD_DIR [CTEST ARGUMENT...]

Prints progress, every failure with its output as it happens, and a summary; ctest's own closing line
is the last. Exit status 1 if a test failed, was skipped, disabled or not run, or if none ran. ctest
alone calls a run good in which tests were skipped. Programs that hold many tests in one process are
looked into, for GoogleTest says in its output what it skipped.
"""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable

PROGRESS_SECONDS = 15
STARTED = re.compile(r"^ *Start +\d+: (\S+)")
FINISHED = re.compile(r"^ *(\d+)/(\d+) Test +#\d+: (\S+)")
CLOSING = re.compile(r"^\d+% tests passed, \d+ tests? failed out of \d+")
NOISE = re.compile(r"Internal ctest|Test project |Total Test time|Label Time|\S+ += .* sec\*proc")
SKIPPED_INSIDE = re.compile(r"^\[  SKIPPED \] (\S+)|YOU HAVE (\d+) DISABLED TESTS?", re.MULTILINE)
NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclass
class Report:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def good(self) -> bool:
        return self.passed > 0 and not self.failed and not self.not_run

    def lines(self) -> list[str]:
        slowest = sorted(self.seconds, key=lambda name: -self.seconds[name])[:3]
        times = ", ".join(f"{name} {self.seconds[name]:.1f} s" for name in slowest)
        counts = f"{self.passed} passed, {len(self.failed)} failed, {len(self.not_run)} not run"
        return ([f"{counts}; slowest: {times or 'none'}"]
                + [f"failed: {name}" for name in self.failed]
                + [f"NOT RUN, which counts as failed: {name}" for name in self.not_run])


def read_junit(text: str) -> Report:
    report = Report()
    for case in ElementTree.fromstring(NOT_XML.sub("?", text)).iter("testcase"):
        name, status = case.get("name", "?"), case.get("status")
        report.seconds[name] = float(case.get("time") or 0)
        inside = SKIPPED_INSIDE.search(case.findtext("system-out") or "")
        if status == "fail":
            report.failed.append(name)
        elif status != "run":
            report.not_run.append(name)
        elif inside is not None:
            report.not_run.append(f"{name}: {inside[1] or inside[2] + ' disabled inside'}")
        else:
            report.passed += 1
    return report


def lines_or_ticks(stream: Iterable[str], seconds: float) -> Iterable[str | None]:
    """The lines of a stream as they come, and None after each so many seconds without one."""
    lines: queue.Queue[str | None] = queue.Queue()
    end = object()

    def pump() -> None:
        for line in stream:
            lines.put(line.rstrip("\n"))
        lines.put(end)  # type: ignore[arg-type]

    threading.Thread(target=pump, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=seconds)
        except queue.Empty:
            yield None
            continue
        if line is end:
            return
        yield line


def run(build: Path, arguments: list[str]) -> int:
    junit = build / "ctest-junit.xml"
    junit.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(build), "--output-on-failure", "--no-tests=error",
               "--output-junit", junit.name, "--test-output-size-passed", "10000000",
               "--test-output-size-failed", "10000000", *arguments]
    began = told = time.monotonic()
    done, running, closing = "0", "", "No tests were found"
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        for line in lines_or_ticks(process.stdout, PROGRESS_SECONDS):
            if line is not None:
                if match := STARTED.match(line):
                    running = match[1]
                elif match := FINISHED.match(line):
                    done = f"{match[1]} of {match[2]}"
                    if "   Passed " not in line:
                        print(line, flush=True)
                elif CLOSING.match(line):
                    closing = line
                elif line and not NOISE.match(line):
                    print(line, flush=True)
            if time.monotonic() - told >= PROGRESS_SECONDS:
                told = time.monotonic()
                minutes, seconds = divmod(int(told - began), 60)
                print(f"    {minutes}:{seconds:02d}  {done} tests, now {running}", flush=True)
    finally:
        process.terminate()
        status = process.wait()
    good = False
    if junit.exists():
        report = read_junit(junit.read_text(encoding="utf-8", errors="replace"))
        good = report.good()
        print("\n".join(f"  {line}" for line in report.lines()))
    print(closing, flush=True)
    return 0 if good and status == 0 else 1


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0)
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
