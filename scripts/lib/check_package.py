#!/usr/bin/env python3
"""Installs the C++ client as a user would, builds examples/cpp against it in a folder of its own, and
runs them on two real clusters, through lockstepd. `enrich` and `fan_out` are killed while they work, and
so is lockstepd; in the end all that went in has come out, once.

  scripts/lib/check_package.py BUILD_DIR     where lockstep_client, lockstep_rdkafka and lockstepd are
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOREIGN = ("google/", "grpc", "lockstep/v1/")
COMPONENTS = ("client", "rdkafka")
EXACTLY_ONCE = ROOT / "tests" / "clients" / "exactly_once"
RECORDS = 3000
KILLS = 6  # Of each example and of lockstepd in turn.


def run(*command: str | Path, **more: object) -> str:
    """The command's output; ends the check if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def install(build: Path, prefix: Path) -> None:
    for component in COMPONENTS:
        run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    headers = list((prefix / "include").rglob("*.h"))
    if not headers:
        sys.exit("no header was installed")
    for header in headers:
        for line in header.read_text(encoding="utf-8").splitlines():
            if line.startswith("#include") and any(f"<{name}" in line or f'"{name}' in line
                                                   for name in FOREIGN):
                sys.exit(f"{header.name} shows what it must hide: {line}")
    for path in prefix.rglob("*.cmake"):
        if str(ROOT) in path.read_text(encoding="utf-8"):
            sys.exit(f"{path.name} leads back into the source tree")


def build_examples(prefix: Path, project: Path) -> Path:
    """Outside the source tree, where nothing of it can help. Where the programs are."""
    shutil.copytree(ROOT / "examples" / "cpp", project)
    run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "--build", project / "build")
    return project / "build"


class Process:
    """A program that is killed and started again. What it prints goes to one file."""

    def __init__(self, log: Path, *command: str | Path) -> None:
        self.log = log
        self.command = [str(word) for word in command]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def lines(self) -> int:
        return self.log.read_bytes().count(b"\n")


class Lockstepd(Process):
    def __init__(self, build: Path, work: Path, brokers: dict[str, str]) -> None:
        self.port_file = work / "port"
        self.config = work / "lockstepd.yaml"
        self.data = work / "data"
        self.brokers = brokers
        self.address = "127.0.0.1:0"
        super().__init__(work / "lockstepd.log", build / "src/server/lockstepd", "--config", self.config,
                         "--port-file", self.port_file)

    def start(self) -> None:
        """The second time at the same address, for its clients."""
        clusters = "".join(f"  - {{name: {name}, bootstrap_servers: '{bootstrap}'}}\n"
                           for name, bootstrap in self.brokers.items())
        self.config.write_text(f"data_dir: {self.data}\nlisten: {self.address}\nclusters:\n{clusters}",
                               encoding="utf-8")
        self.port_file.unlink(missing_ok=True)
        super().start()
        until = time.monotonic() + 30
        while not self.port_file.exists() and self.running() and time.monotonic() < until:
            time.sleep(0.05)
        if not self.port_file.exists():
            sys.exit("lockstepd does not serve: " + self.log.read_text(encoding="utf-8")[-2000:])
        self.address = f"127.0.0.1:{self.port_file.read_text(encoding='utf-8').strip()}"


def run_transfer(program: Path, server: Lockstepd) -> None:
    # Brokers that have just started may take longer over their first transactional ids than a commit
    # waits for a lane.
    until = time.monotonic() + 120
    while True:
        done = subprocess.run([program, server.address, "a", "b", "transfers"], capture_output=True,
                              text=True, check=False)
        if " COMMITTED" in done.stdout:
            return
        if "no lane became free" not in done.stdout or time.monotonic() > until:
            sys.exit(f"the example, status {done.returncode}: {done.stdout}{done.stderr}")


def survive(app: Process, server: Lockstepd, source: str, outputs: list[str], *options: str) -> None:
    """Kills both in turn, each in the midst of its work, and then counts."""
    run(EXACTLY_ONCE, "fill", "--topic", source, "--count", str(RECORDS))
    try:
        for kill in range(KILLS):
            done = app.lines()
            until = time.monotonic() + 60
            while app.lines() == done and app.running() and time.monotonic() < until:
                time.sleep(0.01)
            if not app.running() or app.lines() == done:
                sys.exit("the example does not go on")
            time.sleep(random.uniform(0, 0.1))  # Anywhere in a transaction, which takes about so long.
            victim: Process = app if kill % 2 else server
            victim.kill()
            # The rest of the input, so that there is work after each kill.
            start = RECORDS * (kill + 1)
            run(EXACTLY_ONCE, "fill", "--topic", source, "--count", str(RECORDS), "--start", str(start))
            victim.start()
        wanted = [word for output in outputs for word in ("--output", output)]
        print(run(EXACTLY_ONCE, "check", "--input", source, *wanted, "--timeout", "120", *options), end="")
    except SystemExit:
        for process in (app, server):
            print(process.log.read_text(encoding="utf-8")[-4000:])
        raise
    finally:
        app.kill()


def run_examples(programs: Path, build: Path, work: Path) -> None:
    clusters = work / "clusters"
    topics = [word for topic in ("transfers:1", "orders:3", "enriched:3", "events:3", "events-copy:3")
              for word in ("--topic", topic)]
    run(ROOT / "scripts" / "clusters", "start", "--dir", clusters, "--name", "a", "--name", "b", *topics)
    server = None
    try:
        brokers = {name: json.loads((clusters / name / "cluster.json").read_text(encoding="utf-8"))
                   ["bootstrap"] for name in ("a", "b")}
        a, b = brokers["a"], brokers["b"]
        server = Lockstepd(build, work, brokers)
        run_transfer(programs / "transfer", server)
        enrich = Process(work / "enrich.log", programs / "enrich", server.address, "a", a, "b", b)
        survive(enrich, server, f"{a}/orders", [f"{b}/enriched"])
        fan_out = Process(work / "fan_out.log", programs / "fan_out", server.address, "a", a, "b", b)
        survive(fan_out, server, f"{a}/events", [f"{a}/events-copy", f"{b}/events-copy"], "--same-values")
    finally:
        if server is not None:
            server.kill()
        run(ROOT / "scripts" / "clusters", "stop", "--dir", clusters, "--remove")


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    folder = Path(tempfile.mkdtemp(prefix="lockstep-package.", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        install(build, folder / "prefix")
        programs = build_examples(folder / "prefix", folder / "project")
        run_examples(programs, build, folder)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if len(sys.argv) > 1 else 1)
    sys.exit(main())
