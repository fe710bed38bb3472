"""Client and transaction, written once for both kinds of Io."""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Iterable, List, Optional, Sequence, Union

import grpc

from ._convert import (
    execute_request,
    fill_offsets,
    info_of,
    record_message,
    result_of,
    wait_value,
)
from ._errors import CallFailed, Effect, LockstepError, OutcomeUnknown
from ._io import ABORT, BEGIN, COMMIT, EXECUTE, GET_TXN, PRODUCE, SEND_OFFSETS, Io, Method, Request, Response
from ._retry import Deadline, RetryOptions, call
from ._types import (
    Abort,
    Executed,
    ExecuteKey,
    GroupOffsets,
    Outcome,
    Record,
    TxnInfo,
    TxnResult,
    Wait,
    Work,
)
from .v1 import coordinator_pb2 as pb
from .v1 import txn_pb2

if TYPE_CHECKING:
    from .kafka import EnlistedProducer, Enlistment

_log = logging.getLogger("lockstep")

# What leaving a transaction that nobody ended may take, and at least what ending an own producer may:
# the patience with the coordinator may be used up by then.
_AFTERWARDS = 5.0


def wrong_state(message: str) -> CallFailed:
    return CallFailed(grpc.StatusCode.FAILED_PRECONDITION, message, reason="WRONG_STATE")


def _incomplete(response: Union[pb.CommitResponse, pb.ExecuteResponse]) -> bool:
    """What the server answers shortly before an attempt's deadline: it may be long before ours."""
    return response.outcome == txn_pb2.OUTCOME_COMMITTING


class ClientCore:
    def __init__(self, io: Io, options: RetryOptions) -> None:
        self.io = io
        self.options = options

    def deadline(self, timeout: Optional[float]) -> Deadline:
        return Deadline(self.options.call_timeout if timeout is None else timeout)

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        deadline: Deadline,
        wait_if_full: bool = True,
    ) -> Response:
        return await call(self.io, self.options, method, request, deadline, wait_if_full=wait_if_full)

    async def execute(
        self,
        work: Iterable[Work],
        key: Optional[ExecuteKey],
        txn_timeout: float,
        label: str,
        wait: Wait,
        timeout: Optional[float],
    ) -> Executed:
        key = key or ExecuteKey()
        request = execute_request(work, key, txn_timeout, label, wait)
        response = await call(
            self.io,
            self.options,
            EXECUTE,
            request,
            self.deadline(timeout),
            ask_again=_incomplete if wait is Wait.COMPLETE else None,
        )
        return Executed(response.txn_id, key, result_of(response))

    async def get_txn(self, txn_id: str, timeout: Optional[float]) -> TxnInfo:
        answer = await self.call(GET_TXN, pb.GetTxnRequest(txn_id=txn_id), self.deadline(timeout))
        return info_of(answer.txn)

    async def commit(self, request: pb.CommitRequest, deadline: Deadline) -> TxnResult:
        again = None if request.wait == pb.COMMIT_WAIT_DECIDED else _incomplete
        try:
            response = await call(self.io, self.options, COMMIT, request, deadline, ask_again=again)
            return result_of(response)
        except CallFailed as failed:
            # An outcome that is no longer kept may have been any.
            if failed.effect is Effect.UNKNOWN or failed.code is grpc.StatusCode.NOT_FOUND:
                raise OutcomeUnknown(request.txn_id, failed) from failed
            raise

    async def abort(self, txn_id: str, deadline: Deadline) -> TxnResult:
        try:
            response = await self.call(ABORT, pb.AbortRequest(txn_id=txn_id), deadline)
            return result_of(response)
        except CallFailed as failed:
            raise OutcomeUnknown(txn_id, failed) from failed


class _State(enum.Enum):
    NEW = enum.auto()  # Not begun.
    OPEN = enum.auto()  # Takes work.
    DOUBTFUL = enum.auto()  # A call's effect is not known: its number cannot be used for another one.
    ENDING = enum.auto()  # Commit or abort was asked for.
    ENDED = enum.auto()  # With a definite outcome.


