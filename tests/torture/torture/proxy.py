"""A TCP proxy before one broker, which loses, delays and repeats what a network may, and knows as much
of Kafka's protocol as it takes to do that to chosen requests.

It runs on an event loop in a thread of its own; its methods are called from any other thread, and return
once they hold. `acted` counts what was done to whom.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter
from typing import Any, Awaitable, Callable, TypeVar

PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 0, 24, 25, 26, 28
_BEGINS = (ADD_PARTITIONS, ADD_OFFSETS)
_HOLD_AT_MOST = 3.0  # seconds: then what is held is delivered, whatever has begun
_CHUNK = 1 << 16

Result = TypeVar("Result")


class Loop:
    """An event loop that runs for ever."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def call(self, function: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
        async def run() -> Result:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()


def transactional_id(frame: bytes) -> str | None:
    """That of an EndTxn, AddPartitionsToTxn or AddOffsetsToTxn request as clients send them."""
    api, version = struct.unpack_from(">hh", frame)
    (size,) = struct.unpack_from(">h", frame, 8)
    at = 10 + max(size, 0)
    if version >= 3:  # Flexible in all three: a header with tagged fields, compact strings.
        if frame[at] != 0 or (api == ADD_PARTITIONS and version >= 4):
            return None
        size, at = frame[at + 1] - 1, at + 2
    else:
        (size,) = struct.unpack_from(">h", frame, at)
        at += 2
    return frame[at:at + size].decode()


class _Connection:
    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.broker: asyncio.StreamWriter | None = None
        self.dead = False  # What either side says is heard by nobody, and the other is not told.
        self.lose: set[int] = set()  # correlation ids whose answers are lost, and the connection then

    def cut(self) -> None:
        for writer in (self.client, self.broker):
            if writer is not None:
                with contextlib.suppress(OSError):  # A reset, as by a router that has forgotten it.
                    writer.get_extra_info("socket").setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()


