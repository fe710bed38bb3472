"""How calls fail. An outcome is not an error of a call: commit returns ABORTED as data."""

from __future__ import annotations

import enum
from typing import Any, Iterable, Optional

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from ._types import TxnResult


class Effect(enum.Enum):
    """What is known about the effect of a call that failed. Act on this, not on the wording."""

    NONE = "NONE"
    """Nothing happened, and nothing will happen later."""
    UNKNOWN = "UNKNOWN"
    """It may have happened, or may still happen: ask again."""


class LockstepError(Exception):
    """Each error of this library's own."""


class CallFailed(LockstepError):
    """A call failed. Of commit: the transaction is not committed by it; nothing was decided."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        effect: Effect = Effect.NONE,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.reason = reason
        """The server's own word, as in lockstep/v1/error.proto without its prefix ("UNKNOWN_CLUSTER");
        empty where the server did not say one."""
        self.effect = effect
        self.retry_after = retry_after
        """Set where the same call may succeed after so many seconds."""

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason and self.reason != self.code.name else ""
        effect = ", effect unknown" if self.effect is Effect.UNKNOWN else ""
        return f"{self.code.name}{reason}{effect}: {self.message}"


class OutcomeUnknown(LockstepError):
    """Commit or abort was given up before there was an answer: the transaction may be committed,
    aborted or open. Call the same again, here or by the id, also from another process. Its work must
    not be done anew before that."""

    def __init__(self, txn_id: str, why: CallFailed) -> None:
        super().__init__(f"the outcome of transaction {txn_id} is not known: {why}")
        self.txn_id = txn_id
        self.why = why


class TransactionAborted(LockstepError):
    """From TxnResult.raise_unless_committed: on no cluster."""

    def __init__(self, result: TxnResult) -> None:
        abort = result.abort
        where = f" by {abort.cluster}" if abort and abort.cluster else ""
        super().__init__(f"aborted{where}: {abort.reason} {abort.message}" if abort else "aborted")
        self.result = result


class HeuristicOutcome(LockstepError):
    """From TxnResult.raise_unless_committed: clusters disagree, or one cannot be known. An operator
    must look; repeating the work may double it."""

    def __init__(self, result: TxnResult) -> None:
        branches = ", ".join(
            f"{branch.cluster} {branch.outcome.value} {branch.problem}".rstrip()
            for branch in result.branches
        )
        super().__init__(f"heuristic outcome: {branches}")
        self.result = result


# After these the server may have carried the call out, where it does not say otherwise itself.
_MAY_HAVE_HAPPENED = frozenset({
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DATA_LOSS,
})


def from_rpc_error(error: grpc.RpcError) -> CallFailed:
    assert isinstance(error, (grpc.Call, grpc.aio.AioRpcError))
    code = error.code()
    failed = CallFailed(
        code,
        error.details() or "",
        effect=Effect.UNKNOWN if code in _MAY_HAVE_HAPPENED else Effect.NONE,
    )
    metadata: Iterable[Any] = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            _read_details(value, failed)
    return failed


def _read_details(serialized: bytes, failed: CallFailed) -> None:
    try:
        status = Status.FromString(serialized)
    except DecodeError:
        return
    info = ErrorInfo()
    retry = RetryInfo()
    for detail in status.details:
        if detail.Unpack(info) and info.domain == "lockstep":
            failed.reason = info.reason
            unknown = info.reason == "OUTCOME_UNKNOWN"
            effect = info.metadata.get("effect", "UNKNOWN" if unknown else "NONE")
            failed.effect = Effect.NONE if effect == "NONE" else Effect.UNKNOWN
        elif detail.Unpack(retry):
            failed.retry_after = retry.retry_delay.ToTimedelta().total_seconds()
