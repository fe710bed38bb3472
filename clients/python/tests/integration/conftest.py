"""Two real clusters, and a lockstepd of each test module's own (its path in LOCKSTEPD)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

import pytest

import lockstep

ROOT = Path(__file__).resolve().parents[4]


def await_that(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited too long: {what}"
        time.sleep(0.02)


class Clusters:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.command("start", "--name", "a", "--name", "b")
        self.bootstrap: Dict[str, str] = {
            name: json.loads((folder / name / "cluster.json").read_text())["bootstrap"]
            for name in ("a", "b")
        }

    def command(self, name: str, *arguments: str) -> None:
        command = [str(ROOT / "scripts" / "clusters"), name, "--dir", str(self._folder), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def topic(self, cluster: str, *topics: str) -> None:
        arguments = [word for topic in topics for word in ("--topic", topic)]
        self.command("topic", "--name", cluster, *arguments)


class Process:
    """Something that is killed and started again."""

    def __init__(self, command: List[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self, *more: str) -> None:
        assert not self.running()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._command, *more], stdout=log, stderr=log)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)

    def log(self) -> str:
        return self._log.read_text(errors="replace")


class Lockstepd(Process):
    def __init__(self, folder: Path, clusters: Clusters) -> None:
        self._port_file = folder / "port"
        self.port = 0
        self._config = folder / "lockstepd.yaml"
        self._data = folder / "data"
        self._clusters = clusters.bootstrap
        self._write_config()
        command = [os.environ["LOCKSTEPD"], "--config", str(self._config)]
        super().__init__([*command, "--port-file", str(self._port_file)], folder / "lockstepd.log")

    def _write_config(self) -> None:
        lines = [f"listen: 127.0.0.1:{self.port}", f"data_dir: {self._data}", "clusters:"]
        for name, bootstrap in self._clusters.items():
            lines.append(f"  - {{name: {name}, bootstrap_servers: '{bootstrap}'}}")
        self._config.write_text("\n".join(lines) + "\n")

    def start(self, *more: str) -> None:
        """Returns once it serves; at the same port each time."""
        self._port_file.unlink(missing_ok=True)
        super().start(*more)
        await_that(lambda: self._port_file.exists() or not self.running(), "lockstepd to serve")
        assert self.running(), self.log()[-2000:]
        self.port = int(self._port_file.read_text())
        self._write_config()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def in_the_end(commit: Callable[[], lockstep.TxnResult]) -> lockstep.TxnResult:
    """Brokers that have just started may take longer over their first transactional ids than a commit
    waits for a lane."""
    until = time.monotonic() + 60
    while True:
        result = commit()
        if result.abort is None or not result.abort.retryable or time.monotonic() > until:
            return result


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    # On disk, as brokers expect, and with a short path.
    with tempfile.TemporaryDirectory(prefix="lockstep-python.", dir="/var/tmp") as folder:
        two = Clusters(Path(folder))
        try:
            yield two
        finally:
            two.command("stop")


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    # Not on a tmpfs, which lockstepd refuses.
    with tempfile.TemporaryDirectory(prefix="lockstep-python.", dir="/var/tmp") as path:
        yield Path(path)


@pytest.fixture(scope="session")
def lockstepd(clusters: Clusters, folder: Path) -> Iterator[Lockstepd]:
    daemon = Lockstepd(folder, clusters)
    daemon.start()
    try:
        with lockstep.Client(daemon.address) as client:
            clusters.topic("a", "warm")
            clusters.topic("b", "warm")
            work = [lockstep.Work(name, [lockstep.Record("warm")]) for name in ("a", "b")]
            result = in_the_end(lambda: client.execute(work).result)
            assert result.outcome is lockstep.Outcome.COMMITTED, result
        yield daemon
    finally:
        daemon.end()


@pytest.fixture
def client(lockstepd: Lockstepd) -> Iterator[lockstep.Client]:
    with lockstep.Client(lockstepd.address) as one:
        yield one
