"""The rules that keep an own producer and its global transaction together."""

from __future__ import annotations

import gc
from typing import List

import confluent_kafka
import grpc
import pytest
from confluent_kafka import KafkaError
from fakes import (
    COMMITTING,
    FENCED,
    OUTCOME_UNKNOWN,
    FakeConsumer,
    FakeCoordinator,
    FakeKafka,
    FakeMessage,
    answered,
    kafka_error,
    lost_answer,
    refused,
)

import lockstep
from lockstep import Outcome
from lockstep.kafka import EnlistedProducer, consumer_group, offsets_of, rewind
from lockstep.v1 import coordinator_pb2 as pb
from lockstep.v1 import txn_pb2

ENDS = ("commit_transaction", "abort_transaction", "close")


def ends(server: FakeCoordinator) -> List[str]:
    return [entry for entry in server.journal if entry in ENDS]


def commit_one(client: lockstep.Client, producer: EnlistedProducer) -> lockstep.TxnResult:
    with client.transaction() as txn:
        txn.enlist(producer).produce("orders", b"v")
        return txn.commit()


def test_the_order_of_things(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    for _ in range(2):
        assert commit_one(client, producer).outcome is Outcome.COMMITTED
    one = [
        "BeginGlobalTxn", "begin_transaction", "Enlist", "produce", "flush",
        "Commit: OUTCOME_COMMITTED", "commit_transaction",
    ]  # fmt: skip
    registered = ["RegisterProducer", "init_transactions"]
    assert server.journal == one[:1] + registered + one[1:] + one
    assert kafka.made == 1


def test_work_names_what_was_acknowledged(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer
) -> None:
    with client.transaction() as txn:
        branch = txn.enlist(producer)
        for partition in (1, 0, 1):
            branch.produce("orders", "v", partition=partition)
        branch.send_offsets(FakeConsumer())  # type: ignore[arg-type]
        txn.produce("west", "orders", b"managed")
        txn.commit().raise_unless_committed()
    commit = server.only_txn().commit
    assert commit is not None and list(commit.enlisted) == [
        pb.EnlistedWork(
            registration_id="orders#1",
            partitions=[
                pb.WrittenPartition(topic="orders", partition=0, offset=1),
                pb.WrittenPartition(topic="orders", partition=1, offset=2),
            ],
            group_ids=["group"],
        )
    ]


def test_read_only(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    for _ in range(2):
        with client.transaction() as txn:
            txn.enlist(producer)
            txn.commit().raise_unless_committed()
            commit = server.txns[txn.id].commit
            assert commit is not None and commit.enlisted[0].read_only
    assert kafka.made == 1


def test_the_producer_ends_only_after_a_definite_answer(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer
) -> None:
    server.script["Commit"].extend(
        [lost_answer, OUTCOME_UNKNOWN, answered(COMMITTING), answered(COMMITTING)]
    )
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert server.calls["Commit"] == 5
    assert ends(server) == ["commit_transaction"]
    assert server.journal[-2:] == ["Commit: OUTCOME_COMMITTED", "commit_transaction"]


@pytest.mark.parametrize("fault", [lost_answer, OUTCOME_UNKNOWN, answered(COMMITTING)])
def test_without_a_definite_answer_the_producer_is_never_ended(
    server: FakeCoordinator,
    client: lockstep.Client,
    producer: EnlistedProducer,
    kafka: FakeKafka,
    fault: object,
) -> None:
    server.script["Commit"].extend([fault] * 10_000)  # type: ignore[list-item]
    with client.transaction() as txn:
        txn.enlist(producer).produce("orders", b"v")
        try:
            assert txn.commit(timeout=1.0).outcome is Outcome.COMMITTING
        except lockstep.OutcomeUnknown:
            pass
        gc.collect()
        assert server.journal.count("dropped") == 1
        server.script["Commit"].clear()
        # The answer comes too late for that producer, and no other one has its transaction.
        assert txn.commit().outcome is Outcome.COMMITTED
    assert ends(server) == []
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_interrupted_in_commit(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), client.transaction() as txn:
        txn.enlist(producer).produce("orders", b"v")
        txn._core.io.call = interrupt  # type: ignore[method-assign,assignment]
        txn.commit()
    assert ends(server) == [] and server.calls["Abort"] == 0


def test_an_exception_aborts_both(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    with pytest.raises(ZeroDivisionError), client.transaction() as txn:
        branch = txn.enlist(producer)
        branch.produce("orders", b"v")
        branch._enlistment._producer.flush(1.0)
        raise ZeroDivisionError
    assert server.journal[-3:] == ["purge", "Abort: OUTCOME_ABORTED", "abort_transaction"]
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert kafka.made == 1


def test_records_that_are_dropped_cost_the_producer(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    """Its abort_transaction would change the epoch."""
    with client.transaction() as txn:
        txn.enlist(producer).produce("orders", b"v")
        assert txn.abort().outcome is Outcome.ABORTED
    assert ends(server) == [] and server.journal.count("purge") == 1
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_abort_waits_for_what_is_on_its_way(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    kafka.in_flight = 1
    kafka.failures["delivery"].append(kafka_error(KafkaError._MSG_TIMED_OUT))
    with client.transaction() as txn:
        branch = txn.enlist(producer)
        branch.produce("orders", b"1")
        branch.produce("orders", b"2")
        txn.abort()
    assert server.journal[-4:-1] == ["purge", "flush", "Abort: OUTCOME_ABORTED"]


def test_abort_without_an_answer(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer
) -> None:
    server.script["Abort"].extend([lost_answer] * 1000)
    with client.transaction() as txn:
        txn.enlist(producer).produce("orders", b"v")
        with pytest.raises(lockstep.OutcomeUnknown):
            txn.abort(timeout=0.1)
    assert ends(server) == []


def test_aborted_by_the_coordinator(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    aborted = pb.CommitResponse(
        outcome=txn_pb2.OUTCOME_ABORTED,
        abort=txn_pb2.Abort(reason=txn_pb2.ABORT_REASON_UNKNOWN_TOPIC, cluster="west"),
    )
    server.script["Commit"].append(answered(aborted))
    result = commit_one(client, producer)
    assert result.abort is not None and result.abort.reason == "UNKNOWN_TOPIC"
    assert ends(server) == ["abort_transaction"]
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert kafka.made == 1


def test_an_undelivered_record_aborts(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    kafka.failures["delivery"].append(kafka_error(KafkaError._MSG_TIMED_OUT))
    result = commit_one(client, producer)
    assert result.outcome is Outcome.ABORTED
    assert result.abort is not None and result.abort.reason == "DELIVERY_FAILED"
    assert (result.abort.cluster, result.abort.retryable) == ("east", True)
    assert "_MSG_TIMED_OUT" in result.abort.message
    assert server.calls["Commit"] == 0 and server.only_txn().state == "ABORTED"
    # abort_transaction would change the epoch under the registration.
    assert ends(server) == []
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_what_is_not_acknowledged_in_time_aborts(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    kafka.stuck = True
    with client.transaction() as txn:
        txn.enlist(producer).produce("orders", b"v")
        result = txn.commit(timeout=0.05)
    assert result.abort is not None and "1 records were not acknowledged" in result.abort.message
    assert server.calls["Commit"] == 0 and ends(server) == []


def test_undelivered_and_nobody_answers(
    server: FakeCoordinator,
    client: lockstep.Client,
    producer: EnlistedProducer,
    kafka: FakeKafka,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lockstep._core._AFTERWARDS", 0.05)
    kafka.failures["delivery"].append(kafka_error(KafkaError._MSG_TIMED_OUT))
    server.script["Abort"].extend([lost_answer] * 1000)
    with client.transaction() as txn:
        txn.enlist(producer).produce("orders", b"v")
        with pytest.raises(lockstep.OutcomeUnknown):
            txn.commit()
        server.script["Abort"].clear()
        assert txn.commit().outcome is Outcome.ABORTED
    assert server.calls["Commit"] == 0 and ends(server) == []


def test_offsets_that_fail_abort(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    kafka.failures["send_offsets_to_transaction"].append(kafka_error(KafkaError.ILLEGAL_GENERATION))
    with client.transaction() as txn:
        with pytest.raises(confluent_kafka.KafkaException):
            txn.enlist(producer).send_offsets(FakeConsumer())  # type: ignore[arg-type]
        assert txn.commit().outcome is Outcome.ABORTED
    assert server.calls["Commit"] == 0


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_its_own_end_fails(
    server: FakeCoordinator,
    client: lockstep.Client,
    producer: EnlistedProducer,
    kafka: FakeKafka,
    end: str,
) -> None:
    kafka.failures[end].append(kafka_error(KafkaError._TIMED_OUT, retriable=True))
    kafka.failures[end].append(kafka_error(KafkaError._FENCED))
    with client.transaction() as txn:
        branch = txn.enlist(producer)
        branch.produce("orders", b"v")
        branch._enlistment._producer.flush(1.0)
        result = txn.commit() if end == "commit_transaction" else txn.abort()
    expected = Outcome.COMMITTED if end == "commit_transaction" else Outcome.ABORTED
    assert result.outcome is expected  # Never an abort for what is committed.
    assert ends(server) == [end, end]
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_reinit_required(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    branch = txn_pb2.Branch(
        cluster="east",
        outcome=txn_pb2.BRANCH_OUTCOME_COMMITTED,
        enlisted=txn_pb2.EnlistedBranch(transactional_id="orders", reinit_required=True),
    )
    answer = pb.CommitResponse(outcome=txn_pb2.OUTCOME_COMMITTED, branches=[branch])
    server.script["Commit"].append(answered(answer))
    result = commit_one(client, producer)
    assert result.branches[0].enlisted and result.branches[0].reinit_required
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_heuristic_makes_it_anew(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    server.script["Commit"].append(answered(pb.CommitResponse(outcome=txn_pb2.OUTCOME_HEURISTIC)))
    assert commit_one(client, producer).outcome is Outcome.HEURISTIC
    assert ends(server) == []
    commit_one(client, producer)
    assert kafka.made == 2


def test_fenced_at_enlist(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    commit_one(client, producer)
    server.script["Enlist"].append(FENCED)
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)
    server.script["Enlist"].extend([FENCED] * 10)
    with pytest.raises(lockstep.CallFailed) as fenced:
        commit_one(client, producer)
    assert fenced.value.reason == "FENCED" and len(server.script["Enlist"]) == 7


def test_the_coordinator_restarts(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    commit_one(client, producer)
    server.restart()
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_another_incarnation_in_the_answer(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    server.script["Enlist"].append(answered(pb.EnlistResponse(incarnation=9)))
    with pytest.raises(lockstep.CallFailed, match="restarted"):
        commit_one(client, producer)
    assert "produce" not in server.journal
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert kafka.made == 2


def test_nothing_is_written_before_enlist(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    server.script["Enlist"].append(refused(grpc.StatusCode.FAILED_PRECONDITION, "WRONG_STATE"))
    with pytest.raises(lockstep.CallFailed):
        commit_one(client, producer)
    assert "produce" not in server.journal
    server.script["Enlist"].extend([lost_answer, OUTCOME_UNKNOWN])
    assert commit_one(client, producer).outcome is Outcome.COMMITTED


def test_init_is_resumed_and_fails_in_the_end(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    kafka.failures["init_transactions"].append(kafka_error(KafkaError._TIMED_OUT, retriable=True))
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    producer.close()
    kafka.failures["init_transactions"].append(kafka_error(KafkaError.INVALID_TRANSACTION_TIMEOUT))
    with pytest.raises(lockstep.CallFailed, match="init_transactions"):
        commit_one(client, producer)
    # Whatever happened, the next one begins with a registration.
    server.journal.clear()
    commit_one(client, producer)
    assert server.journal[1:3] == ["RegisterProducer", "init_transactions"]


def test_it_is_initialised_at_once_or_not_at_all(
    server: FakeCoordinator,
    client: lockstep.Client,
    producer: EnlistedProducer,
    kafka: FakeKafka,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lockstep.kafka._INITIALISE", 0.01)
    timed_out = kafka_error(KafkaError._TIMED_OUT, retriable=True)
    kafka.failures["init_transactions"].extend([timed_out] * 1_000_000)
    with pytest.raises(lockstep.CallFailed, match="init_transactions"):
        commit_one(client, producer)
    kafka.failures.clear()
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_a_fatal_producer_is_made_anew(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    commit_one(client, producer)
    kafka.failures["begin_transaction"].append(kafka_error(KafkaError._FENCED))
    assert commit_one(client, producer).outcome is Outcome.COMMITTED
    assert (kafka.made, server.calls["RegisterProducer"]) == (2, 2)


def test_a_full_queue_waits(
    server: FakeCoordinator, client: lockstep.Client, producer: EnlistedProducer, kafka: FakeKafka
) -> None:
    kafka.queue_size = 2
    with client.transaction() as txn:
        branch = txn.enlist(producer)
        for i in range(5):
            branch.produce("orders", str(i))
        txn.commit().raise_unless_committed()
    assert [value["value"] for _, value in kafka.produced] == ["0", "1", "2", "3", "4"]


def test_one_transaction_at_a_time(client: lockstep.Client, producer: EnlistedProducer) -> None:
    with client.transaction() as one, client.transaction() as two:
        branch = one.enlist(producer)
        with pytest.raises(lockstep.CallFailed, match="another transaction"):
            two.enlist(producer)
        with pytest.raises(lockstep.CallFailed, match="in a transaction"):
            producer.close()
        with pytest.raises(lockstep.CallFailed, match="COMPLETE"):
            one.commit(wait=lockstep.Wait.DECIDED)
        one.commit().raise_unless_committed()
        with pytest.raises(lockstep.CallFailed, match="has ended"):
            branch.produce("orders")
        two.enlist(producer)


def test_on_delivery_is_passed_on(client: lockstep.Client, producer: EnlistedProducer) -> None:
    seen: List[object] = []
    with client.transaction() as txn:
        branch = txn.enlist(producer)
        branch.produce("orders", b"v", on_delivery=lambda error, _: seen.append(error))
        txn.commit().raise_unless_committed()
    assert seen == [None]


def test_configuration(kafka: FakeKafka) -> None:
    with pytest.raises(ValueError, match="transactional.id"):
        EnlistedProducer("east", {}, factory=kafka.producer)
    with pytest.raises(ValueError, match="delivery.report.only.error"):
        EnlistedProducer(
            "east", {"transactional.id": "t", "delivery.report.only.error": "true"}
        )


def test_offsets_of_a_consumer() -> None:
    offsets = offsets_of(FakeConsumer())  # type: ignore[arg-type]
    assert offsets.group == lockstep.ConsumerGroup("group", 7, "member", "instance")
    assert offsets.offsets == [lockstep.Offset("in", 0, 5)]
    assert offsets.kafka_cluster_id == "kafka-east"


def test_offsets_of_another_cluster(client: lockstep.Client, producer: EnlistedProducer) -> None:
    with client.transaction() as txn:
        branch = txn.enlist(producer)
        with pytest.raises(ValueError, match="where its group lives"):
            branch.send_offsets(FakeConsumer("kafka-west"))  # type: ignore[arg-type]
        # Nothing was sent: the transaction goes on.
        assert txn.commit().outcome is Outcome.COMMITTED


def test_group_metadata_of_another_form() -> None:
    class Other(FakeConsumer):
        def consumer_group_metadata(self) -> bytes:
            return b"CGMDv3:..."

    with pytest.raises(lockstep.LockstepError, match="another way"):
        consumer_group(Other())  # type: ignore[arg-type]


def test_rewind() -> None:
    consumer = FakeConsumer()
    messages = [FakeMessage("in", *where) for where in ((0, 4), (0, 3), (1, 9), (2, 1))]
    rewind(consumer, messages)  # type: ignore[arg-type]
    assert [(to.partition, to.offset) for to in consumer.seeks] == [(0, 3), (1, 9)]
