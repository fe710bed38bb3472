"""The client, and consumers of confluent-kafka, against a real lockstepd and real clusters."""

from __future__ import annotations

import asyncio
from typing import Any, Dict, List

import pytest
from confluent_kafka import Consumer, TopicPartition
from conftest import Clusters, Lockstepd, await_that, in_the_end

import lockstep
from lockstep import Outcome, aio
from lockstep.kafka import offsets_of, rewind


def consume(consumer: Any, count: int) -> List[Any]:
    messages: List[Any] = []

    def enough() -> bool:
        messages.extend(consumer.consume(10, 0.2))
        return len(messages) >= count

    await_that(enough, f"{count} records")
    return messages


def read(bootstrap: str, topic: str, count: int) -> List[Any]:
    """The first `count` committed records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consume(consumer, count)
    consumer.close()
    return messages


def test_records_arrive_as_given(clusters: Clusters, client: lockstep.Client) -> None:
    clusters.topic("a", "given:1")
    with client.transaction() as txn:
        txn.produce("a", "given", b"v", "k", partition=0, headers=[("h", b"1"), ("n", None)], timestamp=1234)
        txn.produce("a", "given")
        txn.commit().raise_unless_committed()
    first, second = read(clusters.bootstrap["a"], "given", 2)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", b"v", 1234)
    assert first.headers() == [("h", b"1"), ("n", None)]
    assert (second.key(), second.value()) == (None, None)


def test_unknown_topic(client: lockstep.Client) -> None:
    with client.transaction() as txn:
        txn.produce("a", "nowhere", b"v")
        result = txn.commit()
    assert result.abort is not None and (result.abort.reason, result.abort.cluster) == ("UNKNOWN_TOPIC", "a")


def test_unknown_cluster(client: lockstep.Client) -> None:
    with client.transaction() as txn, pytest.raises(lockstep.CallFailed) as unknown:
        txn.produce("nowhere", "orders", b"v")
    assert unknown.value.reason == "UNKNOWN_CLUSTER" and "a, b" in unknown.value.message


def test_asyncio(clusters: Clusters, lockstepd: Lockstepd) -> None:
    clusters.topic("b", "aio:1")

    async def main() -> None:
        async with aio.Client(lockstepd.address) as client:
            async with client.transaction() as txn:
                await txn.produce("b", "aio", b"v")
                (await txn.commit()).raise_unless_committed()
            assert (await client.get_txn(txn.id)).state is lockstep.TxnState.COMMITTED

    asyncio.run(main())
    assert len(read(clusters.bootstrap["b"], "aio", 1)) == 1


GROUPS: Dict[str, Dict[str, str]] = {
    "classic": {},
    "classic-static": {"group.instance.id": "one"},
    "kip848": {"group.protocol": "consumer"},
    "kip848-static": {"group.protocol": "consumer", "group.instance.id": "one"},
}


@pytest.fixture(params=GROUPS)
def consumer(request: pytest.FixtureRequest, clusters: Clusters) -> Any:
    name = request.param
    clusters.topic("a", f"in-{name}:1")
    one = Consumer({
        "bootstrap.servers": clusters.bootstrap["a"],
        "group.id": name,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        **GROUPS[name],
    })
    one.subscribe([f"in-{name}"])
    yield one
    one.close()


def test_offsets_of_a_consumer(clusters: Clusters, client: lockstep.Client, consumer: Any) -> None:
    topic = f"in-{offsets_of(consumer).group.id}"
    client.execute([lockstep.Work("a", [lockstep.Record(topic, b"1"), lockstep.Record(topic, b"2")])])
    messages = consume(consumer, 2)

    rewind(consumer, messages[1:])
    assert [m.offset() for m in consume(consumer, 1)] == [messages[1].offset()]

    with client.transaction() as txn:  # A cluster where that group does not live.
        with pytest.raises(lockstep.CallFailed) as elsewhere:
            txn.send_offsets("b", offsets_of(consumer))
        assert elsewhere.value.reason == "WRONG_STATE"
        txn.abort()

    fresh = offsets_of(consumer)
    assert fresh.group.member_id == consumer.memberid()
    stale = lockstep.GroupOffsets(
        lockstep.ConsumerGroup(
            fresh.group.id, fresh.group.generation - 1, fresh.group.member_id, fresh.group.instance_id
        ),
        fresh.offsets,
    )
    with client.transaction() as txn:
        txn.send_offsets("a", stale)
        result = txn.commit()
    assert result.abort is not None and result.abort.reason == "GROUP_FENCED", result

    with client.transaction() as txn:
        txn.send_offsets("a", fresh)
        assert in_the_end(txn.commit).outcome is Outcome.COMMITTED
    (at,) = consumer.committed(consumer.assignment(), 10.0)
    assert at.offset == fresh.offsets[0].offset > messages[-1].offset()


def test_lockstepd_restarts(clusters: Clusters, client: lockstep.Client, lockstepd: Lockstepd) -> None:
    clusters.topic("a", "restart:1")
    with client.transaction() as txn:
        txn.produce("a", "restart", b"1")
        txn.commit().raise_unless_committed()
        decided = txn.id
    with client.transaction() as txn:
        txn.produce("a", "restart", b"2")
        lockstepd.kill()
        lockstepd.start()
        assert txn.commit().outcome is Outcome.ABORTED  # Never decided.
    assert client.commit(decided).outcome is Outcome.COMMITTED
    done = client.execute([lockstep.Work("a", [lockstep.Record("restart", b"3")])])
    assert done.result.outcome is Outcome.COMMITTED
    assert [m.value() for m in read(clusters.bootstrap["a"], "restart", 2)] == [b"1", b"3"]
