"""lockstepd as a process that is killed and started again, on one data folder and at one address."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Callable

from local_kafka.basics import Failure


def await_condition(what: str, seconds: float, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.01)


class Server:
    """One thread, but for `alive`."""

    def __init__(self, folder: Path, lockstepd: str, ctl: str, port: int, clusters: dict[str, str],
                 settings: str, disk: Path) -> None:
        self.address = f"127.0.0.1:{port}"
        self.data = folder / "data"
        self.log = folder / "lockstepd.log"
        self.starts = 0
        self._port, self._ctl, self._disk = port, ctl, disk
        self._config = folder / "lockstepd.yaml"
        self._config.write_text(
            f"listen: {self.address}\ndata_dir: {self.data}\n{settings}clusters:\n" + "".join(
                f"  - name: {name}\n    bootstrap_servers: {address}\n"
                f"    transaction_timeout: 20s\n    lanes:\n      min: 6\n      max: 6\n"
                for name, address in clusters.items()), encoding="utf-8")
        self._command = [lockstepd, "--config", str(self._config)]
        self.process: subprocess.Popen[bytes] | None = None
        points = subprocess.run([lockstepd, "--list-failpoints"], stdout=subprocess.PIPE, check=True)
        self.failpoints = [line.split()[0] for line in points.stdout.decode().splitlines()]

    def start(self, *failpoints: str, wait: bool = True) -> None:
        words = ["--enable-failpoints"] if failpoints else []
        for failpoint in failpoints:
            words += ["--failpoint", failpoint]
        with self.log.open("ab") as log:
            log.write(f"--- start {self.starts + 1} {' '.join(words)}\n".encode())
            log.flush()
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                self._command + words, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "LD_PRELOAD": str(self._disk), "LOCKSTEP_FULL_DISK": str(self.data)})
        self.starts += 1
        if wait:
            await_condition("lockstepd to serve", 30, lambda: not self.alive() or self._listens())

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> bool:
        """kill -9. Whether it lived."""
        if self.process is None or self.process.poll() is not None:
            return False
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def await_end(self, seconds: float) -> int | None:
        """Its wait status once it has ended by itself; None: it has not."""
        try:
            assert self.process is not None
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def spoil_disk(self, how: str) -> None:
        self.data.with_suffix(f".{how}").touch()

    def mend_disk(self) -> None:
        for how in ("full", "bad", "slow"):
            self.data.with_suffix(f".{how}").unlink(missing_ok=True)

    def ctl(self, *words: str) -> Any:
        """lockstepctl's answer; None where it failed."""
        ran = subprocess.run([self._ctl, "--server", self.address, "--output", "json",
                              "--deadline", "5s", *words], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=False)
        return json.loads(ran.stdout) if ran.returncode == 0 and ran.stdout else None

    def in_doubt(self) -> list[dict[str, Any]] | None:
        """Decisions with their state; None: nobody answered."""
        answer = self.ctl("in-doubt")
        return None if answer is None else answer["in_doubt"]

    def resources(self) -> dict[str, int]:
        assert self.process is not None
        proc = Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return {"rss_kib": int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]),
                "files": len(list((proc / "fd").iterdir()))}


def failpoint_under_load(name: str, chance: random.Random) -> str:
    """At some hit that comes once there is load again."""
    seldom = name in ("coordinator.abort_chosen", "lane.after_offsets")
    return f"{name}=crash#{chance.randint(1, 4) if seldom else chance.randint(20, 120)}"
