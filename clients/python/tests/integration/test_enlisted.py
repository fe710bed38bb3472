"""Own producers of confluent-kafka (which speak TV1) on real clusters: the rules that the unit tests hold
against fakes, and what brokers and librdkafka make of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

import pytest
from confluent_kafka import Consumer, Producer
from conftest import Clusters, Lockstepd, await_that, in_the_end
from test_managed import consume, read

import lockstep
from lockstep import Outcome, aio
from lockstep.kafka import EnlistedProducer


class Own:
    """An EnlistedProducer, and how often it has made its producer."""

    def __init__(self, clusters: Clusters, cluster: str, name: str) -> None:
        self.made = 0
        config = {"bootstrap.servers": clusters.bootstrap[cluster], "transactional.id": name}
        self.producer = EnlistedProducer(cluster, config, factory=self._make)

    def _make(self, config: Dict[str, Any]) -> Producer:
        self.made += 1
        return Producer(config)


def write(client: lockstep.Client, own: Own, topic: str, value: str) -> lockstep.TxnResult:
    with client.transaction() as txn:
        txn.enlist(own.producer).produce(topic, value)
        return txn.commit()


def values(clusters: Clusters, cluster: str, topic: str, count: int) -> List[Any]:
    return [message.value() for message in read(clusters.bootstrap[cluster], topic, count)]


def test_its_own_commit_is_a_retry_that_succeeds(
    clusters: Clusters, client: lockstep.Client
) -> None:
    """Mixed with a managed branch; one producer and one epoch for all of them."""
    clusters.topic("a", "mixed:1")
    clusters.topic("b", "mixed:1")
    own = Own(clusters, "a", "mixed")
    names = set()
    for i in range(5):
        with client.transaction() as txn:
            txn.enlist(own.producer).produce("mixed", f"{i}", partition=0)
            txn.produce("b", "mixed", f"{i}")
            result = txn.commit()
        assert result.outcome is Outcome.COMMITTED, result
        branches = {branch.cluster: branch for branch in result.branches}
        assert branches["a"].enlisted and not branches["b"].enlisted
        names.add((branches["a"].transactional_id, branches["a"].producer_id, branches["a"].producer_epoch))
    assert len(names) == 1 and own.made == 1
    wanted = [b"%d" % i for i in range(5)]
    assert values(clusters, "a", "mixed", 5) == values(clusters, "b", "mixed", 5) == wanted


def test_two_own_producers(clusters: Clusters, client: lockstep.Client) -> None:
    owns = {name: Own(clusters, name, "both") for name in ("a", "b")}
    for name in owns:
        clusters.topic(name, "both:1")
    for _ in range(2):
        with client.transaction() as txn:
            for own in owns.values():
                txn.enlist(own.producer).produce("both", b"v")
            txn.commit().raise_unless_committed()
    for name in owns:
        assert len(values(clusters, name, "both", 2)) == 2


def test_abort_shows_nothing_and_the_producer_goes_on(
    clusters: Clusters, client: lockstep.Client
) -> None:
    clusters.topic("a", "abort:1")
    own = Own(clusters, "a", "abort")
    delivered: List[Any] = []
    with pytest.raises(ZeroDivisionError), client.transaction() as txn:
        branch = txn.enlist(own.producer)
        branch.produce("abort", b"never", on_delivery=lambda *report: delivered.append(report))
        branch._enlistment._producer.flush(10.0)
        raise ZeroDivisionError
    assert delivered[0][0] is None
    with client.transaction() as txn:
        txn.enlist(own.producer).produce("abort", b"never")
        txn.produce("b", "nowhere", b"never")
        result = txn.commit()
    assert result.abort is not None and result.abort.reason == "UNKNOWN_TOPIC", result
    assert write(client, own, "abort", "once").outcome is Outcome.COMMITTED
    assert own.made == 1
    with client.transaction() as txn:  # Not flushed: its own abort would change the epoch.
        txn.enlist(own.producer).produce("abort", b"never")
        txn.abort()
    assert write(client, own, "abort", "twice").outcome is Outcome.COMMITTED
    assert own.made == 2
    assert values(clusters, "a", "abort", 2) == [b"once", b"twice"]


def test_read_only(clusters: Clusters, client: lockstep.Client) -> None:
    clusters.topic("a", "read-only:1")
    own = Own(clusters, "a", "read-only")
    for commit in (True, False, True):
        with client.transaction() as txn:
            txn.enlist(own.producer)
            if commit:
                txn.commit().raise_unless_committed()
    assert write(client, own, "read-only", "v").outcome is Outcome.COMMITTED
    assert own.made == 1


def test_offsets_go_through_it(clusters: Clusters, client: lockstep.Client) -> None:
    clusters.topic("a", "own-in:1", "own-out:1")
    client.execute([lockstep.Work("a", [lockstep.Record("own-in", b"1")])])
    consumer = Consumer({
        "bootstrap.servers": clusters.bootstrap["a"],
        "group.id": "own",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    })
    consumer.subscribe(["own-in"])
    (message,) = consume(consumer, 1)
    own, other = Own(clusters, "a", "own-offsets"), Own(clusters, "b", "own-offsets")
    with client.transaction() as txn:
        branch = txn.enlist(own.producer)
        branch.produce("own-out", message.value())
        branch.send_offsets(consumer)
        wrong = txn.enlist(other.producer)
        with pytest.raises(ValueError, match="where its group lives"):
            wrong.send_offsets(consumer)
        txn.commit().raise_unless_committed()
    (at,) = consumer.committed(consumer.assignment(), 10.0)
    assert at.offset > message.offset()
    consumer.close()


def test_a_successor_fences_the_older_one(clusters: Clusters, client: lockstep.Client) -> None:
    """As a zombie that comes to itself after its successor has started."""
    clusters.topic("a", "zombie:1")
    zombie, successor = Own(clusters, "a", "zombie"), Own(clusters, "a", "zombie")
    with client.transaction() as txn:
        txn.enlist(zombie.producer).produce("zombie", b"zombie")
        assert write(client, successor, "zombie", "successor").outcome is Outcome.COMMITTED
        assert txn.commit().outcome is Outcome.ABORTED
    assert values(clusters, "a", "zombie", 1) == [b"successor"]
    assert write(client, zombie, "zombie", "again").outcome is Outcome.COMMITTED
    assert values(clusters, "a", "zombie", 2) == [b"successor", b"again"]


def test_lockstepd_restarts(clusters: Clusters, client: lockstep.Client, lockstepd: Lockstepd) -> None:
    clusters.topic("a", "own-restart:1")
    own = Own(clusters, "a", "own-restart")
    assert write(client, own, "own-restart", "1").outcome is Outcome.COMMITTED
    with client.transaction() as txn:
        txn.enlist(own.producer).produce("own-restart", b"never")
        lockstepd.kill()
        lockstepd.start()
        assert txn.commit().outcome is Outcome.ABORTED
    assert in_the_end(lambda: write(client, own, "own-restart", "2")).outcome is Outcome.COMMITTED
    assert values(clusters, "a", "own-restart", 2) == [b"1", b"2"]
    assert own.made == 2


@pytest.mark.parametrize(
    "step, outcome",
    [
        ("votes_in", Outcome.ABORTED),
        ("decision_durable", Outcome.COMMITTED),
        ("participant_ended", Outcome.COMMITTED),
        ("before_answer", Outcome.COMMITTED),
    ],
)
def test_lockstepd_dies_in_commit(
    clusters: Clusters,
    client: lockstep.Client,
    lockstepd: Lockstepd,
    step: str,
    outcome: Outcome,
) -> None:
    topic = f"dies-{step}"
    clusters.topic("a", f"{topic}:1")
    clusters.topic("b", f"{topic}:1")
    owns = {name: Own(clusters, name, topic) for name in ("a", "b")}
    lockstepd.kill()
    lockstepd.start("--enable-failpoints", "--failpoint", f"coordinator.{step}=crash")
    with client.transaction() as txn:
        for own in owns.values():
            txn.enlist(own.producer).produce(topic, "first")
        with ThreadPoolExecutor(1) as pool:
            commit = pool.submit(txn.commit, timeout=60.0)
            await_that(lambda: not lockstepd.running(), "lockstepd to die")
            lockstepd.start()
            assert commit.result().outcome is outcome
    with client.transaction() as txn:
        for own in owns.values():
            txn.enlist(own.producer).produce(topic, "second")
        assert txn.commit().outcome is Outcome.COMMITTED
    wanted = [b"first", b"second"] if outcome is Outcome.COMMITTED else [b"second"]
    for name in owns:
        assert values(clusters, name, topic, len(wanted)) == wanted


def test_asyncio(clusters: Clusters, lockstepd: Lockstepd) -> None:
    clusters.topic("a", "own-aio:1")
    own = Own(clusters, "a", "own-aio")

    async def main() -> None:
        async with aio.Client(lockstepd.address) as client:
            for i in range(2):
                async with client.transaction() as txn:
                    branch = await txn.enlist(own.producer)
                    await branch.produce("own-aio", f"{i}")
                    (await txn.commit()).raise_unless_committed()

    asyncio.run(main())
    assert values(clusters, "a", "own-aio", 2) == [b"0", b"1"]
    assert own.made == 1
