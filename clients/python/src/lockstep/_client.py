"""The blocking client. lockstep.aio has the same with `await`."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Iterable, Optional, Sequence, Type

import grpc

from ._convert import wait_value
from ._core import ClientCore, TransactionCore
from ._io import CHANNEL_OPTIONS, BlockingIo, run
from ._retry import RetryOptions
from ._types import (
    Bytes,
    Executed,
    ExecuteKey,
    GroupOffsets,
    Header,
    Record,
    TxnInfo,
    TxnResult,
    Wait,
    Work,
)
from .v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    import confluent_kafka

    from .kafka import DeliveryCallback, EnlistedProducer, Enlistment


class Client:
    """A connection to one lockstepd. Thread-safe. Make one for the process and keep it: it connects at
    the first call, connects again whenever it must, and all transactions share it.

    Every call retries inside until there is an answer or its `timeout` (seconds; None: that of the
    options; float("inf"): as long as it takes) has passed. A call that may have reached the server and
    was not answered is repeated so that it takes effect once. Calls raise CallFailed.

    `server` is HOST:PORT, in plain text. For TLS give a channel instead; it stays yours to close:

        Client(channel=grpc.secure_channel("lockstep:7420", credentials, lockstep.CHANNEL_OPTIONS))
    """

    def __init__(
        self,
        server: str = "127.0.0.1:7420",
        *,
        channel: Optional[grpc.Channel] = None,
        options: RetryOptions = RetryOptions(),
    ) -> None:
        self._owned = channel is None
        self._channel = channel or grpc.insecure_channel(server, CHANNEL_OPTIONS)
        self._core = ClientCore(BlockingIo(self._channel), options)

    def close(self) -> None:
        if self._owned:
            self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def transaction(self, *, timeout: float = 60.0, label: str = "") -> Transaction:
        """A transaction, begun by `with`:

            with client.transaction() as txn:
                txn.produce("east", "orders", b"...")
                txn.produce("west", "orders", b"...")
                result = txn.commit()

        `timeout`: it aborts if it is not decided after so many seconds. `label` is for people.
        """
        return Transaction(TransactionCore(self._core, timeout, label))

    def execute(
        self,
        work: Iterable[Work],
        *,
        key: Optional[ExecuteKey] = None,
        txn_timeout: float = 60.0,
        label: str = "",
        wait: Wait = Wait.COMPLETE,
        timeout: Optional[float] = None,
    ) -> Executed:
        """A whole transaction in one call: commits all of `work`, in its order, or nothing. Repeated
        inside under one key, so that it takes effect once.

        After CallFailed with Effect.UNKNOWN it may have committed, be running, or not have begun:
        execute it again under the same key, which must then be yours. After ABORTED too, should the
        work still be wanted. With Effect.NONE the call did nothing; NOT_FOUND means that the key is
        older than the outcomes the server keeps, so that nobody knows whether it once committed.
        """
        return run(self._core.execute(work, key, txn_timeout, label, wait, timeout))

    def get_txn(self, txn_id: str, *, timeout: Optional[float] = None) -> TxnInfo:
        """What is known of a transaction now. Changes nothing. One that the server does not know, and
        that it would know had it been decided, is ABORTED (presumed abort)."""
        return run(self._core.get_txn(txn_id, timeout))

    def commit(
        self, txn_id: str, *, wait: Wait = Wait.COMPLETE, timeout: Optional[float] = None
    ) -> TxnResult:
        """Transaction.commit for one that was begun elsewhere, or whose commit raised OutcomeUnknown.
        Commits an open one: its work must be complete, and none of it an enlisted producer's."""
        request = pb.CommitRequest(txn_id=txn_id, wait=wait_value(wait))
        return run(self._core.commit(request, self._core.deadline(timeout)))

    def abort(self, txn_id: str, *, timeout: Optional[float] = None) -> TxnResult:
        """Transaction.abort by id."""
        return run(self._core.abort(txn_id, self._core.deadline(timeout)))


