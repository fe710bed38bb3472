#!/usr/bin/env python3
"""Installs the C++ client as a user would, builds examples/cpp against it in a folder of its own, and
runs them on two real clusters while they and lockstepd are killed.

  scripts/lib/check_package.py BUILD_DIR     where lockstep_client, lockstep_rdkafka and lockstepd are
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOREIGN = ("google/", "grpc", "lockstep/v1/")
COMPONENTS = ("client", "rdkafka")


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


def run_examples(build: Path, programs: Path) -> None:
    """All that goes in comes out once, whoever is killed."""
    own = ("a", "{a}", "b", "{b}")  # Clusters, for producers and consumers of their own.
    print(run(ROOT / "tests" / "clients" / "run_examples", "--lockstepd", build / "src/server/lockstepd",
              "--", "enrich", programs / "enrich", "{lockstepd}", *own,
              "--", "fan-out", programs / "fan_out", "{lockstepd}", *own,
              "--", "transfer", programs / "transfer", "{lockstepd}", "a", "b"), end="")


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    folder = Path(tempfile.mkdtemp(prefix="lockstep-package.", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        install(build, folder / "prefix")
        programs = build_examples(folder / "prefix", folder / "project")
        run_examples(build, programs)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if len(sys.argv) > 1 else 1)
    sys.exit(main())
