"""What waits: calls over gRPC, pauses, and librdkafka's blocking calls.

The rules (_retry, _core, kafka) are written once, as coroutines over an Io. Under BlockingIo nothing
ever suspends, so `run` drives such a coroutine to its end on the caller's thread; under AsyncIo it is
awaited.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Callable, Coroutine, Generic, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from .v1 import coordinator_pb2 as pb
from .v1 import coordinator_pb2_grpc

T = TypeVar("T")
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """One of the service Coordinator's."""

    name: str


BEGIN: Method[pb.BeginGlobalTxnRequest, pb.BeginGlobalTxnResponse] = Method("BeginGlobalTxn")
PRODUCE: Method[pb.ProduceRequest, pb.ProduceResponse] = Method("Produce")
SEND_OFFSETS: Method[pb.SendOffsetsRequest, pb.SendOffsetsResponse] = Method("SendOffsets")
COMMIT: Method[pb.CommitRequest, pb.CommitResponse] = Method("Commit")
ABORT: Method[pb.AbortRequest, pb.AbortResponse] = Method("Abort")
EXECUTE: Method[pb.ExecuteRequest, pb.ExecuteResponse] = Method("Execute")
GET_TXN: Method[pb.GetTxnRequest, pb.GetTxnResponse] = Method("GetTxn")
REGISTER: Method[pb.RegisterProducerRequest, pb.RegisterProducerResponse] = Method("RegisterProducer")
ENLIST: Method[pb.EnlistRequest, pb.EnlistResponse] = Method("Enlist")


class Io(Protocol):
    async def call(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        """One attempt. Raises grpc.RpcError."""

    async def sleep(self, seconds: float) -> None: ...

    async def blocking(self, function: Callable[[], T]) -> T:
        """Calls what blocks for a while."""


CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    # How soon a server that comes back is found; gRPC's own default goes up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 1000),  # For one attempt to connect.
    # A server whose machine is gone says nothing: notice it while a call waits.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # The calls' own retries know which call may be repeated.
    ("grpc.enable_retries", 0),
)


class BlockingIo:
    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = coordinator_pb2_grpc.CoordinatorStub(channel)  # type: ignore[no-untyped-call]

    async def call(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        response: Response = getattr(self._stub, method.name)(request, timeout=timeout)
        return response

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def blocking(self, function: Callable[[], T]) -> T:
        return function()


def run(steps: Coroutine[Any, Any, T]) -> T:
    """Drives a coroutine that is over a BlockingIo."""
    try:
        steps.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    steps.close()
    raise AssertionError("a coroutine over BlockingIo has suspended")


class AsyncIo:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = coordinator_pb2_grpc.CoordinatorStub(channel)  # type: ignore[no-untyped-call]

    async def call(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        response: Response = await getattr(self._stub, method.name)(request, timeout=timeout)
        return response

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def blocking(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)
