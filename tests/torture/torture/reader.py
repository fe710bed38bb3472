#!/usr/bin/env python3
"""Reads all topics of one cluster, read_committed, from the beginning and for ever; run.py starts it.

  reader.py CLUSTER CONFIG.json

On SIGTERM it goes on to where the partitions end then, and ends: with 1 if it does not come there.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# pylint: disable=wrong-import-position
import confluent_kafka  # noqa: E402
from confluent_kafka import KafkaError, TopicPartition  # noqa: E402
from torture.history import History  # noqa: E402

AT_THE_END = 30.0  # seconds, to come there


class Reader:
    def __init__(self, cluster: str, config: dict[str, Any]) -> None:
        self.cluster = cluster
        self.history = History(Path(config["history"]), f"reader-{cluster}")
        self.stopping = threading.Event()
        self._consumer = confluent_kafka.Consumer({
            "bootstrap.servers": config["clusters"][cluster]["direct"], "group.id": "reader",
            "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0,
            "fetch.wait.max.ms": 100, "reconnect.backoff.max.ms": 500, "enable.partition.eof": True})
        # Another one: to the first, a partition ends at its last stable offset.
        self._uncommitted = confluent_kafka.Consumer({
            "bootstrap.servers": config["clusters"][cluster]["direct"], "group.id": "reader",
            "isolation.level": "read_uncommitted", "log_level": 0})
        self._come_to: dict[tuple[str, int], int] = {}
        self._partitions = [TopicPartition(topic, partition, 0)
                            for topic in config["topics"][cluster]
                            for partition in range(config["partitions"])]
        self._consumer.assign(self._partitions)

    def _read(self) -> None:
        by_partition: dict[tuple[str, int], list[list[Any]]] = {}
        for message in self._consumer.consume(2000, 0.2):
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if topic is None or partition is None or offset is None:
                continue  # An error that is no partition's.
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # pylint: disable=W0212
                    self._come_to[topic, partition] = offset
                continue
            value = message.value() or b""
            name, index, _ = value.split(b";", 2)
            by_partition.setdefault((topic, partition), []).append(
                [offset, name.decode(), int(index), len(value)])
        for (topic, partition), records in by_partition.items():
            self.history.write("read", c=self.cluster, topic=topic, p=partition, records=records)

    def _missing(self, ends: dict[tuple[str, int], int]) -> list[str]:
        return [f"{topic}-{partition}: {self._come_to.get((topic, partition))} of {end}"
                for (topic, partition), end in ends.items()
                if self._come_to.get((topic, partition), 0) < end]

    def run(self) -> int:
        while not self.stopping.is_set():
            self._read()
        deadline = time.monotonic() + AT_THE_END
        ends = {(at.topic, at.partition): self._uncommitted.get_watermark_offsets(at, timeout=10)[1]
                for at in self._partitions}
        while missing := self._missing(ends):
            if time.monotonic() > deadline:
                print(f"reader of {self.cluster}: {missing}", flush=True)
                return 1
            self._read()
        for (topic, partition), offset in ends.items():
            self.history.write("read_end", c=self.cluster, topic=topic, p=partition, offset=offset)
        return 0


def main() -> int:
    cluster, config_file = sys.argv[1:]
    reader = Reader(cluster, json.loads(Path(config_file).read_text(encoding="utf-8")))
    signal.signal(signal.SIGTERM, lambda *_: reader.stopping.set())
    return reader.run()


if __name__ == "__main__":
    sys.exit(main())
