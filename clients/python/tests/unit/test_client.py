"""The blocking client: retries, sequence numbers, outcomes, and what leaving a transaction does."""

from __future__ import annotations

import grpc
import pytest
from conftest import FAST
from fakes import (
    COMMITTING,
    OUTCOME_UNKNOWN,
    FakeCoordinator,
    answered,
    lost_answer,
    refused,
)

import lockstep
from lockstep import Effect, Outcome
from lockstep.v1 import coordinator_pb2 as pb
from lockstep.v1 import txn_pb2

FULL = refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED", retry_after=0.001)
STARTING = refused(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", retry_after=0.001)


def test_commit(server: FakeCoordinator, client: lockstep.Client) -> None:
    with client.transaction(label="one") as txn:
        txn.produce("east", "orders", "value", key=b"key", headers=[("h", None)], timestamp=1500)
        txn.produce_all("west", [lockstep.Record("orders"), lockstep.Record("orders", b"")])
        group = lockstep.ConsumerGroup("g", 3, "m")
        txn.send_offsets("east", lockstep.GroupOffsets(group, [lockstep.Offset("in", 0, 9)], "id"))
        result = txn.commit()
    assert result.raise_unless_committed().outcome is Outcome.COMMITTED
    first, second, offsets = server.only_txn().work
    assert first.records[0] == txn_pb2.Record(
        topic="orders",
        key=b"key",
        value=b"value",
        headers=[txn_pb2.Header(key="h")],
        timestamp={"seconds": 1, "nanos": 500_000_000},
    )
    tombstone, empty = second.records
    assert not tombstone.HasField("value") and empty.HasField("value")
    assert (offsets.group.generation, offsets.group.member_id) == (3, "m")
    assert not offsets.group.HasField("group_instance_id")
    assert (offsets.kafka_cluster_id, offsets.offsets[0].offset) == ("id", 9)
    assert server.calls["Abort"] == 0


def test_lost_answers_take_effect_once(server: FakeCoordinator, client: lockstep.Client) -> None:
    for method in ("BeginGlobalTxn", "Produce", "SendOffsets", "Commit"):
        server.script[method].append(lost_answer)
    with client.transaction() as txn:
        txn.produce("east", "orders", b"1")
        txn.produce("east", "orders", b"2")
        group = lockstep.ConsumerGroup("g", standalone=True)
        txn.send_offsets("east", lockstep.GroupOffsets(group, [lockstep.Offset("in", 0, 9)]))
        assert txn.commit().outcome is Outcome.COMMITTED
        assert len(server.txns[txn.id].work) == 3
    assert server.calls["Produce"] == 3 and server.calls["Commit"] == 2


def test_commit_asks_until_the_outcome_is_definite(
    server: FakeCoordinator, client: lockstep.Client
) -> None:
    server.script["Commit"].extend([OUTCOME_UNKNOWN, STARTING, FULL, answered(COMMITTING)])
    with client.transaction() as txn:
        assert txn.commit().outcome is Outcome.COMMITTED
    assert server.calls["Commit"] == 5


def test_decided_is_no_error(server: FakeCoordinator, client: lockstep.Client) -> None:
    server.script["Commit"].extend([answered(COMMITTING)] * 10_000)
    with client.transaction() as txn:
        assert txn.commit(timeout=1.0).outcome is Outcome.COMMITTING
    calls = server.calls["Commit"]
    assert calls > 1
    with client.transaction() as txn:
        assert txn.commit(wait=lockstep.Wait.DECIDED).outcome is Outcome.COMMITTING
    assert server.calls["Commit"] == calls + 1


def test_outcome_unknown_and_asked_again(server: FakeCoordinator, client: lockstep.Client) -> None:
    server.script["Commit"].extend([lost_answer] * 1000)
    with client.transaction() as txn:
        with pytest.raises(lockstep.OutcomeUnknown) as unknown:
            txn.commit(timeout=0.1)
        assert unknown.value.txn_id == txn.id
        server.script["Commit"].clear()
        assert txn.commit().outcome is Outcome.COMMITTED
    with client.transaction() as txn:
        server.script["Commit"].extend([lost_answer] * 1000)
        with pytest.raises(lockstep.OutcomeUnknown):
            txn.commit(timeout=0.1)
    assert server.calls["Abort"] == 0  # It may be committed: leaving does not touch it.
    server.script["Commit"].clear()
    assert client.commit(txn.id).outcome is Outcome.COMMITTED
    assert client.get_txn(txn.id).state is lockstep.TxnState.COMMITTED


def test_a_forgotten_outcome_is_unknown(server: FakeCoordinator, client: lockstep.Client) -> None:
    server.script["Commit"].append(refused(grpc.StatusCode.NOT_FOUND, "TXN_NOT_FOUND"))
    with client.transaction() as txn, pytest.raises(lockstep.OutcomeUnknown):
        txn.commit()


def test_a_refused_commit_is_no_outcome(server: FakeCoordinator, client: lockstep.Client) -> None:
    later = refused(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", retry_after=60.0)
    server.script["Commit"].append(later)
    with client.transaction() as txn:
        with pytest.raises(lockstep.CallFailed) as failed:
            txn.commit()
        assert failed.value.effect is Effect.NONE
        assert txn.commit().outcome is Outcome.COMMITTED
    server.script["Commit"].append(refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"))
    with client.transaction() as txn, pytest.raises(lockstep.CallFailed):
        txn.commit()
    assert server.txns[txn.id].state == "ABORTED"


def test_leaving_aborts(server: FakeCoordinator, client: lockstep.Client) -> None:
    with client.transaction() as left:
        left.produce("east", "orders")
    with pytest.raises(ZeroDivisionError), client.transaction() as raised:
        raised.produce("east", "orders", str(1 // 0))
    assert [server.txns[txn.id].state for txn in (left, raised)] == ["ABORTED", "ABORTED"]
    with client.transaction() as txn:
        result = txn.abort()
    assert result.abort is not None and result.abort.reason == "CLIENT_ABORT"
    with pytest.raises(lockstep.TransactionAborted, match="CLIENT_ABORT"):
        result.raise_unless_committed()
    assert server.calls["Abort"] == 3


def test_aborted_is_data(server: FakeCoordinator, client: lockstep.Client) -> None:
    with client.transaction() as txn:
        server.restart()
        assert txn.commit().outcome is Outcome.ABORTED
    assert server.calls["Abort"] == 0


def test_heuristic_is_loud(
    server: FakeCoordinator, client: lockstep.Client, caplog: pytest.LogCaptureFixture
) -> None:
    lost = txn_pb2.Branch(
        cluster="west",
        outcome=txn_pb2.BRANCH_OUTCOME_ABORTED,
        problem="timed out",
        managed=txn_pb2.ManagedBranch(transactional_id="lane", producer_id=4, producer_epoch=2),
    )
    heuristic = pb.CommitResponse(outcome=txn_pb2.OUTCOME_HEURISTIC, branches=[lost])
    server.script["Commit"].append(answered(heuristic))
    with client.transaction() as txn:
        result = txn.commit()
    assert result.branches == (
        lockstep.Branch(
            "west",
            lockstep.BranchOutcome.ABORTED,
            "timed out",
            transactional_id="lane",
            producer_id=4,
            producer_epoch=2,
        ),
    )
    assert "HEURISTIC" in caplog.text
    with pytest.raises(lockstep.HeuristicOutcome, match="west ABORTED timed out"):
        result.raise_unless_committed()


def test_refused_work_leaves_the_transaction_open(
    server: FakeCoordinator, client: lockstep.Client
) -> None:
    with client.transaction() as txn:
        server.script["Produce"].append(FULL)
        with pytest.raises(lockstep.CallFailed) as full:
            txn.produce("east", "orders")
        assert (full.value.reason, full.value.effect) == ("LIMIT_REACHED", Effect.NONE)
        assert full.value.retry_after == pytest.approx(0.001)
        txn.produce("east", "orders")
        assert txn.commit().outcome is Outcome.COMMITTED
        with pytest.raises(lockstep.CallFailed, match="no more work"):
            txn.produce("east", "orders")


def test_doubtful_work_can_only_be_aborted(server: FakeCoordinator, client: lockstep.Client) -> None:
    server.script["Produce"].extend([lost_answer] * 1000)
    with client.transaction() as txn:
        with pytest.raises(lockstep.CallFailed) as lost:
            txn.produce("east", "orders", timeout=0.1)
        assert lost.value.effect is Effect.UNKNOWN
        server.script["Produce"].clear()
        for call in (lambda: txn.produce("east", "orders"), txn.commit):
            with pytest.raises(lockstep.CallFailed, match="abort"):
                call()
    assert server.txns[txn.id].state == "ABORTED"


def test_execute(server: FakeCoordinator, client: lockstep.Client) -> None:
    server.script["Execute"].extend([lost_answer, OUTCOME_UNKNOWN])
    work = [lockstep.Work("east", [lockstep.Record("orders", b"v")]), lockstep.Work("west")]
    done = client.execute(work)
    assert done.result.outcome is Outcome.COMMITTED and server.calls["Execute"] == 3
    assert [part.WhichOneof("kind") for part in server.executed[done.key.name].work] == ["produce"] * 2
    again = client.execute(work, key=done.key)
    assert again.key == done.key and len(server.executed) == 1
    with pytest.raises(lockstep.CallFailed) as reused:
        client.execute(work[:1], key=done.key)
    assert reused.value.reason == "KEY_REUSED"
    server.script["Execute"].extend([lost_answer] * 1000)
    with pytest.raises(lockstep.CallFailed) as unknown:
        client.execute(work, timeout=0.1)
    assert unknown.value.effect is Effect.UNKNOWN


def test_no_server() -> None:
    with lockstep.Client("127.0.0.1:1", options=FAST) as client:
        with pytest.raises(lockstep.CallFailed) as away:
            client.execute([], timeout=0.2)
    assert away.value.code is grpc.StatusCode.UNAVAILABLE
    assert away.value.effect is Effect.UNKNOWN


def test_a_channel_of_ones_own(server: FakeCoordinator) -> None:
    channel = grpc.insecure_channel(server.address)
    for _ in range(2):  # Closing the client leaves it open.
        with lockstep.Client(channel=channel, options=FAST) as client, client.transaction() as txn:
            assert txn.commit().outcome is Outcome.COMMITTED
    channel.close()


def test_unknown_words_are_no_outcome(server: FakeCoordinator, client: lockstep.Client) -> None:
    unknown = pb.CommitResponse(outcome=99)  # type: ignore[arg-type]
    server.script["Commit"].append(answered(unknown))
    with client.transaction() as txn, pytest.raises(lockstep.OutcomeUnknown, match="99"):
        txn.commit()
    assert server.calls["Abort"] == 0
