"""What an operator asks brokers for, over the wire."""

from __future__ import annotations

import struct

from local_kafka.protocol import Reader, ask, text

_INIT_PRODUCER_ID, _LIST_TRANSACTIONS = 22, 66


def _length(reader: Reader) -> int:
    """Of a compact string or array; below 128 in two bytes at most here."""
    value, shift = 0, 0
    while True:
        byte = reader.number("B")
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value - 1


def _compact_text(reader: Reader) -> str:
    return bytes(reader.number("B") for _ in range(_length(reader))).decode()


def transactions(port: int) -> dict[str, str]:
    """The state of each transactional.id whose coordinator this broker is."""
    reader = ask(port, _LIST_TRANSACTIONS, 0, b"\x01\x01\x00", flexible=True)
    reader.number()  # throttle time
    error = reader.number("h")
    if error:
        raise OSError(f"ListTransactions: error {error}")
    for _ in range(_length(reader)):
        _compact_text(reader)  # an unknown filter
    states = {}
    for _ in range(_length(reader)):
        name, _, state = _compact_text(reader), reader.number("q"), _compact_text(reader)
        states[name] = state
        reader.number("B")  # tagged fields
    return states


def open_transactions(port: int) -> dict[str, str]:
    return {name: state for name, state in transactions(port).items()
            if state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")}


def fence(port: int, transactional_id: str) -> int:
    """Ends what is open under the id, as fenceProducers of Kafka's admin client does. The error code."""
    reader = ask(port, _INIT_PRODUCER_ID, 0, text(transactional_id) + struct.pack(">i", 60000))
    reader.number()  # throttle time
    return reader.number("h")