class TransactionCore:
    def __init__(self, client: ClientCore, timeout: float, label: str) -> None:
        self._client = client
        self._timeout = timeout
        self._label = label
        self._state = _State.NEW
        self._id = ""
        self._next_sequence = 0
        self._enlisted: List[Enlistment] = []
        self._commit: Optional[pb.CommitRequest] = None
        self.result: Optional[TxnResult] = None

    @property
    def io(self) -> Io:
        return self._client.io

    @property
    def id(self) -> str:
        if self._state is _State.NEW:
            raise wrong_state("the transaction is not begun: use `with`")
        return self._id

    async def begin(self) -> None:
        if self._state is not _State.NEW:
            raise wrong_state("a transaction is begun once")
        request = pb.BeginGlobalTxnRequest(label=self._label)
        request.timeout.FromMilliseconds(int(self._timeout * 1000))
        answer = await self._client.call(BEGIN, request, self._client.deadline(None))
        self._id = answer.txn_id
        self._state = _State.OPEN

    # ---- Work ---------------------------------------------------------------------------------------

    async def produce(self, cluster: str, records: Sequence[Record], timeout: Optional[float]) -> None:
        request = pb.ProduceRequest(
            cluster=cluster, records=[record_message(record) for record in records]
        )
        await self._add(PRODUCE, request, timeout)

    async def send_offsets(
        self, cluster: str, offsets: GroupOffsets, timeout: Optional[float]
    ) -> None:
        request = pb.SendOffsetsRequest(cluster=cluster)
        fill_offsets(offsets, request)
        await self._add(SEND_OFFSETS, request, timeout)

    async def _add(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: Optional[float],
    ) -> None:
        """Sends work under the next number, and keeps account of it."""
        self._require_open()
        assert isinstance(request, (pb.ProduceRequest, pb.SendOffsetsRequest))
        request.txn_id = self._id
        request.sequence = self._next_sequence
        # Whatever ends this early but a definite answer leaves the number in doubt.
        self._state = _State.DOUBTFUL
        try:
            deadline = self._client.deadline(timeout)
            await self._client.call(method, request, deadline, wait_if_full=False)
            self._next_sequence += 1
            self._state = _State.OPEN
        except CallFailed as failed:
            if failed.effect is Effect.NONE:
                self._state = _State.OPEN
            raise

    async def enlist(
        self, producer: EnlistedProducer, timeout: Optional[float]
    ) -> Enlistment:
        self._require_open()
        enlistment = await producer._enlist(self._client, self._id, self._client.deadline(timeout))
        self._enlisted.append(enlistment)
        return enlistment

    def _require_open(self) -> None:
        if self._state is _State.DOUBTFUL:
            raise wrong_state(
                "it is not known whether an earlier call added its work: abort, begin anew"
            )
        if self._state is not _State.OPEN:
            raise wrong_state("no more work: the transaction is not begun, or commit or abort was called")

    # ---- The end ------------------------------------------------------------------------------------

    async def commit(self, wait: Wait, timeout: Optional[float]) -> TxnResult:
        if self.result is not None and self._state is _State.ENDED:
            return self.result
        if self._commit is None and self._state is _State.ENDING:
            return await self.abort(timeout)  # Which was asked for, and not answered.
        deadline = self._client.deadline(timeout)
        if self._commit is None:
            self._require_open()
            if self._enlisted and wait is Wait.DECIDED:
                raise wrong_state("a transaction of one's own producer waits for COMPLETE")
            for enlistment in self._enlisted:
                await enlistment._flush(self.io, deadline)
            failed = next((e for e in self._enlisted if e._failure), None)
            if failed is not None:
                return await self._abort_undelivered(failed)
            self._commit = pb.CommitRequest(
                txn_id=self._id,
                wait=wait_value(wait),
                enlisted=[enlistment._work() for enlistment in self._enlisted],
            )
        self._state = _State.ENDING
        try:
            result = await self._client.commit(self._commit, deadline)
            await self._ended(result, deadline)
            return result
        except CallFailed:  # Nothing is decided: commit may be tried again, and leaving aborts.
            self._state = _State.DOUBTFUL
            raise
        finally:
            self._drop_enlisted()

    async def abort(self, timeout: Optional[float]) -> TxnResult:
        if self.result is not None and self._state is _State.ENDED:
            return self.result
        if self._state is _State.NEW:
            raise wrong_state("the transaction is not begun: use `with`")
        deadline = self._client.deadline(timeout)
        first = self._commit is None
        self._state = _State.ENDING
        try:
            if first:
                patience = Deadline(min(deadline.left() / 2, _AFTERWARDS))  # The rest is for the call.
                for enlistment in self._enlisted:
                    await enlistment._purge(self.io, patience)
            result = await self._client.abort(self._id, deadline)
            await self._ended(result, deadline)
            return result
        finally:
            self._drop_enlisted()

    async def leave(self, error: Optional[BaseException]) -> None:
        """The end of the `with`: aborts what nobody has ended."""
        try:
            if self._state in (_State.OPEN, _State.DOUBTFUL):
                if error is None:
                    _log.warning("transaction %s was left without commit or abort: aborting", self._id)
                await self.abort(min(self._client.options.call_timeout, _AFTERWARDS))
        except LockstepError as failed:  # It cannot commit any more; nobody else asks for it.
            _log.warning("transaction %s aborts at its timeout: %s", self._id, failed)
        finally:
            self._drop_enlisted()

    async def _abort_undelivered(self, failed: Enlistment) -> TxnResult:
        """Before COMMIT was ever asked for, so it ends ABORTED. Time may be up: that is one reason."""
        result = await self.abort(_AFTERWARDS)
        if result.outcome is not Outcome.ABORTED:
            return result
        why = Abort("DELIVERY_FAILED", failed.cluster, failed._failure, retryable=True)
        self.result = TxnResult(Outcome.ABORTED, result.branches, why)
        return self.result

    async def _ended(self, result: TxnResult, deadline: Deadline) -> None:
        """There is an answer: if it is definite, and only then, own producers end theirs."""
        self.result = result
        if result.outcome is Outcome.COMMITTING:
            return
        self._state = _State.ENDED
        if result.outcome is Outcome.HEURISTIC:
            _log.error("transaction %s has a HEURISTIC outcome: %s", self._id, result.branches)
            return
        reinit = {branch.cluster for branch in result.branches if branch.reinit_required}
        patience = max(min(deadline.left(), self._client.options.call_timeout), _AFTERWARDS)
        for enlistment in self._enlisted:
            if enlistment.cluster not in reinit:
                committed = result.outcome is Outcome.COMMITTED
                await enlistment._end(self.io, committed, Deadline(patience))

    def _drop_enlisted(self) -> None:
        """Those whose own transaction is not ended are never used again."""
        for enlistment in self._enlisted:
            enlistment._drop()

