#!/usr/bin/env python3
"""Unpacks a pinned Go into a folder, unless it is there: fetch_go.py GO FOLDER. Prints where it is.

Go's toolchains are modules: any GO, however old, downloads one from where it gets modules (GOPROXY), and
says its hash (h1, as in go.sum).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "1.26.8"
HASHES = {
    "amd64": "h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=",
    "arm64": "h1:sYL/O6MqS68ML0kjsQ36WoYIpJqkw60TxizWUYUKQMc=",
}
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def download(go: str, module: str, cache: Path) -> dict[str, str]:
    own = {"GOMODCACHE": str(cache), "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}
    done = subprocess.run([go, "mod", "download", "-json", module], cwd=cache, env={**os.environ, **own},
                          stdout=subprocess.PIPE, text=True, check=False)
    told = json.loads(done.stdout or "{}")
    if done.returncode != 0 or "Error" in told:
        sys.exit(f"fetch_go.py: {told.get('Error', f'{go} ended with {done.returncode}')}")
    return told


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    go, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    machine = MACHINES.get(platform.machine())
    if machine is None or sys.platform != "linux":
        sys.exit(f"fetch_go.py: no Go is pinned for {sys.platform} on {platform.machine()}: install "
                 f"Go {VERSION} or later")
    root = folder / f"go{VERSION}.linux-{machine}"
    if not root.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            told = download(go, f"golang.org/toolchain@v0.0.1-{root.name}", Path(temporary))
            if told["Sum"] != HASHES[machine]:
                sys.exit(f"fetch_go.py: the toolchain's hash is {told['Sum']}, not {HASHES[machine]}")
            unpacked = Path(told["Dir"])
            # A module's files have no mode: these are the programs among them.
            for program in [*unpacked.glob("bin/*"), *unpacked.glob("pkg/tool/*/*")]:
                program.chmod(0o755)
            os.rename(unpacked, root)
    print(root / "bin" / "go")


if __name__ == "__main__":
    main()
