"""Between the values of _types and the messages of lockstep.v1."""

from __future__ import annotations

from datetime import timezone
from typing import Iterable, Optional, Tuple, Union

import grpc

from ._errors import CallFailed, Effect
from ._types import (
    Abort,
    Branch,
    BranchOutcome,
    Bytes,
    ExecuteKey,
    GroupOffsets,
    Outcome,
    Record,
    TxnInfo,
    TxnResult,
    TxnState,
    Wait,
    Work,
)
from .v1 import coordinator_pb2 as pb
from .v1 import txn_pb2


def to_bytes(value: Bytes) -> Optional[bytes]:
    return value.encode() if isinstance(value, str) else value


def record_message(record: Record) -> txn_pb2.Record:
    message = txn_pb2.Record(
        topic=record.topic,
        partition=record.partition,
        key=to_bytes(record.key),
        value=to_bytes(record.value),
        headers=[txn_pb2.Header(key=key, value=to_bytes(value)) for key, value in record.headers],
    )
    if record.timestamp is not None:
        message.timestamp.FromMilliseconds(record.timestamp)
    return message


def fill_offsets(offsets: GroupOffsets, into: Union[pb.SendOffsetsRequest, pb.OffsetsWork]) -> None:
    group = offsets.group
    into.kafka_cluster_id = offsets.kafka_cluster_id
    into.standalone = group.standalone
    into.group.group_id = group.id
    if not group.standalone:
        into.group.generation = group.generation
        into.group.member_id = group.member_id
        if group.instance_id is not None:
            into.group.group_instance_id = group.instance_id
    for offset in offsets.offsets:
        into.offsets.add(
            topic=offset.topic,
            partition=offset.partition,
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )


def wait_value(wait: Wait) -> pb.CommitWait:
    return pb.COMMIT_WAIT_DECIDED if wait is Wait.DECIDED else pb.COMMIT_WAIT_COMPLETE


def execute_request(
    work: Iterable[Work], key: ExecuteKey, txn_timeout: float, label: str, wait: Wait
) -> pb.ExecuteRequest:
    request = pb.ExecuteRequest(key=key.name, label=label, wait=wait_value(wait))
    request.key_time.FromMilliseconds(int(key.made_at * 1000))
    request.timeout.FromMilliseconds(int(txn_timeout * 1000))
    for part in work:
        # Of a part without any work the server says what is wrong.
        if part.records or part.offsets is None:
            request.work.add(
                produce=pb.ProduceWork(
                    cluster=part.cluster, records=[record_message(record) for record in part.records]
                )
            )
        if part.offsets is not None:
            offsets = request.work.add().offsets
            offsets.cluster = part.cluster
            fill_offsets(part.offsets, offsets)
    return request


def _stripped(name: str, prefix: str) -> str:
    return name[len(prefix) :] if name.startswith(prefix) else name


def not_understood(what: str, value: int) -> CallFailed:
    return CallFailed(
        grpc.StatusCode.INTERNAL,
        f"the server speaks of {what} {value}, which this client does not know",
        effect=Effect.UNKNOWN,
    )


def _branch(message: txn_pb2.Branch) -> Branch:
    enlisted = message.WhichOneof("kind") == "enlisted"
    kafka = message.enlisted if enlisted else message.managed
    outcomes = {
        txn_pb2.BRANCH_OUTCOME_COMMITTED: BranchOutcome.COMMITTED,
        txn_pb2.BRANCH_OUTCOME_ABORTED: BranchOutcome.ABORTED,
        txn_pb2.BRANCH_OUTCOME_UNKNOWN: BranchOutcome.UNKNOWN,
    }
    return Branch(
        cluster=message.cluster,
        outcome=outcomes.get(message.outcome, BranchOutcome.PENDING),
        problem=message.problem,
        enlisted=enlisted,
        transactional_id=kafka.transactional_id,
        producer_id=kafka.producer_id if kafka.transactional_id else -1,
        producer_epoch=kafka.producer_epoch if kafka.transactional_id else -1,
        reinit_required=enlisted and message.enlisted.reinit_required,
    )


def _branches(messages: Iterable[txn_pb2.Branch]) -> Tuple[Branch, ...]:
    return tuple(_branch(message) for message in messages)


def _abort(message: txn_pb2.Abort) -> Abort:
    known = message.reason in txn_pb2.AbortReason.values()
    name = txn_pb2.AbortReason.Name(message.reason) if known else str(int(message.reason))
    return Abort(
        reason="" if not message.reason else _stripped(name, "ABORT_REASON_"),
        cluster=message.cluster,
        message=message.message,
        retryable=message.retryable,
    )


_OUTCOMES = {
    txn_pb2.OUTCOME_COMMITTED: Outcome.COMMITTED,
    txn_pb2.OUTCOME_ABORTED: Outcome.ABORTED,
    txn_pb2.OUTCOME_COMMITTING: Outcome.COMMITTING,
    txn_pb2.OUTCOME_HEURISTIC: Outcome.HEURISTIC,
}


def result_of(response: Union[pb.CommitResponse, pb.AbortResponse, pb.ExecuteResponse]) -> TxnResult:
    outcome = _OUTCOMES.get(response.outcome)
    if outcome is None:
        raise not_understood("outcome", response.outcome)
    return TxnResult(
        outcome=outcome,
        branches=_branches(response.branches),
        abort=_abort(response.abort) if outcome is Outcome.ABORTED else None,
    )


def info_of(txn: txn_pb2.Transaction) -> TxnInfo:
    if txn.state not in txn_pb2.TxnState.values() or not txn.state:
        raise not_understood("transaction state", txn.state)
    return TxnInfo(
        id=txn.txn_id,
        label=txn.label,
        state=TxnState(_stripped(txn_pb2.TxnState.Name(txn.state), "TXN_STATE_")),
        began_at=txn.begin_time.ToDatetime(timezone.utc),
        expires_at=txn.expire_time.ToDatetime(timezone.utc),
        branches=_branches(txn.branches),
        abort=_abort(txn.abort) if txn.HasField("abort") else None,
    )
