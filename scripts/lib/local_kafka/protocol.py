"""A little of Kafka's protocol: enough to ask whether a broker serves, and to create topics.

Versions are the newest that every Kafka from 3.9 on speaks in the old, simple encoding, where there
is one. The schemas are the files common/message/*.json in the kafka-clients jar.
"""

from __future__ import annotations

import re
import socket
import struct
from dataclasses import dataclass, field
from typing import Callable, Sequence, TypeVar

from .basics import HOST, Failure

# Internal topic -> FindCoordinator's key type.
COORDINATOR_TOPICS = {"__transaction_state": 1, "__consumer_offsets": 0}

T = TypeVar("T")

_NONE = 0
_LOAD_IN_PROGRESS, _NOT_AVAILABLE, _NOT_COORDINATOR = 14, 15, 16
_TOPIC_ALREADY_EXISTS = 36
_METADATA, _FIND_COORDINATOR, _DESCRIBE_GROUPS, _CREATE_TOPICS = 3, 10, 15, 19
_DESCRIBE_TRANSACTIONS = 65


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, code: str = "i") -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def text(self) -> str:
        size = max(self.number("h"), 0)
        self._at += size
        return self._data[self._at - size:self._at].decode()

    def array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.number())]


def ask(port: int, api: int, version: int, body: bytes, flexible: bool = False) -> Reader:
    """One request on a connection of its own; the answer's body. OSError: nobody answers."""
    header = struct.pack(">hhi", api, version, 1) + text("lockstep-clusters")
    request = header + (b"\0" if flexible else b"") + body
    with socket.create_connection((HOST, port), timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            if len(size) < 4:
                raise EOFError("connection closed")
            reader = Reader(stream.read(struct.unpack(">i", size)[0]))
    reader.number()  # correlation id
    if flexible:
        reader.number("b")
    return reader


@dataclass
class Partition:
    index: int
    leader: int  # -1: none
    replicas: list[int]


@dataclass
class Metadata:
    brokers: set[int]
    topics: dict[str, list[Partition]]


def fetch_metadata(port: int) -> Metadata:
    """What this broker knows of its cluster: live brokers and all topics."""
    reader = ask(port, _METADATA, 4, struct.pack(">ib", -1, 0))

    def broker() -> int:
        node, _, _, _ = reader.number(), reader.text(), reader.number(), reader.text()
        return node

    def partition() -> Partition:
        _, index, leader = reader.number("h"), reader.number(), reader.number()
        replicas, _ = reader.array(reader.number), reader.array(reader.number)
        return Partition(index, leader, replicas)

    def topic() -> tuple[str, list[Partition]]:
        _, name, _ = reader.number("h"), reader.text(), reader.number("b")
        return name, reader.array(partition)

    reader.number()  # throttle time
    brokers = set(reader.array(broker))
    _, _ = reader.text(), reader.number()  # cluster id, controller
    return Metadata(brokers, dict(reader.array(topic)))


def coordinator_exists(port: int, topic: str) -> bool:
    """As a side effect the broker creates the coordinator's topic if need be."""
    key_type = struct.pack(">b", COORDINATOR_TOPICS[topic])
    reader = ask(port, _FIND_COORDINATOR, 1, text("any") + key_type)
    reader.number()  # throttle time
    return reader.number("h") == _NONE


def coordinator_loaded(port: int, topic: str, partition: int, partitions: int) -> bool:
    """Whether this broker, the partition's leader, has read it and answers as its coordinator."""
    key = _coordinator_key(partition, partitions)
    if topic == "__transaction_state":
        compact_array = struct.pack(">BB", 2, len(key) + 1) + key.encode() + b"\0"
        reader = ask(port, _DESCRIBE_TRANSACTIONS, 0, compact_array, flexible=True)
        reader.number(), reader.number("B")  # throttle time, length
    else:
        reader = ask(port, _DESCRIBE_GROUPS, 0, _array([text(key)]))
        reader.number()  # length
    return reader.number("h") not in (_LOAD_IN_PROGRESS, _NOT_AVAILABLE, _NOT_COORDINATOR)


def _coordinator_key(partition: int, partitions: int) -> str:
    """Some id whose coordinator leads this partition: Utils.abs(id.hashCode()) % partitions."""
    for number in range(1000 * partitions):
        code = 0
        for character in str(number):
            code = (31 * code + ord(character)) & 0xFFFFFFFF
        if (code & 0x7FFFFFFF) % partitions == partition:
            return str(number)
    raise Failure(f"no id found for coordinator partition {partition} of {partitions}")


@dataclass
class Topic:
    name: str
    partitions: int = 1
    nodes: Sequence[int] = ()  # the partitions' leaders, in turn; empty: the controller's choice
    configs: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> Topic:
        match = re.fullmatch(r"([\w.-]+)(?::(\d+))?(?:@(\d+(?:,\d+)*))?", text)
        if match is None:
            raise Failure(f"not a topic: {text} (NAME, NAME:PARTITIONS, NAME:PARTITIONS@NODE,...)")
        nodes = [int(node) for node in match[3].split(",")] if match[3] else []
        return Topic(match[1], int(match[2] or 1), nodes)

    def encode(self) -> bytes:
        def node(number: int) -> bytes:
            return struct.pack(">i", number)

        # Partitions given one by one: then their number and replication must be -1.
        assignments = [node(index) + _array([node(self.nodes[index % len(self.nodes)])])
                       for index in range(self.partitions)] if self.nodes else []
        counts = struct.pack(">ih", -1 if self.nodes else self.partitions, -1)
        configs = [text(key) + text(value) for key, value in self.configs.items()]
        return text(self.name) + counts + _array(assignments) + _array(configs)


def create_topics(port: int, topics: Sequence[Topic]) -> None:
    """Returns when the controller has created what was missing; brokers may not know it yet."""
    body = _array([topic.encode() for topic in topics]) + struct.pack(">ib", 30000, 0)
    reader = ask(port, _CREATE_TOPICS, 4, body)
    reader.number()  # throttle time
    for name, code, message in reader.array(
            lambda: (reader.text(), reader.number("h"), reader.text())):
        if code not in (_NONE, _TOPIC_ALREADY_EXISTS):
            raise Failure(f"the broker refused topic {name}: error {code}, {message}")
