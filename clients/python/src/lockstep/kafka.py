"""Around confluent-kafka: the application's own Producer as a branch of a global transaction, and the
offsets of its Consumer.

Needs the extra `kafka` (pip install 'lockstep-client[kafka]').
"""

from __future__ import annotations

import functools
import logging
import struct
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import confluent_kafka
import grpc

from ._core import ClientCore, wrong_state
from ._errors import CallFailed, LockstepError
from ._io import ENLIST, REGISTER, Io
from ._retry import Backoff, Deadline
from ._types import Bytes, ConsumerGroup, GroupOffsets, Header, Offset
from .v1 import coordinator_pb2 as pb

__all__ = ["EnlistedProducer", "Enlistment", "consumer_group", "offsets_of", "rewind"]

_log = logging.getLogger("lockstep")

DeliveryCallback = Callable[[Optional[confluent_kafka.KafkaError], Any], None]

# librdkafka's calls are resumed in slices of so many seconds: a signal is seen between two of them.
_SLICE = 1.0
# After a registration the producer is initialised at once or not at all: one that comes late would abort
# what a successor, registered meanwhile, has prepared.
_INITIALISE = 10.0
# How often a registration that is refused at once is tried again with a new one.
_REGISTRATIONS = 3

# Kafka's default maximum. The coordinator may be away between its decision and the end of the
# transaction: the brokers must not abort it meanwhile.
_DEFAULTS = {"transaction.timeout.ms": 900_000}


class EnlistedProducer:
    """The application's own transactional producer on one cluster. Make one for the process and enlist
    it in one transaction after the other:

        producer = EnlistedProducer("east", {"bootstrap.servers": "...", "transactional.id": "orders-0"})
        with client.transaction() as txn:
            branch = txn.enlist(producer)
            branch.produce("orders", value=b"...")
            txn.commit()

    It makes the confluent_kafka.Producer itself, registers and initialises it, and makes it anew where
    that is called for: the first transaction after that takes longer. Nobody else may use that producer,
    nor end or close it: its close() aborts what is open (seen in release 2.16), which after COMMIT is
    decided tears the transaction. So it is dropped, never closed.

    One transaction at a time; not thread-safe. For sync and asyncio alike.

    `config`: that of a confluent_kafka.Producer, with a transactional.id of its own: whoever
    initialises an id last owns it. `factory` makes the producer from that, if not the class itself.
    """

    def __init__(
        self,
        cluster: str,
        config: Mapping[str, Any],
        *,
        factory: Callable[[Dict[str, Any]], Any] = confluent_kafka.Producer,
    ) -> None:
        if not config.get("transactional.id"):
            raise ValueError("transactional.id is missing")
        if str(config.get("delivery.report.only.error", False)).lower() == "true":
            raise ValueError("delivery.report.only.error: each record's delivery must be known")
        self.cluster = cluster
        self.transactional_id: str = config["transactional.id"]
        self._config: Dict[str, Any] = {**_DEFAULTS, **config}
        self._factory = factory
        self._producer: Any = None
        self._registration: Optional[pb.RegisterProducerResponse] = None
        self._current: Optional[Enlistment] = None

    def close(self) -> None:
        """Lets the producer go. Only between transactions."""
        if self._current is not None:
            raise wrong_state("the producer is in a transaction: commit or abort it")
        self._drop()

    def _drop(self) -> None:
        # Not close(): see above. The last reference destroys it, which ends nothing.
        self._producer = None
        self._registration = None
        self._current = None

    async def _enlist(self, client: ClientCore, txn_id: str, deadline: Deadline) -> Enlistment:
        if self._current is not None:
            raise wrong_state(f"{self.transactional_id} is in another transaction")
        backoff = Backoff(client.options, deadline)
        for attempt in range(1, _REGISTRATIONS + 1):
            if self._producer is None:
                await self._initialise(client, deadline)
            try:
                return await self._enlist_once(client, txn_id, deadline)
            except CallFailed as failed:
                self._drop()
                delay = backoff.delay() if failed.reason == "FENCED" else None
                if delay is None or attempt == _REGISTRATIONS:
                    raise
                await client.io.sleep(delay)
            except BaseException:  # Whether the branch is bound is not known.
                self._drop()
                raise
        raise AssertionError("not reached")

    async def _initialise(self, client: ClientCore, deadline: Deadline) -> None:
        producer = self._factory(dict(self._config))
        request = pb.RegisterProducerRequest(
            cluster=self.cluster,
            transactional_id=self.transactional_id,
            protocol=pb.PRODUCER_PROTOCOL_TV1,  # All that librdkafka speaks.
        )
        registration = await client.call(REGISTER, request, deadline)
        patience = Deadline(min(deadline.left(), _INITIALISE))
        failure = await _resumed(client.io, producer.init_transactions, patience)
        if failure is not None:
            raise CallFailed(
                grpc.StatusCode.UNAVAILABLE,
                f"{self.transactional_id} on {self.cluster}: init_transactions: {failure}",
            )
        self._producer, self._registration = producer, registration

    async def _enlist_once(self, client: ClientCore, txn_id: str, deadline: Deadline) -> Enlistment:
        assert self._registration is not None
        try:
            self._producer.begin_transaction()  # Local: no broker hears of it.
        except confluent_kafka.KafkaException as error:
            raise _fenced(f"{self.transactional_id}: begin_transaction: {error}") from error
        request = pb.EnlistRequest(txn_id=txn_id, registration_id=self._registration.registration_id)
        answer = await client.call(ENLIST, request, deadline)
        if answer.incarnation not in (0, self._registration.incarnation):  # 0: it does not tell.
            # Bound under another server's start than it was registered with: to be begun anew.
            raise wrong_state("the coordinator has restarted: begin a new transaction")
        self._current = Enlistment(self, self._producer, self._registration.registration_id)
        return self._current


