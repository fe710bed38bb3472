"""The clients' and readers' processes, and how much they get done."""

from __future__ import annotations

import collections
import json
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from .history import History

_HERE = Path(__file__).resolve().parent
_WORKERS = ("managed0", "managed1", "own", "bank", "copier0", "copier1", "feeder")
_SAMPLE = 0.1  # seconds
_WINDOW = 10  # samples: the load is that of the last second


class Crew:
    def __init__(self, folder: Path, config: dict[str, Any], history: History, seed: int) -> None:
        self._folder, self._history, self._seed = folder, history, seed
        self._config_file = folder / "config.json"
        self._config_file.write_text(json.dumps(config), encoding="utf-8")
        self._counters = Path(config["counters"])
        self._counters.mkdir()
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._generations: collections.Counter[str] = collections.Counter()
        self._readers: dict[str, subprocess.Popen[bytes]] = {}
        self._samples: collections.deque[int] = collections.deque([0], maxlen=_WINDOW + 1)
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def _spawn(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / "clients.log").open("ab") as log:
            return subprocess.Popen([sys.executable, *words], stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL)

    def start(self) -> None:
        for cluster in "ab":
            self._readers[cluster] = self._spawn(str(_HERE / "reader.py"), cluster,
                                                 str(self._config_file))
        for name in _WORKERS:
            self._start_worker(name)
        threading.Thread(target=self._watch, daemon=True).start()

    def _start_worker(self, name: str) -> None:
        self._generations[name] += 1
        self._workers[name] = self._spawn(str(_HERE / "worker.py"), name, str(self._config_file),
                                          str(self._generations[name]), str(self._seed))

    def _watch(self) -> None:
        """Samples the load, and starts again who has ended."""
        while not self._stopping.wait(_SAMPLE):
            with self._lock:
                for name, process in self._workers.items():
                    status = process.poll()
                    if status is None or self._stopping.is_set():
                        continue
                    if status not in (0, -signal.SIGKILL):
                        self._history.write("died", who=name, status=status)
                    self._start_worker(name)
            self._samples.append(self.done())

    def done(self) -> int:
        """Transactions that committed."""
        total = 0
        for path in self._counters.iterdir():
            data = path.read_bytes()
            total += struct.unpack("<q", data)[0] if len(data) == 8 else 0
        return total

    def load(self) -> float:
        """Per second, in the last second."""
        samples = list(self._samples)
        return max(0, samples[-1] - samples[0]) / (_SAMPLE * _WINDOW)

    def kill_some(self, chance: random.Random) -> list[str]:
        """kill -9. Who."""
        with self._lock:
            names = chance.sample([name for name in _WORKERS if name != "feeder"], 3)
            killed = [name for name in names if self._workers[name].poll() is None]
            for name in killed:
                self._workers[name].kill()
        return killed

    def stop_workers(self, seconds: float) -> list[str]:
        """Each ends what it has begun. Who did not, and was killed."""
        self._stopping.set()
        with self._lock:
            for process in self._workers.values():
                process.terminate()
        deadline = time.monotonic() + seconds
        late = []
        for name, process in self._workers.items():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                late.append(name)
        return late

    def stop_readers(self) -> list[str]:
        """Each reads to the end. Whose did not come there."""
        for process in self._readers.values():
            process.terminate()
        return [cluster for cluster, process in self._readers.items() if process.wait() != 0]

    def kill_all(self) -> None:
        self._stopping.set()
        with self._lock:
            for process in [*self._workers.values(), *self._readers.values()]:
                if process.poll() is None:
                    process.kill()
                    process.wait()
