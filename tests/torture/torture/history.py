"""What happened, as JSON lines: one file for each process, each line written whole before what it tells
of may have an effect, so that it survives the process's own kill -9.

Every event has `e`, its kind, and `at`, seconds of the machine's monotonic clock, which all processes
share.

Of clients (`t` names a transaction, for ever; `client` one that waits for each before it begins the next):

  intent    t client mode writes: [[cluster, topic, partition, index], ...]
            money: {index: change} of the bank; sources: [[partition, offset], ...] of the copier
  begun     t id
  ask       t op: commit, abort, execute, get
  answer    t op outcome [reason] [branches: {cluster: outcome}]
  failed    t op effect message     without an outcome
  vanished  t                       the client leaves it alone

Of readers, read_committed:

  read      c topic p: records: [[offset, t, index, bytes], ...]
  read_end  c topic p offset        they have come so far, and that was the end

Of the nemesis and of the run:

  fault     kind acted from to load detail [outage: true] [ids: transactional ids an operator ended]
  died      who status              a process ended that nobody killed
  healed                            the last fault is over
  settled   what after              seconds since healed
  unsettled what message            not within the hard limit
  final     t state [branches]      what the server says at the end
  group     c group topic p offset  committed
  process   when rss_kib threads files
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Iterator

Event = dict[str, Any]


class History:
    """Thread-safe. One file has one writer at a time; a new process goes on in a new file."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._lock = threading.Lock()

    def write(self, event: str, /, **values: Any) -> None:
        with self._lock:  # The time within: a file's lines are in the order of their times.
            line = json.dumps({"e": event, "at": round(time.monotonic(), 6), **values},
                              separators=(",", ":"))
            os.write(self._file, line.encode() + b"\n")


def events(folder: Path) -> Iterator[Event]:
    """Those of all files, each file's in its order. A torn last line is one that never was."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield json.loads(line)