class Enlistment:
    """What an enlisted producer does in one transaction; its end is the transaction's. Made by
    Transaction.enlist, which has methods of the right kind around it."""

    def __init__(self, owner: EnlistedProducer, producer: Any, registration_id: str) -> None:
        self.cluster = owner.cluster
        self.transactional_id = owner.transactional_id
        self._owner = owner
        self._producer = producer
        self._registration_id = registration_id
        self._unacknowledged = 0
        self._acknowledged: Dict[Tuple[str, int], int] = {}  # Per partition, the highest offset.
        self._groups: Set[str] = set()
        self._failure = ""  # Something is not where it should be: it must not be committed.

    # ---- Work ---------------------------------------------------------------------------------------

    async def _produce(
        self,
        io: Io,
        topic: str,
        value: Bytes,
        key: Bytes,
        partition: Optional[int],
        headers: Sequence[Header],
        timestamp: Optional[int],
        on_delivery: Optional[DeliveryCallback],
    ) -> None:
        producer = self._usable()
        while True:
            try:
                producer.produce(
                    topic,
                    value=value,
                    key=key,
                    partition=-1 if partition is None else partition,
                    headers=list(headers),
                    timestamp=timestamp or 0,
                    on_delivery=functools.partial(self._delivered, on_delivery),
                )
                self._unacknowledged += 1
                break
            except BufferError:  # The queue is full: wait for reports of what is in it.
                await io.blocking(functools.partial(producer.poll, 0.1))
        producer.poll(0)

    def _delivered(
        self,
        on_delivery: Optional[DeliveryCallback],
        error: Optional[confluent_kafka.KafkaError],
        message: Any,
    ) -> None:
        self._unacknowledged -= 1
        if error is not None:
            self._failure = self._failure or f"a record to {message.topic()} was not delivered: {error}"
        else:
            where = (message.topic(), message.partition())
            self._acknowledged[where] = max(self._acknowledged.get(where, -1), message.offset())
        if on_delivery is not None:
            on_delivery(error, message)

    async def _send_offsets(
        self,
        io: Io,
        consumer: confluent_kafka.Consumer,
        offsets: Optional[Sequence[confluent_kafka.TopicPartition]],
        deadline: Deadline,
    ) -> None:
        producer = self._usable()
        valid = _valid(consumer, offsets)
        if not valid:
            return
        here, there = (_cluster_id(client, deadline.left()) for client in (producer, consumer))
        if here != there:
            raise ValueError(
                f"the consumer is on Kafka cluster {there}, this producer on {here} ({self.cluster}): "
                "send its offsets with Transaction.send_offsets, to the cluster where its group lives"
            )
        metadata = consumer.consumer_group_metadata()
        group = _parse_group(metadata)
        try:
            # Unlike the producer's other calls it cannot be resumed.
            timeout = min(deadline.left(), 3600.0)
            await io.blocking(
                functools.partial(producer.send_offsets_to_transaction, valid, metadata, timeout)
            )
        except BaseException as error:  # Whether they were added is not known.
            self._failure = self._failure or f"offsets of group {group.id} were not added: {error}"
            raise
        self._groups.add(group.id)

    def _usable(self) -> Any:
        if self._producer is None:
            raise wrong_state("the transaction has ended")
        return self._producer

    # ---- The end, for TransactionCore ---------------------------------------------------------------

    async def _flush(self, io: Io, deadline: Deadline) -> None:
        while not self._failure and self._unacknowledged and deadline.left():
            await io.blocking(functools.partial(self._producer.flush, min(deadline.left(), _SLICE)))
        if self._unacknowledged and not self._failure:
            self._failure = f"{self._unacknowledged} records were not acknowledged in time"

    async def _purge(self, io: Io, deadline: Deadline) -> None:
        """Before an abort: drops what is queued, and waits for what is on its way, which must not arrive
        after the end. What is dropped counts as not delivered: abort_transaction would then change the
        epoch, under the registration."""
        if self._producer is None:  # Dropped already.
            return
        self._producer.purge(in_queue=True, in_flight=False)
        while self._unacknowledged and deadline.left():
            await io.blocking(functools.partial(self._producer.flush, min(deadline.left(), _SLICE)))

    def _work(self) -> pb.EnlistedWork:
        return pb.EnlistedWork(
            registration_id=self._registration_id,
            partitions=[
                pb.WrittenPartition(topic=topic, partition=partition, offset=offset)
                for (topic, partition), offset in sorted(self._acknowledged.items())
            ],
            group_ids=sorted(self._groups),
            read_only=not self._acknowledged and not self._groups,
        )

    async def _end(self, io: Io, commit: bool, deadline: Deadline) -> None:
        """Ends the producer's own transaction as the global one has ended: the broker has done so
        already. If that fails the outcome is the same, and the producer is made anew."""
        if self._producer is None or self._failure:
            return  # Dropped; or it will be, for abort_transaction may change its epoch.
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        failure = await _resumed(io, end, deadline)
        if failure is not None:
            _log.warning("%s is made anew: its own end: %s", self.transactional_id, failure)
            return
        self._producer = None
        self._owner._current = None

    def _drop(self) -> None:
        """Unless ended: the producer is never used again, nor ended."""
        if self._producer is not None:
            self._producer = None
            self._owner._drop()


