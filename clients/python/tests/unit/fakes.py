"""A coordinator of this process's own behind real gRPC, and producers of a broker that is none. What
happens to either stands in one journal, in its order."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, NoReturn, Optional, Tuple

import confluent_kafka
import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from lockstep.v1 import coordinator_pb2 as pb
from lockstep.v1 import coordinator_pb2_grpc, txn_pb2

COMMITTING = pb.CommitResponse(outcome=txn_pb2.OUTCOME_COMMITTING)

Fault = Callable[[Callable[[], Message], grpc.ServicerContext], Message]


def fail(
    context: grpc.ServicerContext,
    code: grpc.StatusCode,
    reason: str = "",
    effect: str = "NONE",
    retry_after: Optional[float] = None,
) -> NoReturn:
    status = Status(message=f"{reason}, says the fake")
    if reason:
        any_message = AnyMessage()
        any_message.Pack(ErrorInfo(domain="lockstep", reason=reason, metadata={"effect": effect}))
        status.details.append(any_message)
    if retry_after is not None:
        any_message = AnyMessage()
        delay = Duration(seconds=int(retry_after), nanos=int(retry_after % 1 * 1e9))
        any_message.Pack(RetryInfo(retry_delay=delay))
        status.details.append(any_message)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, status.message)
    raise AssertionError


def lost_answer(carry_out: Callable[[], Message], context: grpc.ServicerContext) -> Message:
    """The call takes effect, and nobody hears of it."""
    carry_out()
    context.abort(grpc.StatusCode.UNAVAILABLE, "connection lost")
    raise AssertionError


def refused(code: grpc.StatusCode, reason: str, **more: Any) -> Fault:
    return lambda carry_out, context: fail(context, code, reason, **more)


def answered(response: Message) -> Fault:
    """Instead of what it would say."""
    return lambda carry_out, context: response


OUTCOME_UNKNOWN = refused(
    grpc.StatusCode.UNAVAILABLE, "OUTCOME_UNKNOWN", effect="UNKNOWN", retry_after=0.001
)
FENCED = refused(grpc.StatusCode.FAILED_PRECONDITION, "FENCED")


@dataclass
class Txn:
    state: str = "ACTIVE"
    work: List[Any] = field(default_factory=list)
    registrations: List[str] = field(default_factory=list)
    commit: Optional[pb.CommitRequest] = None


class FakeCoordinator(coordinator_pb2_grpc.CoordinatorServicer):
    """Keeps the contract where nothing is said in `script`: faults to come, by method."""

    def __init__(self) -> None:
        self.journal: List[str] = []
        self.calls: Dict[str, int] = defaultdict(int)
        self.script: Dict[str, Deque[Fault]] = defaultdict(deque)
        self.txns: Dict[str, Txn] = {}
        self.executed: Dict[str, pb.ExecuteRequest] = {}
        self.incarnation = 1
        self.registrations: Dict[str, str] = {}  # transactional.id -> the one that counts
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        add_to_server: Any = coordinator_pb2_grpc.add_CoordinatorServicer_to_server
        add_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def restart(self) -> None:
        """What is open is gone, what has ended is known."""
        self.incarnation += 1
        self.registrations.clear()
        for txn in self.txns.values():
            if txn.state == "ACTIVE":
                txn.state = "ABORTED"

    def only_txn(self) -> Txn:
        (txn,) = self.txns.values()
        return txn

    def _answer(
        self, name: str, context: grpc.ServicerContext, carry_out: Callable[[], Message]
    ) -> Any:
        self.calls[name] += 1

        def locked() -> Message:
            with self._lock:
                return carry_out()

        faults = self.script[name]
        response = faults.popleft()(locked, context) if faults else locked()
        outcome: Any = getattr(response, "outcome", None)
        known = outcome in txn_pb2.Outcome.values()
        self.journal.append(f"{name}: {txn_pb2.Outcome.Name(outcome)}" if known else name)
        return response

    def _active(self, txn_id: str, context: grpc.ServicerContext) -> Txn:
        txn = self.txns.get(txn_id)
        if txn is None:
            fail(context, grpc.StatusCode.NOT_FOUND, "TXN_NOT_FOUND")
        if txn.state != "ACTIVE":
            fail(context, grpc.StatusCode.FAILED_PRECONDITION, "WRONG_STATE")
        return txn

    # ---- The service --------------------------------------------------------------------------------

    def BeginGlobalTxn(self, request: pb.BeginGlobalTxnRequest, context: Any) -> Any:
        def begin() -> Message:
            txn_id = f"txn-{len(self.txns)}"
            self.txns[txn_id] = Txn()
            return pb.BeginGlobalTxnResponse(txn_id=txn_id)

        return self._answer("BeginGlobalTxn", context, begin)

    def _add(self, request: Any, response: Message, context: Any) -> Message:
        txn = self._active(request.txn_id, context)
        if not request.HasField("sequence") or request.sequence > len(txn.work):
            fail(context, grpc.StatusCode.FAILED_PRECONDITION, "WRONG_STATE")
        if request.sequence == len(txn.work):
            txn.work.append(request)
        return response

    def Produce(self, request: pb.ProduceRequest, context: Any) -> Any:
        answer = pb.ProduceResponse()
        return self._answer("Produce", context, lambda: self._add(request, answer, context))

    def SendOffsets(self, request: pb.SendOffsetsRequest, context: Any) -> Any:
        answer = pb.SendOffsetsResponse()
        return self._answer("SendOffsets", context, lambda: self._add(request, answer, context))

    def Commit(self, request: pb.CommitRequest, context: Any) -> Any:
        def commit() -> Message:
            txn = self.txns[request.txn_id]
            if txn.state == "ACTIVE":
                if {work.registration_id for work in request.enlisted} != set(txn.registrations):
                    fail(context, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
                txn.state, txn.commit = "COMMITTED", request
            return pb.CommitResponse(outcome=f"OUTCOME_{txn.state}")

        return self._answer("Commit", context, commit)

    def Abort(self, request: pb.AbortRequest, context: Any) -> Any:
        def abort() -> Message:
            txn = self.txns[request.txn_id]
            txn.state = "ABORTED" if txn.state == "ACTIVE" else txn.state
            return pb.AbortResponse(
                outcome=f"OUTCOME_{txn.state}",
                abort=txn_pb2.Abort(reason=txn_pb2.ABORT_REASON_CLIENT_ABORT),
            )

        return self._answer("Abort", context, abort)

    def Execute(self, request: pb.ExecuteRequest, context: Any) -> Any:
        def execute() -> Message:
            known = self.executed.setdefault(request.key, request)
            if known.key_time != request.key_time or known.work != request.work:
                fail(context, grpc.StatusCode.INVALID_ARGUMENT, "KEY_REUSED")
            return pb.ExecuteResponse(
                key=request.key, txn_id="txn-x", outcome=txn_pb2.OUTCOME_COMMITTED
            )

        return self._answer("Execute", context, execute)

    def GetTxn(self, request: pb.GetTxnRequest, context: Any) -> Any:
        def get() -> Message:
            state = f"TXN_STATE_{self.txns[request.txn_id].state}"
            return pb.GetTxnResponse(txn=txn_pb2.Transaction(txn_id=request.txn_id, state=state))

        return self._answer("GetTxn", context, get)

    def RegisterProducer(self, request: pb.RegisterProducerRequest, context: Any) -> Any:
        def register() -> Message:
            assert request.protocol == pb.PRODUCER_PROTOCOL_TV1
            registration = f"{request.transactional_id}#{self.calls['RegisterProducer']}"
            self.registrations[request.transactional_id] = registration
            return pb.RegisterProducerResponse(
                registration_id=registration, incarnation=self.incarnation, protocol=request.protocol
            )

        return self._answer("RegisterProducer", context, register)

    def Enlist(self, request: pb.EnlistRequest, context: Any) -> Any:
        def enlist() -> Message:
            txn = self._active(request.txn_id, context)
            if request.registration_id not in self.registrations.values():
                fail(context, grpc.StatusCode.FAILED_PRECONDITION, "FENCED")
            if request.registration_id not in txn.registrations:
                txn.registrations.append(request.registration_id)
            return pb.EnlistResponse(incarnation=self.incarnation)

        return self._answer("Enlist", context, enlist)


class FakeMessage:
    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self._where = (topic, partition, offset)

    def topic(self) -> str:
        return self._where[0]

    def partition(self) -> int:
        return self._where[1]

    def offset(self) -> int:
        return self._where[2]


class FakeProducer:
    """What confluent_kafka.Producer shows of itself to its owner."""

    def __init__(self, kafka: FakeKafka, config: Dict[str, Any]) -> None:
        self._kafka = kafka
        self.config = config
        self._queue: List[Tuple[FakeMessage, Any]] = []
        kafka.made += 1

    def _do(self, name: str) -> None:
        self._kafka.journal.append(name)
        failures = self._kafka.failures[name]
        if failures:
            raise confluent_kafka.KafkaException(failures.popleft())

    def init_transactions(self, timeout: float) -> None:
        self._do("init_transactions")

    def begin_transaction(self) -> None:
        self._do("begin_transaction")

    def produce(self, topic: str, *, partition: int, on_delivery: Any, **rest: Any) -> None:
        self._do("produce")
        if len(self._queue) >= self._kafka.queue_size:
            raise BufferError
        self._kafka.produced.append((topic, rest))
        offset = len(self._kafka.produced) - 1
        self._queue.append((FakeMessage(topic, max(partition, 0), offset), on_delivery))

    def poll(self, timeout: float) -> None:
        if timeout:
            self.flush(timeout)

    def flush(self, timeout: float) -> int:
        self._do("flush")
        if self._kafka.stuck:
            return len(self._queue)
        for message, on_delivery in self._queue:
            errors = self._kafka.failures["delivery"]
            on_delivery(errors.popleft() if errors else None, message)
        self._queue.clear()
        return 0

    def purge(self, in_queue: bool, in_flight: bool) -> None:
        self._do("purge")
        on_its_way = self._kafka.in_flight
        self._queue, queue = self._queue[:on_its_way], self._queue[on_its_way:]
        for message, on_delivery in queue:
            on_delivery(kafka_error(confluent_kafka.KafkaError._PURGE_QUEUE), message)

    def commit_transaction(self, timeout: float) -> None:
        self._do("commit_transaction")

    def abort_transaction(self, timeout: float) -> None:
        self._do("abort_transaction")

    def close(self) -> None:
        self._do("close")  # Which aborts.

    def cluster_id(self, timeout: float) -> str:
        return "kafka-east"

    def send_offsets_to_transaction(self, offsets: Any, metadata: bytes, timeout: float) -> None:
        self._do("send_offsets_to_transaction")

    def __del__(self) -> None:
        self._kafka.journal.append("dropped")


def kafka_error(code: int, retriable: bool = False) -> confluent_kafka.KafkaError:
    return confluent_kafka.KafkaError(code, "says the fake", False, retriable, False)


class FakeKafka:
    """Makes the producers; `failures` to come are by the call's name."""

    def __init__(self, journal: List[str]) -> None:
        self.journal = journal
        self.failures: Dict[str, Deque[confluent_kafka.KafkaError]] = defaultdict(deque)
        self.produced: List[Any] = []
        self.made = 0
        self.stuck = False
        self.queue_size = 1000
        self.in_flight = 0  # So many of the queued cannot be purged.

    def producer(self, config: Dict[str, Any]) -> FakeProducer:
        return FakeProducer(self, config)


class FakeConsumer:
    def __init__(self, cluster_id: str = "kafka-east", generation: int = 7) -> None:
        self._cluster_id = cluster_id
        self._generation = generation
        self.seeks: List[confluent_kafka.TopicPartition] = []

    def cluster_id(self, timeout: float) -> str:
        return self._cluster_id

    def assignment(self) -> List[confluent_kafka.TopicPartition]:
        return [confluent_kafka.TopicPartition("in", partition) for partition in (0, 1)]

    def position(self, partitions: Any) -> List[confluent_kafka.TopicPartition]:
        # Of partition 1 nothing was consumed.
        return [confluent_kafka.TopicPartition("in", 0, 5), confluent_kafka.TopicPartition("in", 1)]

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:" + self._generation.to_bytes(4, "little") + b"group\0member\0\0instance\0"

    def seek(self, where: confluent_kafka.TopicPartition) -> None:
        self.seeks.append(where)
