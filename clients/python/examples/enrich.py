"""Consumes `orders` on one cluster and produces them, enriched, to `enriched` on another. The offsets
there and the records here commit together, so each order is enriched exactly once, whatever crashes.

  enrich.py SERVER SOURCE=BOOTSTRAP TARGET               the records go through Lockstep
  enrich.py SERVER SOURCE=BOOTSTRAP TARGET=BOOTSTRAP     ... through a producer of the program's own

SOURCE and TARGET are the clusters' names in Lockstep's configuration. One instance; several need a
group.instance.id and a transactional.id each.
"""

import sys
from typing import Any, List, Optional

from confluent_kafka import Consumer

import lockstep
from lockstep.kafka import EnlistedProducer, offsets_of, rewind


def enriched(order: Any) -> bytes:
    return bytes(order.value()) + b" enriched"


def enrich(
    client: lockstep.Client,
    consumer: Consumer,
    orders: List[Any],
    source: str,
    target: str,
    producer: Optional[EnlistedProducer],
) -> None:
    with client.transaction(label="enrich") as txn:
        if producer is not None:
            branch = txn.enlist(producer)
            for order in orders:
                branch.produce("enriched", enriched(order), order.key())
        else:
            records = [lockstep.Record("enriched", enriched(order), order.key()) for order in orders]
            txn.produce_all(target, records)
        txn.send_offsets(source, offsets_of(consumer))
        # As long as it takes: only an outcome tells whether these orders are done.
        txn.commit(timeout=float("inf")).raise_unless_committed()


def main() -> None:
    server, source_at, target_at = sys.argv[1:]
    source, _, source_bootstrap = source_at.partition("=")
    target, _, target_bootstrap = target_at.partition("=")
    producer = None
    if target_bootstrap:
        producer = EnlistedProducer(
            target, {"bootstrap.servers": target_bootstrap, "transactional.id": "enrich-0"}
        )
    consumer = Consumer({
        "bootstrap.servers": source_bootstrap,
        "group.id": "enrich",
        "group.instance.id": "enrich-0",  # After a crash the next one need not wait for the last.
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })
    consumer.subscribe(["orders"])
    with lockstep.Client(server) as client:
        while True:
            orders = [order for order in consumer.consume(100, 0.05) if order.error() is None]
            if not orders:
                continue
            try:
                enrich(client, consumer, orders, source, target, producer)
                print(f"{len(orders)} orders", flush=True)
            except (lockstep.TransactionAborted, lockstep.CallFailed) as failed:
                print(f"again: {failed}", flush=True)
                rewind(consumer, orders)


if __name__ == "__main__":
    main()
