#!/usr/bin/env python3
"""The proxy before a broker that only echoes: what it says it does to requests, it does."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time
import unittest
from pathlib import Path
from typing import Callable

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
# pylint: disable=wrong-import-position
from torture.proxy import ADD_PARTITIONS, END_TXN, Loop, Proxy, transactional_id  # noqa: E402


def request(api: int, correlation: int, name: str = "lane", version: int = 1) -> bytes:
    header = struct.pack(">hhih", api, version, correlation, 2) + b"me"
    if version >= 3:
        return header + b"\0" + bytes([len(name) + 1]) + name.encode() + b"rest"
    return header + struct.pack(">h", len(name)) + name.encode() + b"rest"


class Broker:
    """Answers each request with its correlation id and zeros; keeps it."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))  # As long as the test.
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                frame = stream.read(struct.unpack(">i", head)[0])
                self.requests.append(frame)
                connection.sendall(struct.pack(">i", 12) + frame[4:8] + bytes(8))


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def send(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def answer(self) -> int | None:
        """The correlation id; None: the connection is cut."""
        try:
            data = self.socket.recv(16, socket.MSG_WAITALL)
        except ConnectionError:
            return None
        return struct.unpack_from(">i", data, 4)[0] if data else None

    def silent(self) -> bool:
        self.socket.settimeout(0.2)
        try:
            self.socket.recv(1)
            return False
        except socket.timeout:
            self.socket.settimeout(10)
            return True


def await_condition(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited 10 s")
        time.sleep(0.005)


class ProxyTest(unittest.TestCase):
    def setUp(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.broker = Broker()
        self.proxy = Proxy(Loop(), self.port, self.broker.port)
        self.connect()

    def connect(self) -> None:
        """Another connection, for good."""
        self.client = Client(self.port)
        self.addCleanup(self.client.socket.close)

    def ask(self, correlation: int, api: int = END_TXN) -> int | None:
        self.client.send(request(api, correlation))
        return self.client.answer()

    def test_ids_of_all_versions(self) -> None:
        for version in (0, 1, 3, 4):
            self.assertEqual(transactional_id(request(END_TXN, 1, "one", version)), "one")
        self.assertIsNone(transactional_id(request(ADD_PARTITIONS, 1, "one", 4)))

    def test_everything_passes(self) -> None:
        self.assertEqual([self.ask(1), self.ask(2)], [1, 2])
        self.assertEqual(self.broker.requests, [request(END_TXN, 1), request(END_TXN, 2)])

    def test_reset(self) -> None:
        self.assertEqual(self.ask(1), 1)
        self.proxy.reset()
        self.assertIsNone(self.client.answer())
        self.assertEqual(self.proxy.acted["reset"], 1)

    def test_blackhole(self) -> None:
        self.assertEqual(self.ask(1), 1)
        self.proxy.blackhole()
        self.client.send(request(END_TXN, 2))
        self.assertTrue(self.client.silent())
        self.proxy.heal()
        self.assertIsNone(self.client.answer())
        self.assertEqual(len(self.broker.requests), 1)
        self.connect()
        self.assertEqual(self.ask(3), 3)

    def test_delay(self) -> None:
        self.proxy.delay(0.05)
        began = time.monotonic()
        self.assertEqual(self.ask(1), 1)
        self.assertGreaterEqual(time.monotonic() - began, 0.1)

    def test_half_open(self) -> None:
        self.assertEqual(self.ask(1), 1)
        self.proxy.half_open()
        self.client.send(request(END_TXN, 2))
        self.assertTrue(self.client.silent())
        self.connect()
        self.assertEqual(self.ask(3), 3)
        self.assertEqual(len(self.broker.requests), 2)

    def test_an_answer_is_lost(self) -> None:
        self.proxy.lose_answers(1)
        self.assertIsNone(self.ask(1))
        self.assertEqual(self.broker.requests, [request(END_TXN, 1)])
        self.assertEqual(self.proxy.acted["answers lost"], 1)

    def test_an_end_comes_in_the_next_transaction(self) -> None:
        self.proxy.hold_ends(1)
        self.assertIsNone(self.ask(1))
        self.connect()
        self.client.send(request(ADD_PARTITIONS, 2, "another"))
        self.assertEqual(self.client.answer(), 2)
        self.assertEqual(self.proxy.held(), 1)
        self.assertEqual(self.ask(3, ADD_PARTITIONS), 3)
        await_condition(lambda: self.proxy.acted["late"] == 1)
        self.assertEqual(self.broker.requests[-1], request(END_TXN, 1))
        self.assertEqual(self.proxy.late, [("lane", 0)])
        self.assertEqual(self.proxy.acted["late, in the next transaction"], 1)

    def test_an_end_comes_twice(self) -> None:
        self.proxy.double_ends(1)
        self.assertIsNone(self.ask(1))
        await_condition(lambda: self.broker.requests == [request(END_TXN, 1)])
        self.connect()
        self.assertEqual(self.ask(2, ADD_PARTITIONS), 2)
        await_condition(lambda: self.proxy.acted["late"] == 1)
        self.assertEqual(self.broker.requests.count(request(END_TXN, 1)), 2)


if __name__ == "__main__":
    unittest.main()
