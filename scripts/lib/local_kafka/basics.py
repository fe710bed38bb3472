"""Failures, waiting, files and ports."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import random
import socket
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

HOST = "127.0.0.1"
_GIVE_UP = threading.Event()  # one of several waits failed: the others end, too


class Failure(Exception):
    """What went wrong, in words for the person at the terminal."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def await_condition(what: str, seconds: float, condition: Callable[[], bool]) -> None:
    """Polls until the condition holds; a broken connection means "not yet"."""
    deadline = time.monotonic() + seconds
    while True:
        answer = "not yet"
        try:
            if condition():
                return
        except (OSError, EOFError) as error:
            answer = str(error) or type(error).__name__
        if _GIVE_UP.is_set():
            raise Failure(f"gave up waiting for {what}")
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds:.0f} s for {what}: {answer}")
        time.sleep(0.02)


def in_parallel(action: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
    """The action once for each tuple of arguments, side by side; the first failure ends all."""
    with ThreadPoolExecutor(max_workers=max(1, len(arguments))) as pool:
        try:
            for done in as_completed([pool.submit(action, *each) for each in arguments]):
                done.result()
        except BaseException:
            _GIVE_UP.set()
            raise
        finally:
            pool.shutdown()
            _GIVE_UP.clear()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock among processes; it ends with the holder, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def random_kafka_uuid() -> str:
    """22 base64 characters; like Kafka's own, none starts with a dash: they go on command lines."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def reserve_ports(count: int, owner: Path) -> list[int]:
    """Free ports that stay reserved for the folder `owner` as long as it exists.

    They lie below the kernel's ephemeral range, so that no outgoing connection takes one while its
    broker is down. There is one registry a user, whatever TMPDIR or cache a run has.
    """
    registry = Path("/tmp") / f"lockstep-ports-{os.getuid()}"
    registry.mkdir(mode=0o700, exist_ok=True)
    if registry.stat().st_uid != os.getuid():
        raise Failure(f"{registry} belongs to somebody else")
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = list(range(max(1024, ephemeral - 12000), ephemeral))
    random.shuffle(candidates)
    ports: list[int] = []
    with locked(registry / "lock"):
        for port in candidates:
            reservation = registry / str(port)
            taken = reservation.exists() and Path(reservation.read_text()).is_dir()
            if taken or not _port_is_free(port):
                continue
            reservation.write_text(str(owner))
            ports.append(port)
            if len(ports) == count:
                return ports
    raise Failure("no free ports left")
