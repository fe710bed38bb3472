#!/usr/bin/env python3
"""Runs a page of docs/ as a reader would: its `sh` blocks in one shell, in order. What a `text` block after one
shows must be what it printed; … stands for anything.

  tutorial_test.py PAGE [PRESET]     PRESET: the build to use where the page says release
"""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str | None]]:
    """Commands, each with the output that the page shows, if it shows one."""
    found: list[tuple[str, str | None]] = []
    for kind, text in BLOCK.findall(page):
        if kind == "sh":
            found.append((text, None))
        elif found and found[-1][1] is None:
            found[-1] = (found[-1][0], text)
        else:
            sys.exit(f"tutorial_test.py: output without a command:\n{text}")
    if not found:
        sys.exit("tutorial_test.py: the page has no commands")
    return found


def same(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in shown.rstrip("\n").split("…"))
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


def main() -> None:
    page = Path(sys.argv[1]).read_text(encoding="utf-8")
    if len(sys.argv) > 2:
        page = page.replace("build/release", f"build/{sys.argv[2]}").replace(
            "scripts/build release", f"scripts/build {sys.argv[2]}")
    end = f"end-{uuid.uuid4()}"
    # What goes to stderr is for the reader's eyes; what a page shows is stdout.
    with subprocess.Popen(["bash"], cwd=ROOT, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as shell:
        # Where something fails, what it has started ends, too.
        shell.stdin.write("set -e\n"
                          "trap 'kill -9 $(jobs -p) 2>/dev/null;"
                          " [ -z \"$dir\" ] || { scripts/clusters stop --dir $dir/clusters --remove; rm -r $dir; }'"
                          " EXIT\n")
        for command, shown in blocks(page):
            print(command, flush=True)
            shell.stdin.write(f"{command}\necho {end}\n")
            shell.stdin.flush()
            printed = ""
            while (line := shell.stdout.readline()) != f"{end}\n":
                if not line:
                    sys.exit("tutorial_test.py: FAILED: the command above did")
                print(f"    {line}", end="", flush=True)
                printed += line
            if shown is not None and not same(shown, printed):
                shell.stdin.close()
                sys.exit(f"tutorial_test.py: FAILED: the page shows\n{shown}")
        shell.stdin.write("trap - EXIT\n")
        shell.stdin.close()
        if shell.wait() != 0:
            sys.exit("tutorial_test.py: FAILED: the shell's end")
    print("PASSED: the page does what it says")


if __name__ == "__main__":
    main()
