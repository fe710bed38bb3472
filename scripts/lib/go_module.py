#!/usr/bin/env python3
"""Lays out one Go module as a module proxy would: go_module.py SOURCE MODULE VERSION PROXY."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path


def main() -> None:
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    source, module, version, proxy = Path(sys.argv[1]), *sys.argv[2:4], Path(sys.argv[4])
    folder = proxy / module / "@v"
    folder.mkdir(parents=True)
    (folder / "list").write_text(version + "\n")
    (folder / f"{version}.info").write_text(
        json.dumps({"Version": version, "Time": "2000-01-01T00:00:00Z"}))
    (folder / f"{version}.mod").write_bytes((source / "go.mod").read_bytes())
    # What git would give, and of that no module within this one.
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=source,
                           check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    inner = {str(Path(name).parent) + "/" for name in names if name.endswith("/go.mod")}
    with zipfile.ZipFile(folder / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            if (source / name).exists() and not any(name.startswith(one) for one in inner):
                archive.write(source / name, f"{module}@{version}/{name}")


if __name__ == "__main__":
    main()