class Proxy:
    def __init__(self, loop: Loop, port: int, broker_port: int) -> None:
        self.acted: Counter[str] = Counter()
        self._loop, self._broker_port = loop, broker_port
        self._connections: set[_Connection] = set()
        self._delay = 0.0
        self._answers_to_lose = 0
        self._to_hold = 0
        self._to_double = 0
        self._held: dict[str, asyncio.Event] = {}  # transactional id: set once its next one has begun
        self._tasks: set[asyncio.Task[None]] = set()
        self.late: list[tuple[str, int]] = []  # transactional id, the broker's error code

        async def listen() -> asyncio.Event:
            await asyncio.start_server(self._serve, "127.0.0.1", port)
            way = asyncio.Event()
            way.set()
            return way

        self._way = loop.call(listen)

    # ---- Faults -------------------------------------------------------------------------------------

    def blackhole(self) -> None:
        """Nothing passes, in no direction, and nobody is told; until `heal`."""

        async def do() -> None:
            self._way.clear()
            self.acted["blackhole"] += len(self._connections)

        self._loop.call(do)

    def reset(self) -> None:
        """Cuts all connections."""

        async def do() -> None:
            self.acted["reset"] += len(self._connections)
            for connection in self._connections:
                connection.cut()

        self._loop.call(do)

    def delay(self, seconds: float) -> None:
        """Each request and each answer waits so long; until `heal`."""

        async def do() -> None:
            self._delay = seconds

        self._loop.call(do)

    def half_open(self) -> None:
        """The connections there are stay open and carry nothing any more. New ones do."""

        async def do() -> None:
            for connection in self._connections:
                if connection.broker is not None and not connection.dead:
                    connection.dead = True
                    connection.broker.transport.abort()
                    self.acted["half-open"] += 1

        self._loop.call(do)

    def lose_answers(self, count: int) -> None:
        """The next so many requests that change a transaction are carried out; then, instead of the
        answer, the connection is cut."""

        async def do() -> None:
            self._answers_to_lose = count

        self._loop.call(do)

    def hold_ends(self, count: int) -> None:
        """The next so many EndTxn: the connection is cut, and the broker gets the request once the next
        transaction of the same transactional.id has begun, or after some seconds."""

        async def do() -> None:
            self._to_hold = count

        self._loop.call(do)

    def double_ends(self, count: int) -> None:
        """The next so many EndTxn: the broker gets each at once and, as with hold_ends, once more.
        The connection is cut: TCP doubles nothing that was answered."""

        async def do() -> None:
            self._to_double = count

        self._loop.call(do)

    def heal(self) -> None:
        """Lets everything pass. Connections that were silent are cut: what they hold was lost."""

        async def do() -> None:
            if not self._way.is_set():
                for connection in self._connections:
                    connection.cut()
            self._way.set()
            self._delay = 0.0
            self._answers_to_lose = self._to_hold = self._to_double = 0

        self._loop.call(do)

    def held(self) -> int:
        """Requests that are still to be delivered."""
        return len(self._tasks)

    # ---- The way --------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._connections.add(connection)
        try:
            await self._way.wait()
            broker, connection.broker = await asyncio.open_connection(
                "127.0.0.1", self._broker_port, limit=1 << 20)
            await asyncio.gather(self._pump(connection, reader, connection.broker, self._on_request),
                                 self._pump(connection, broker, writer, self._on_answer))
            # The client may go on talking to nobody, until it gives up by itself.
            while connection.dead and await reader.read(_CHUNK):
                pass
        except OSError:
            pass
        finally:
            self._connections.discard(connection)
            for each in (writer, connection.broker):
                if each is not None:
                    each.close()

    async def _pump(self, connection: _Connection, source: asyncio.StreamReader,
                    target: asyncio.StreamWriter,
                    look: Callable[[_Connection, bytes], bool]) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while not connection.dead:
                head = await source.readexactly(4)
                frame = await source.readexactly(struct.unpack(">i", head)[0])
                await self._way.wait()
                if self._delay:
                    await asyncio.sleep(self._delay)
                    self.acted["delay"] += 1
                if connection.dead:
                    return
                if not look(connection, frame):
                    connection.cut()
                    return
                target.write(head + frame)
                await target.drain()
        if not connection.dead:
            target.close()

    def _on_request(self, connection: _Connection, frame: bytes) -> bool:
        """Whether it passes; else the connection is cut."""
        api, _, correlation = struct.unpack_from(">hhi", frame)
        if api in _BEGINS and self._held:
            if (waits := self._held.get(transactional_id(frame) or "")) is not None:
                waits.set()
        if api == END_TXN and self._to_hold:
            self._to_hold -= 1
            self.acted["held"] += 1
            self._deliver_late(frame)
            return False
        if api == END_TXN and self._to_double:
            self._to_double -= 1
            self.acted["doubled"] += 1
            self._deliver_late(frame, at_once=True)
            return False
        if self._answers_to_lose and api in (PRODUCE, *_BEGINS, END_TXN, TXN_OFFSET_COMMIT):
            self._answers_to_lose -= 1
            connection.lose.add(correlation)
        return True

    def _on_answer(self, connection: _Connection, frame: bytes) -> bool:
        if connection.lose and struct.unpack_from(">i", frame)[0] in connection.lose:
            self.acted["answers lost"] += 1
            return False
        return True

    def _deliver_late(self, frame: bytes, at_once: bool = False) -> None:
        name = transactional_id(frame) or ""
        begun = self._held[name] = asyncio.Event()

        async def deliver() -> None:
            if at_once:
                await self._deliver(frame)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(begun.wait(), _HOLD_AT_MOST)
                self.acted["late, in the next transaction"] += 1
            if self._held.get(name) is begun:
                del self._held[name]
            if (code := await self._deliver(frame)) is not None:
                self.late.append((name, code))
                self.acted["late"] += 1

        task = asyncio.get_running_loop().create_task(deliver())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, frame: bytes) -> int | None:
        """The broker's error code; None: it did not answer."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
            writer.write(struct.pack(">i", len(frame)) + frame)
            answer = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            return None
        # Correlation id, tagged fields if flexible, throttle time, error code.
        flexible = struct.unpack_from(">h", frame, 2)[0] >= 3
        return int(struct.unpack_from(">h", answer, 9 if flexible else 8)[0])
