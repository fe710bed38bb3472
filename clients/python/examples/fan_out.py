"""Copies `events` of one cluster to `events-copy` on several, such as a primary and its stand-by: each
event is there on all of them, or on none, exactly once, and the offsets go along.

  fan_out.py SERVER SOURCE=BOOTSTRAP TARGET [TARGET ...]

SOURCE and TARGET are the clusters' names in Lockstep's configuration. One instance; several need a
group.instance.id each.
"""

import sys
from typing import Any, List

from confluent_kafka import Consumer

import lockstep
from lockstep.kafka import offsets_of, rewind


def copy(event: Any) -> lockstep.Record:
    return lockstep.Record(
        "events-copy",
        event.value(),
        event.key(),
        headers=event.headers() or (),
        timestamp=event.timestamp()[1],
    )


def fan_out(
    client: lockstep.Client, consumer: Consumer, events: List[Any], source: str, targets: List[str]
) -> None:
    with client.transaction(label="fan-out") as txn:
        for target in targets:
            txn.produce_all(target, [copy(event) for event in events])
        txn.send_offsets(source, offsets_of(consumer))
        # As long as it takes: only an outcome tells whether these events are done.
        txn.commit(timeout=float("inf")).raise_unless_committed()


def main() -> None:
    server, source_at, *targets = sys.argv[1:]
    source, _, bootstrap = source_at.partition("=")
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "fan-out",
        "group.instance.id": "fan-out-0",  # After a crash the next one need not wait for the last.
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })
    consumer.subscribe(["events"])
    with lockstep.Client(server) as client:
        while True:
            events = [event for event in consumer.consume(100, 0.05) if event.error() is None]
            if not events:
                continue
            try:
                fan_out(client, consumer, events, source, targets)
                print(f"{len(events)} events", flush=True)
            except (lockstep.TransactionAborted, lockstep.CallFailed) as failed:
                print(f"again: {failed}", flush=True)
                rewind(consumer, events)


if __name__ == "__main__":
    main()
