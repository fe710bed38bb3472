"""The client for asyncio: as lockstep.Client, whose documentation holds, with `await`.

    async with aio.Client() as client:
        async with client.transaction() as txn:
            await txn.produce("east", "orders", b"...")
            result = await txn.commit()

librdkafka's blocking calls of an enlisted producer run on threads of asyncio.to_thread.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Iterable, Optional, Sequence, Type

import grpc

from ._convert import wait_value
from ._core import ClientCore, TransactionCore
from ._io import CHANNEL_OPTIONS, AsyncIo
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

__all__ = ["Client", "EnlistedBranch", "Transaction"]


class Client:
    """Belongs to the event loop that runs when it is made."""

    def __init__(
        self,
        server: str = "127.0.0.1:7420",
        *,
        channel: Optional[grpc.aio.Channel] = None,
        options: RetryOptions = RetryOptions(),
    ) -> None:
        self._owned = channel is None
        self._channel = channel or grpc.aio.insecure_channel(server, CHANNEL_OPTIONS)
        self._core = ClientCore(AsyncIo(self._channel), options)

    async def close(self) -> None:
        if self._owned:
            await self._channel.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def transaction(self, *, timeout: float = 60.0, label: str = "") -> Transaction:
        return Transaction(TransactionCore(self._core, timeout, label))

    async def execute(
        self,
        work: Iterable[Work],
        *,
        key: Optional[ExecuteKey] = None,
        txn_timeout: float = 60.0,
        label: str = "",
        wait: Wait = Wait.COMPLETE,
        timeout: Optional[float] = None,
    ) -> Executed:
        return await self._core.execute(work, key, txn_timeout, label, wait, timeout)

    async def get_txn(self, txn_id: str, *, timeout: Optional[float] = None) -> TxnInfo:
        return await self._core.get_txn(txn_id, timeout)

    async def commit(
        self, txn_id: str, *, wait: Wait = Wait.COMPLETE, timeout: Optional[float] = None
    ) -> TxnResult:
        request = pb.CommitRequest(txn_id=txn_id, wait=wait_value(wait))
        return await self._core.commit(request, self._core.deadline(timeout))

    async def abort(self, txn_id: str, *, timeout: Optional[float] = None) -> TxnResult:
        return await self._core.abort(txn_id, self._core.deadline(timeout))


class Transaction:
    """One task at a time. Cancelling a task in `commit` leaves the outcome unknown, as a timeout does."""

    def __init__(self, core: TransactionCore) -> None:
        self._core = core

    async def __aenter__(self) -> Transaction:
        await self._core.begin()
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self._core.leave(error)

    @property
    def id(self) -> str:
        return self._core.id

    @property
    def result(self) -> Optional[TxnResult]:
        return self._core.result

    async def produce(
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
        record = Record(topic, value, key, partition, headers, timestamp)
        await self.produce_all(cluster, [record], timeout=timeout)

    async def produce_all(
        self, cluster: str, records: Sequence[Record], *, timeout: Optional[float] = None
    ) -> None:
        await self._core.produce(cluster, records, timeout)

    async def send_offsets(
        self, cluster: str, offsets: GroupOffsets, *, timeout: Optional[float] = None
    ) -> None:
        await self._core.send_offsets(cluster, offsets, timeout)

    async def enlist(
        self, producer: EnlistedProducer, *, timeout: Optional[float] = None
    ) -> EnlistedBranch:
        return EnlistedBranch(self._core, await self._core.enlist(producer, timeout))

    async def commit(self, *, wait: Wait = Wait.COMPLETE, timeout: Optional[float] = None) -> TxnResult:
        return await self._core.commit(wait, timeout)

    async def abort(self, *, timeout: Optional[float] = None) -> TxnResult:
        return await self._core.abort(timeout)


class EnlistedBranch:
    def __init__(self, core: TransactionCore, enlistment: Enlistment) -> None:
        self._core = core
        self._enlistment = enlistment

    async def produce(
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
        """`on_delivery` may be called on another thread."""
        await self._enlistment._produce(
            self._core.io, topic, value, key, partition, headers, timestamp, on_delivery
        )

    async def send_offsets(
        self,
        consumer: confluent_kafka.Consumer,
        offsets: Optional[Sequence[confluent_kafka.TopicPartition]] = None,
        *,
        timeout: Optional[float] = None,
    ) -> None:
        deadline = self._core._client.deadline(timeout)
        await self._enlistment._send_offsets(self._core.io, consumer, offsets, deadline)
