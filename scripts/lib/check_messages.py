#!/usr/bin/env python3
"""Whether the messages that docs/failure-modes.md quotes are still those of the code; prints those that are not.

A quoted message is a table's `code` with blanks in it. What varies stands there as …, or in quotes: between
these, each stretch must be made of pieces that occur in the sources' literals (or are the system's words).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "failure-modes.md"
# What people type, and forms rather than messages.
NO_MESSAGE = re.compile(r"^(lockstepctl|lockstepd|scripts/|FILE:|[A-Z_]+( [A-Z_]+)*$)")


def literals(sources: str) -> str:
    """All string literals, those that the compiler or a + puts together as one."""
    joined = re.sub(r'"\s*(\+\s*)?"', "", sources)
    return "\n".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined))


def quoted(page: str) -> Iterator[str]:
    for line in page.splitlines():
        if line.startswith("|"):
            yield from (code for code in re.findall(r"`([^`]+)`", line)
                        if " " in code and not NO_MESSAGE.match(code))


def made_of(words: list[str], known: str) -> bool:
    """Greedily, by pieces of two words or more; the last may be one."""
    while words:
        size = next((n for n in range(len(words), 0, -1) if " ".join(words[:n]) in known), 0)
        if size == 0 or (size == 1 and len(words) > 1):
            return False
        words = words[size:]
    return True


def unknown(page: str, known: str) -> list[str]:
    found = []
    for message in quoted(page):
        for stretch in re.split(r"…|'|: |; ", message):
            words = stretch.strip(" .,;:()").split()
            if len(words) > 2 and not made_of(words, known):
                found.append(f"{message!r}: no source says {' '.join(words)!r}")
    return found


def main() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("src/**/*.[ch]*"))
                        if path.suffix in (".cc", ".h"))
    system = "\n".join(os.strerror(number) for number in range(1, 134))
    wrong = unknown(PAGE.read_text(encoding="utf-8"), literals(sources) + "\n" + system)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
