"""The same core under asyncio: what differs is how it waits."""

from __future__ import annotations

import asyncio
from typing import Awaitable, Callable

import pytest
from conftest import FAST
from fakes import COMMITTING, OUTCOME_UNKNOWN, FakeCoordinator, FakeKafka, answered, lost_answer
from test_enlist import ends

import lockstep
from lockstep import Outcome, aio
from lockstep.kafka import EnlistedProducer


def with_client(server: FakeCoordinator, use: Callable[[aio.Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with aio.Client(server.address, options=FAST) as client:
            await use(client)

    asyncio.run(main())


def test_commit_and_lost_answers(server: FakeCoordinator) -> None:
    for method in ("BeginGlobalTxn", "Produce", "Commit", "Execute"):
        server.script[method].append(lost_answer)

    async def use(client: aio.Client) -> None:
        async with client.transaction() as txn:
            await txn.produce("east", "orders", b"1")
            await txn.produce_all("west", [lockstep.Record("orders", b"2")])
            group = lockstep.ConsumerGroup("g", standalone=True)
            offsets = lockstep.GroupOffsets(group, [lockstep.Offset("in", 0, 9)])
            await txn.send_offsets("east", offsets)
            assert (await txn.commit()).outcome is Outcome.COMMITTED
            assert len(server.txns[txn.id].work) == 3
        assert (await client.get_txn(txn.id)).state is lockstep.TxnState.COMMITTED
        assert (await client.commit(txn.id)).outcome is Outcome.COMMITTED
        assert (await client.abort(txn.id)).outcome is Outcome.COMMITTED
        done = await client.execute([lockstep.Work("east", [lockstep.Record("orders")])])
        assert done.result.outcome is Outcome.COMMITTED

    with_client(server, use)


def test_leaving_aborts(server: FakeCoordinator) -> None:
    async def use(client: aio.Client) -> None:
        with pytest.raises(ZeroDivisionError):
            async with client.transaction() as txn:
                await txn.produce("east", "orders", str(1 // 0))
        assert server.txns[txn.id].state == "ABORTED"

    with_client(server, use)


def test_enlisted(server: FakeCoordinator, producer: EnlistedProducer, kafka: FakeKafka) -> None:
    server.script["Commit"].extend([lost_answer, OUTCOME_UNKNOWN, answered(COMMITTING)])
    kafka.queue_size = 2

    async def use(client: aio.Client) -> None:
        for _ in range(2):
            async with client.transaction() as txn:
                branch = await txn.enlist(producer)
                for i in range(5):
                    await branch.produce("orders", str(i))
                (await txn.commit()).raise_unless_committed()
        async with client.transaction() as txn:
            await txn.enlist(producer)
            await txn.abort()

    with_client(server, use)
    assert ends(server) == ["commit_transaction", "commit_transaction", "abort_transaction"]
    end = server.journal.index("commit_transaction")
    assert server.journal[end - 1] == "Commit: OUTCOME_COMMITTED"
    assert kafka.made == 1


def test_cancelled_in_commit(server: FakeCoordinator, producer: EnlistedProducer) -> None:
    """Nobody knows the outcome then: neither end may be chosen."""
    server.script["Commit"].extend([answered(COMMITTING)] * 10_000)

    async def use(client: aio.Client) -> None:
        async def commit() -> None:
            async with client.transaction() as txn:
                branch = await txn.enlist(producer)
                await branch.produce("orders", b"v")
                await txn.commit(timeout=float("inf"))

        task = asyncio.ensure_future(commit())
        while server.calls["Commit"] < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends(server) == [] and server.calls["Abort"] == 0
        server.script["Commit"].clear()
        async with client.transaction() as txn:
            await txn.enlist(producer)
            (await txn.commit()).raise_unless_committed()
        assert server.calls["RegisterProducer"] == 2

    with_client(server, use)
