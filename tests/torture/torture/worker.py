#!/usr/bin/env python3
"""One process of clients, which work until SIGTERM; run.py starts it. May be killed at any time.

  worker.py ROLE CONFIG.json GENERATION SEED

ROLE: `managed` (records through lockstepd, call by call or in one), `own` (producers of their own, with
or without lockstepd's beside them), `bank` (money between accounts on different clusters), `copier`
(from topic source on a to topic copies on b, offsets included), `feeder` (fills source).
"""

from __future__ import annotations

import json
import logging
import mmap
import random
import signal
import struct
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# pylint: disable=wrong-import-position
import confluent_kafka  # noqa: E402
import lockstep  # noqa: E402
from lockstep.kafka import EnlistedProducer, offsets_of, rewind  # noqa: E402
from torture.history import History  # noqa: E402

ACCOUNTS = 20
BIG = 350_000  # bytes; four of them are more than a batch or a message may have
PATIENCE = 20.0  # seconds, for each time that an outcome is asked for

logging.getLogger("lockstep").setLevel(logging.ERROR)


def value_of(name: str, index: int, size: int) -> bytes:
    return f"{name};{index};".encode() + b"x" * size


Writes = Sequence[Sequence[Any]]  # of [cluster, topic, partition, index], as the history has them


def records_of(name: str, cluster: str, writes: Writes, size: int) -> list[lockstep.Record]:
    return [lockstep.Record(topic, value_of(name, index, size), partition=partition)
            for at, topic, partition, index in writes if at == cluster]


def work_of(name: str, writes: Writes, size: int) -> list[lockstep.Work]:
    """Clusters in the order of their first records: the same again for the same key."""
    return [lockstep.Work(cluster, records_of(name, cluster, writes, size))
            for cluster in dict.fromkeys(write[0] for write in writes)]


def branches_of(branches: Iterable[lockstep.Branch]) -> dict[str, list[str]]:
    """As the history has them."""
    return {branch.cluster: [branch.outcome.value, branch.transactional_id] for branch in branches}


