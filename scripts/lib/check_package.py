#!/usr/bin/env python3
"""Installs the C++ client as a user would, builds examples/cpp against it in a folder of its own, and
runs them on two real clusters, through lockstepd: `transfer` once, `enrich` and `fan_out` while they and
lockstepd are killed.

  scripts/lib/check_package.py BUILD_DIR     where lockstep_client, lockstep_rdkafka and lockstepd are
"""

from __future__ import annotations

import json
import os
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


def run_transfer(example: Path, build: Path, work: Path) -> None:
    clusters = work / "clusters"
    run(ROOT / "scripts" / "clusters", "start", "--dir", clusters, "--name", "a", "--name", "b",
        "--topic", "orders:1")
    server = None
    try:
        brokers = {name: json.loads((clusters / name / "cluster.json").read_text(encoding="utf-8"))
                   ["bootstrap"] for name in ("a", "b")}
        config = work / "lockstepd.yaml"
        config.write_text(
            f"data_dir: {work}/data\nlisten: 127.0.0.1:0\nclusters:\n"
            f"  - {{name: a, bootstrap_servers: '{brokers['a']}'}}\n"
            f"  - {{name: b, bootstrap_servers: '{brokers['b']}'}}\n", encoding="utf-8")
        port_file = work / "port"
        server = subprocess.Popen([build / "src/server/lockstepd", "--config", config,
                                   "--port-file", port_file], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not port_file.exists() and server.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        address = f"127.0.0.1:{port_file.read_text(encoding='utf-8').strip()}"
        # Brokers that have just started may take longer over their first transactional ids than a
        # commit waits for a lane.
        until = time.monotonic() + 120
        while True:
            done = subprocess.run([example, address, "a", "b", "orders"], capture_output=True, text=True,
                                  check=False)
            if " COMMITTED" in done.stdout:
                break
            if "no lane became free" not in done.stdout or time.monotonic() > until:
                sys.exit(f"the example, status {done.returncode}: {done.stdout}{done.stderr}")
    finally:
        if server is not None:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
        run(ROOT / "scripts" / "clusters", "stop", "--dir", clusters, "--remove")


def run_killed(build: Path, kind: str, program: Path) -> None:
    """A consumer and its producers: all that goes in comes out once, whoever is killed."""
    print(run(ROOT / "tests" / "clients" / "run_example", kind, "--lockstepd", build / "src/server/lockstepd",
              "--", program, "{lockstepd}", "a", "{a}", "b", "{b}"), end="")


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    folder = Path(tempfile.mkdtemp(prefix="lockstep-package.", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        install(build, folder / "prefix")
        programs = build_examples(folder / "prefix", folder / "project")
        run_transfer(programs / "transfer", build, folder)
        run_killed(build, "enrich", programs / "enrich")
        run_killed(build, "fan-out", programs / "fan_out")
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if len(sys.argv) > 1 else 1)
    sys.exit(main())