async def _resumed(io: Io, function: Callable[[float], Any], deadline: Deadline) -> Optional[Exception]:
    """One of the producer's calls that may be called again after a retriable failure. What it failed
    with in the end."""
    while True:
        try:
            await io.blocking(functools.partial(function, min(max(deadline.left(), 0.001), _SLICE)))
            return None
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable() or not deadline.left():
                return error


def _fenced(message: str) -> CallFailed:
    return CallFailed(grpc.StatusCode.FAILED_PRECONDITION, message, reason="FENCED")


# ---- Consumers ----------------------------------------------------------------------------------------


def offsets_of(
    consumer: confluent_kafka.Consumer,
    offsets: Optional[Sequence[confluent_kafka.TopicPartition]] = None,
    *,
    timeout: float = 30.0,
) -> GroupOffsets:
    """Offsets for Transaction.send_offsets, with what fences the consumer should the group have moved on,
    and the cluster that it reads from, so that they cannot go to another one.

    None: behind all that the consumer has returned so far; there must be something. Call it on the
    thread that polls, between the poll whose messages the transaction is about and the next one: a
    rebalance happens within polls only. The consumer needs enable.auto.commit=false.
    """
    return GroupOffsets(
        group=consumer_group(consumer),
        offsets=[
            Offset(at.topic, at.partition, at.offset, _epoch(at.leader_epoch), at.metadata or "")
            for at in _valid(consumer, offsets)
        ],
        kafka_cluster_id=_cluster_id(consumer, timeout),
    )


def consumer_group(consumer: confluent_kafka.Consumer) -> ConsumerGroup:
    """The consumer's membership now."""
    return _parse_group(consumer.consumer_group_metadata())


def rewind(consumer: confluent_kafka.Consumer, messages: Sequence[Any]) -> None:
    """Has these messages consumed again: after their transaction has aborted. Those of partitions that
    have gone to another member are its business now."""
    first: Dict[Tuple[str, int], int] = {}
    for message in messages:
        where = (message.topic(), message.partition())
        first[where] = min(first.get(where, message.offset()), message.offset())
    mine = {(assigned.topic, assigned.partition) for assigned in consumer.assignment()}
    for (topic, partition), offset in first.items():
        if (topic, partition) in mine:
            consumer.seek(confluent_kafka.TopicPartition(topic, partition, offset))


def _valid(
    consumer: confluent_kafka.Consumer,
    offsets: Optional[Sequence[confluent_kafka.TopicPartition]],
) -> List[confluent_kafka.TopicPartition]:
    if offsets is None:
        offsets = consumer.position(consumer.assignment())
    return [offset for offset in offsets if offset.offset >= 0]


def _epoch(leader_epoch: Optional[int]) -> Optional[int]:
    return None if leader_epoch is None or leader_epoch < 0 else leader_epoch


def _cluster_id(client: Any, timeout: float) -> str:
    cluster_id: str = client.cluster_id(timeout=min(timeout, 3600.0))
    return cluster_id


_METADATA = b"CGMDv2:"


def _parse_group(metadata: Any) -> ConsumerGroup:
    """confluent-kafka gives group metadata as librdkafka serialises them (rdkafka_cgrp.c), and nothing
    else tells the generation: the mark, the generation (int32), group\\0, member\\0, whether there is no
    instance id, and else that with a \\0. Newer forms have another mark."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_METADATA):
        raise LockstepError("this release of confluent-kafka describes groups in another way")
    rest = metadata[len(_METADATA) :]
    (generation,) = struct.unpack("=i", rest[:4])
    group, member, instance = rest[4:].split(b"\0", 2)
    return ConsumerGroup(
        id=group.decode(),
        generation=generation,
        member_id=member.decode(),
        instance_id=None if instance[:1] == b"\1" else instance[1:-1].decode(),
    )