class Counter:
    """How many transactions committed: read by another process, whatever becomes of this one."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._value = 0
        self._lock = threading.Lock()

    def add(self) -> None:
        with self._lock:
            self._value += 1
            struct.pack_into("<q", self._map, 0, self._value)


class Process:
    """What the clients of one process share."""

    def __init__(self, role: str, config: dict[str, Any], generation: str, seed: int) -> None:
        self.role, self.config, self.generation, self.seed = role, config, generation, seed
        self.history = History(Path(config["history"]), f"{role}-{generation}")
        self.counter = Counter(Path(config["counters"]) / f"{role}-{generation}")
        self.client = lockstep.Client(config["server"], options=lockstep.RetryOptions(
            call_timeout=PATIENCE, attempt_timeout=4.0, first_backoff=0.02, max_backoff=0.25))
        self.stopping = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.stopping.set())

    def run(self, clients: list[Client]) -> None:
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Client:
    """Does one transaction after the other."""

    def __init__(self, process: Process, number: int) -> None:
        self.process, self.number = process, number
        self.name = f"{process.role}.{process.generation}.{number}"
        self.random = random.Random(f"{process.seed} {self.name}")
        self.client, self.history = process.client, process.history
        self._count = 0

    def run(self) -> None:
        while not self.process.stopping.is_set():
            self._count += 1
            try:
                self.one(f"{self.name}.{self._count}")
            except (lockstep.LockstepError, confluent_kafka.KafkaException):
                pass  # It is in the history; what was begun was left, and aborts.
            except Exception as defect:  # pylint: disable=broad-except
                self.history.write("died", who=self.name, status=repr(defect))
                raise

    def one(self, name: str) -> None:
        raise NotImplementedError

    # ---- What is written ------------------------------------------------------------------------------

    def places(self, clusters: str, most: int = 4) -> list[tuple[str, str, int, int]]:
        """Of 1 to `most` records, at least one on each cluster."""
        count = self.random.randint(len(clusters), max(most, len(clusters)))
        chosen = list(clusters) + self.random.choices(clusters, k=count - len(clusters))
        partitions = self.process.config["partitions"]
        return [(cluster, "data", self.random.randrange(partitions), index)
                for index, cluster in enumerate(sorted(chosen))]

    def size(self) -> int:
        return BIG if self.random.random() < 0.01 else self.random.randint(10, 200)

    def intent(self, name: str, mode: str, writes: list[tuple[str, str, int, int]], **values: Any) -> None:
        self.history.write("intent", t=name, client=self.name, mode=mode, writes=writes, **values)

    # ---- How it ends ----------------------------------------------------------------------------------

    def ask(self, name: str, op: str, call: Callable[[], Any]) -> lockstep.TxnResult | None:
        """The answer, as the history has it, or none."""
        self.history.write("ask", t=name, op=op)
        asked = time.monotonic()
        try:
            answer = call()
        except lockstep.OutcomeUnknown as unknown:
            self.history.write("failed", t=name, op=op, effect="UNKNOWN", message=str(unknown.why))
            return None
        except lockstep.CallFailed as failed:
            self.history.write("failed", t=name, op=op, effect=failed.effect.value, message=str(failed))
            if failed.effect is lockstep.Effect.NONE:
                raise
            return None
        result: lockstep.TxnResult = answer
        if isinstance(answer, lockstep.Executed):
            self.history.write("begun", t=name, id=answer.txn_id)
            result = answer.result
        elif isinstance(answer, lockstep.TxnInfo):
            outcome = answer.state.value
            self.history.write("answer", t=name, op=op, asked=asked, outcome=outcome)
            return None
        self.history.write("answer", t=name, op=op, asked=asked, outcome=result.outcome.value,
                           reason=result.abort.reason if result.abort else "",
                           branches=branches_of(result.branches))
        if result.outcome is lockstep.Outcome.COMMITTED:
            self.process.counter.add()
        return result

    def until_known(self, name: str, op: str, call: Callable[[], Any]) -> lockstep.TxnResult | None:
        for _ in range(6):
            result = self.ask(name, op, call)
            if result is not None and result.outcome is not lockstep.Outcome.COMMITTING:
                return result
            if self.process.stopping.is_set():  # The run asks for what is left.
                break
        return None

    def at_once(self, *calls: Callable[[], Any]) -> None:
        threads = [threading.Thread(target=self._quietly, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def commit_and_abort(self, name: str, txn: lockstep.Transaction) -> None:
        self.at_once(lambda: self.until_known(name, "commit", txn.commit),
                     lambda: self.until_known(name, "abort", lambda: self.client.abort(txn.id)))

    @staticmethod
    def _quietly(call: Callable[[], Any]) -> None:
        try:
            call()
        except lockstep.LockstepError:
            pass  # In the history.

    def look(self, name: str, txn_id: str) -> None:
        """Now and then: an outcome that was told must stay."""
        if self.random.random() < 0.05:
            self.ask(name, "get", lambda: self.client.get_txn(txn_id))


class Managed(Client):
    def one(self, name: str) -> None:
        writes = self.places(self.random.choice(["ab", "ab", "ab", "a", "b"]))
        if self.random.random() < 0.4:
            self.execute(name, writes)
            return
        size = self.size()
        self.intent(name, "managed", writes)
        txn = self.client.transaction(timeout=15.0, label=name)
        with ExitStack() as stack:
            stack.enter_context(txn)
            self.history.write("begun", t=name, id=txn.id)
            for cluster in sorted({write[0] for write in writes}):
                txn.produce_all(cluster, records_of(name, cluster, writes, size))
            if self.end(name, txn) == "vanish":
                self.history.write("vanished", t=name)
                stack.pop_all()

    def end(self, name: str, txn: lockstep.Transaction) -> str:
        (how,) = self.random.choices(
            ["commit", "decided", "abort", "vanish", "both", "twice"], [70, 8, 8, 3, 5, 6])
        if how == "commit":
            self.until_known(name, "commit", lambda: txn.commit(timeout=PATIENCE))
        elif how == "decided":
            self.ask(name, "commit", lambda: txn.commit(wait=lockstep.Wait.DECIDED))
            self.until_known(name, "commit", lambda: self.client.commit(txn.id))
        elif how == "abort":
            self.until_known(name, "abort", txn.abort)
        elif how == "both":
            self.commit_and_abort(name, txn)
        elif how == "twice":
            self.at_once(lambda: self.until_known(name, "commit", txn.commit),
                         lambda: self.until_known(name, "commit", lambda: self.client.commit(txn.id)))
        if how != "vanish":
            self.look(name, txn.id)
        return how

    def execute(self, name: str, writes: list[tuple[str, str, int, int]]) -> None:
        key, size = lockstep.ExecuteKey(name), self.random.randint(10, 200)
        self.intent(name, "execute", writes, key_time=key.made_at, size=size)
        work = work_of(name, writes, size)

        def call() -> lockstep.Executed:
            return self.client.execute(work, key=key, label=name, txn_timeout=30.0)

        times = 2 if self.random.random() < 0.06 else 1
        self.at_once(*[lambda: self.until_known(name, "execute", call)] * times)


class Bank(Client):
    def one(self, name: str) -> None:
        payer, payee = self.random.sample(range(ACCOUNTS), 2)
        amount = self.random.randint(1, 99)
        partitions = self.process.config["partitions"]
        writes = [("ab"[account % 2], "bank", account // 2 % partitions, index)
                  for index, account in enumerate((payer, payee))]
        key, size = lockstep.ExecuteKey(name), 10
        self.intent(name, "bank", writes, key_time=key.made_at, size=size,
                    money={"0": -amount, "1": amount})
        work = work_of(name, writes, size)
        for _ in range(10):  # Aborted is not paid: under its key it is tried again.
            result = self.until_known(
                name, "execute", lambda: self.client.execute(work, key=key, label=name))
            if result is not None and result.outcome is not lockstep.Outcome.ABORTED:
                break
            if self.process.stopping.wait(0.05):
                break


class Own(Client):
    """Every second one reaches its brokers through the proxy."""

    def __init__(self, process: Process, number: int) -> None:
        super().__init__(process, number)
        self._way = "gate" if number % 2 else "direct"
        self._producers: dict[str, EnlistedProducer] = {}

    def _producer(self, cluster: str) -> EnlistedProducer:
        if cluster not in self._producers:
            self._producers[cluster] = EnlistedProducer(cluster, {
                "bootstrap.servers": self.process.config["clusters"][cluster][self._way],
                "transactional.id": f"own-{self.number}",
                "transaction.timeout.ms": self.process.config["transaction_timeout_ms"],
                "socket.timeout.ms": 4000, "linger.ms": 0, "log_level": 0,
            })
        return self._producers[cluster]

    def one(self, name: str) -> None:
        own = self.random.choice(["ab", "ab", "a", "b"])
        clusters = self.random.choice([own, "ab"])
        writes, size = self.places(clusters), self.size()
        self.intent(name, "enlisted" if own == clusters else "mixed", writes)
        txn = self.client.transaction(timeout=15.0, label=name)
        with ExitStack() as stack:
            stack.enter_context(txn)
            self.history.write("begun", t=name, id=txn.id)
            branches = {cluster: txn.enlist(self._producer(cluster)) for cluster in own}
            for cluster, topic, partition, index in writes:
                value = value_of(name, index, size)
                if cluster in branches:
                    branches[cluster].produce(topic, value, partition=partition)
                else:
                    txn.produce(cluster, topic, value, partition=partition)
            (how,) = self.random.choices(["commit", "abort", "vanish", "both"], [80, 10, 3, 7])
            if how == "commit":
                self.until_known(name, "commit", lambda: txn.commit(timeout=PATIENCE))
            elif how == "abort":
                self.until_known(name, "abort", txn.abort)
            elif how == "both":
                self.commit_and_abort(name, txn)
            else:  # Never ended; its successor takes its ids over.
                self.history.write("vanished", t=name)
                stack.pop_all()
                self._producers.clear()
                return
            self.look(name, txn.id)


class Copier(Client):
    def __init__(self, process: Process, number: int) -> None:
        super().__init__(process, number)
        self._consumer = confluent_kafka.Consumer({
            "bootstrap.servers": process.config["clusters"]["a"]["direct"], "group.id": "copiers",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500, "log_level": 0, "fetch.wait.max.ms": 50,
        })
        self._rebalanced = False
        self._consumer.subscribe(["source"], on_assign=self._on_assign)

    def _on_assign(self, *_: Any) -> None:
        self._rebalanced = True

    def run(self) -> None:
        super().run()
        self._consumer.close()

    def one(self, name: str) -> None:
        messages = [m for m in self._consumer.consume(20, 0.2) if m.error() is None]
        if self._rebalanced:  # Some of these may be another's by now, and come again.
            self._rebalanced = False
            self._start_over()
            return
        if not messages:
            return
        writes = [("b", "copies", message.partition() or 0, i) for i, message in enumerate(messages)]
        self.intent(name, "copy", writes,
                    sources=[[message.partition(), message.offset()] for message in messages])
        committed = False
        try:
            committed = self._copy(name, writes)
        finally:
            if not committed:
                rewind(self._consumer, messages)

    def _copy(self, name: str, writes: list[tuple[str, str, int, int]]) -> bool:
        with self.client.transaction(timeout=15.0, label=name) as txn:
            self.history.write("begun", t=name, id=txn.id)
            txn.produce_all("b", records_of(name, "b", writes, 20))
            txn.send_offsets("a", offsets_of(self._consumer))
            result = self.until_known(name, "commit", lambda: txn.commit(timeout=PATIENCE))
            if result is None:
                self.process.stopping.set()  # It cannot go on without knowing. Its successor can.
                return True
            return result.outcome is not lockstep.Outcome.ABORTED

    def _start_over(self) -> None:
        for at in self._consumer.committed(self._consumer.assignment(), timeout=10):
            at.offset = at.offset if at.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
            self._consumer.seek(at)


class Feeder(Client):
    def __init__(self, process: Process, number: int) -> None:
        super().__init__(process, number)
        self._producer = confluent_kafka.Producer({
            "bootstrap.servers": process.config["clusters"]["a"]["direct"], "log_level": 0,
            "enable.idempotence": True, "linger.ms": 20})

    def one(self, name: str) -> None:
        self._producer.produce("source", value_of(name, 0, 20),
                               partition=self.random.randrange(self.process.config["partitions"]))
        self._producer.poll(0)
        self.process.stopping.wait(self.process.config["feed_every"])

    def run(self) -> None:
        super().run()
        self._producer.flush(30)


ROLES: dict[str, tuple[type[Client], str]] = {
    "managed": (Managed, "managed_clients"), "own": (Own, "own_clients"),
    "bank": (Bank, "bank_clients"), "copier": (Copier, ""), "feeder": (Feeder, "")}


def main() -> None:
    role, config_file, generation, seed = sys.argv[1:]
    config = json.loads(Path(config_file).read_text(encoding="utf-8"))
    kind, count = ROLES[role.rstrip("0123456789")]
    process = Process(role, config, generation, int(seed))
    process.run([kind(process, number) for number in range(config[count] if count else 1)])


if __name__ == "__main__":
    main()