class Transaction:
    """One transaction over several clusters, from Client.transaction. Aborts unless it is committed:
    leaving the `with` before commit or abort was called aborts it, also on an exception.

    One thread at a time. A server keeps open transactions in memory only: after its restart more work
    is refused (WRONG_STATE), and commit returns ABORTED; what was decided before is not lost.
    """

    def __init__(self, core: TransactionCore) -> None:
        self._core = core

    def __enter__(self) -> Transaction:
        run(self._core.begin())
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        run(self._core.leave(error))

    @property
    def id(self) -> str:
        """Names it for Client.commit, abort and get_txn, from any process. Store it before commit to be
        able to ask for the outcome after a crash of your own."""
        return self._core.id

    @property
    def result(self) -> Optional[TxnResult]:
        """The last that commit or abort was told."""
        return self._core.result

    def produce(
        self,
        cluster: str,
        topic: str,
        value: Bytes = None,
        key: Bytes = None,
        *,
        partition: Optional[int] = None,
        headers: Sequence[Header] = (),
        timestamp: Optional[int] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Adds a record for one cluster (a name from the server's configuration). The server buffers it;
        no cluster hears of it until commit: what is wrong with a topic or a record is commit's answer.

        After CallFailed with Effect.NONE nothing was added and the transaction goes on; LIMIT_REACHED
        is yours to wait out, or to make transactions smaller. With Effect.UNKNOWN (only after the
        timeout) the transaction can only be aborted.
        """
        record = Record(topic, value, key, partition, headers, timestamp)
        self.produce_all(cluster, [record], timeout=timeout)

    def produce_all(
        self, cluster: str, records: Sequence[Record], *, timeout: Optional[float] = None
    ) -> None:
        """The same for several, in one call: all of them or none. Much faster than one by one; up to
        the server's limits.message_bytes (4 MiB) a call."""
        run(self._core.produce(cluster, records, timeout))

    def send_offsets(
        self, cluster: str, offsets: GroupOffsets, *, timeout: Optional[float] = None
    ) -> None:
        """Adds consumer offsets that commit with the transaction; see lockstep.kafka.offsets_of. As
        produce. A group that fences the member is commit's answer: ABORTED, GROUP_FENCED."""
        run(self._core.send_offsets(cluster, offsets, timeout))

    def enlist(self, producer: EnlistedProducer, *, timeout: Optional[float] = None) -> EnlistedBranch:
        """Makes the application's own producer a branch; what it writes commits with the transaction.
        A cluster has one branch: it is this producer's, or the server's own."""
        return EnlistedBranch(self._core, run(self._core.enlist(producer, timeout)))

    def commit(self, *, wait: Wait = Wait.COMPLETE, timeout: Optional[float] = None) -> TxnResult:
        """Commits everywhere or nowhere, and returns the outcome, ABORTED too: look at it, or call
        `raise_unless_committed()`. Enlisted producers are flushed before, and ended after it.

        COMMITTING: decided, but some cluster takes longer than the timeout. OutcomeUnknown: nobody
        answered in time; call commit again. After CallFailed nothing was decided. From a call of commit
        on, only CallFailed lets leaving the `with` abort it.
        """
        return run(self._core.commit(wait, timeout))

    def abort(self, *, timeout: Optional[float] = None) -> TxnResult:
        """Aborts, unless COMMIT is decided already: then the outcome says so. OutcomeUnknown: ask
        again."""
        return run(self._core.abort(timeout))


class EnlistedBranch:
    """What an EnlistedProducer does in one transaction. Failures of single calls are
    confluent_kafka.KafkaException."""

    def __init__(self, core: TransactionCore, enlistment: Enlistment) -> None:
        self._core = core
        self._enlistment = enlistment

    def produce(
        self,
        topic: str,
        value: Bytes = None,
        key: Bytes = None,
        *,
        partition: Optional[int] = None,
        headers: Sequence[Header] = (),
        timestamp: Optional[int] = None,
        on_delivery: Optional[DeliveryCallback] = None,
    ) -> None:
        """As confluent_kafka.Producer.produce: queues the record; waits while the queue is full. A
        record that this call refuses is not in the transaction; one that is not delivered later
        makes commit return ABORTED, DELIVERY_FAILED."""
        run(
            self._enlistment._produce(
                self._core.io, topic, value, key, partition, headers, timestamp, on_delivery
            )
        )

    def send_offsets(
        self,
        consumer: confluent_kafka.Consumer,
        offsets: Optional[Sequence[confluent_kafka.TopicPartition]] = None,
        *,
        timeout: Optional[float] = None,
    ) -> None:
        """Offsets of a consumer on this producer's own cluster. None: as lockstep.kafka.offsets_of,
        and it is to be called as that. Those of other clusters go by Transaction.send_offsets."""
        deadline = self._core._client.deadline(timeout)
        run(self._enlistment._send_offsets(self._core.io, consumer, offsets, deadline))
