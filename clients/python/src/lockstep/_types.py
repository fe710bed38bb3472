"""What transactions are made of, and how they end: plain values. Kafka's words for Kafka's things."""

from __future__ import annotations

import enum
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Optional, Sequence, Tuple, Union

Bytes = Union[bytes, str, None]
"""A key or a value; str is sent as UTF-8. None is null (a tombstone), which is not empty."""

Header = Tuple[str, Bytes]

# ---- Work -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    topic: str
    value: Bytes = None
    key: Bytes = None
    partition: Optional[int] = None
    """None: as the Java client's partitioner chooses."""
    headers: Sequence[Header] = ()
    timestamp: Optional[int] = None
    """Milliseconds since 1970. None: the time of sending."""


@dataclass(frozen=True)
class Offset:
    topic: str
    partition: int
    offset: int
    """The next one to read: last processed + 1."""
    leader_epoch: Optional[int] = None
    metadata: str = ""


@dataclass(frozen=True)
class ConsumerGroup:
    """Who commits offsets. The broker fences a stale member only by what it is told here."""

    id: str
    generation: int = -1
    """The member epoch in a KIP-848 group."""
    member_id: str = ""
    instance_id: Optional[str] = None
    standalone: bool = False
    """The caller vouches that nobody else commits for this group: no generation, no member id, and so
    no fencing by the broker."""


@dataclass(frozen=True)
class GroupOffsets:
    """See lockstep.kafka.offsets_of for those of a consumer."""

    group: ConsumerGroup
    offsets: Sequence[Offset]
    """At least one; each partition once."""
    kafka_cluster_id: str = ""
    """The Kafka cluster id that the consumer saw. If set, the server refuses the offsets unless the
    named cluster has it."""


@dataclass(frozen=True)
class Work:
    """What a whole transaction does on one cluster; see Client.execute."""

    cluster: str
    records: Sequence[Record] = ()
    offsets: Optional[GroupOffsets] = None


def _random_name() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True)
class ExecuteKey:
    """Names one piece of work for ever: however often it is executed under its key, at most one run of
    it commits. ExecuteKey() is a random one, made now; store it with the work to be able to execute it
    again after a crash."""

    name: str = field(default_factory=_random_name)
    """1 to 256 bytes of printable ASCII without spaces; unique for ever."""
    made_at: float = field(default_factory=time.time)
    """Seconds since 1970; the same with each use. Milliseconds count."""


class Wait(enum.Enum):
    """How far commit waits."""

    COMPLETE = "COMPLETE"
    """Until every cluster is known to have committed."""
    DECIDED = "DECIDED"
    """Until COMMIT is durable: it will complete, whatever crashes."""


# ---- Outcomes ---------------------------------------------------------------------------------------


class Outcome(enum.Enum):
    COMMITTED = "COMMITTED"
    """On every cluster, durably."""
    ABORTED = "ABORTED"
    """On no cluster, now and later."""
    COMMITTING = "COMMITTING"
    """COMMIT is durable and under way. It will not abort; ask again for its end."""
    HEURISTIC = "HEURISTIC"
    """Clusters disagree, or one cannot be known: see the branches."""


class BranchOutcome(enum.Enum):
    PENDING = "PENDING"
    """Not known yet: being asked."""
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    UNKNOWN = "UNKNOWN"
    """Cannot be known any more: no evidence is left."""


@dataclass(frozen=True)
class Branch:
    """What a transaction did on one cluster."""

    cluster: str
    outcome: BranchOutcome
    problem: str = ""
    """Why it is still pending, or what went wrong; for people."""
    enlisted: bool = False
    """A Kafka transaction of the client's own producer."""
    transactional_id: str = ""
    """As the brokers know it. Empty: nothing was written there."""
    producer_id: int = -1
    producer_epoch: int = -1
    reinit_required: bool = False
    """The own producer must be made anew, which EnlistedProducer does."""


@dataclass(frozen=True)
class Abort:
    """Why a transaction aborted."""

    reason: str = ""
    """As in lockstep/v1/txn.proto without its prefix: "UNKNOWN_TOPIC", "TXN_TIMEOUT" ... More will
    come. Empty: no longer kept. "DELIVERY_FAILED" is this library's own: a record of an enlisted
    producer, or its offsets, did not reach the broker, so COMMIT was never asked for."""
    cluster: str = ""
    """Empty where no cluster is to blame."""
    message: str = ""
    """For people."""
    retryable: bool = False
    """The same work, begun anew, may well succeed."""


@dataclass(frozen=True)
class TxnResult:
    outcome: Outcome
    branches: Tuple[Branch, ...] = ()
    abort: Optional[Abort] = None
    """ABORTED only."""

    def raise_unless_committed(self) -> "TxnResult":
        """Raises TransactionAborted or HeuristicOutcome. COMMITTING passes: it will not abort."""
        from ._errors import HeuristicOutcome, TransactionAborted

        if self.outcome is Outcome.ABORTED:
            raise TransactionAborted(self)
        if self.outcome is Outcome.HEURISTIC:
            raise HeuristicOutcome(self)
        return self


@dataclass(frozen=True)
class Executed:
    txn_id: str
    """Of the run that the result belongs to, which may have been an earlier one."""
    key: ExecuteKey
    result: TxnResult


class TxnState(enum.Enum):
    ACTIVE = "ACTIVE"
    PREPARING = "PREPARING"
    """Commit was called; not decided. It may still abort."""
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"
    ABORTING = "ABORTING"
    """It will never commit; some cluster may not have been told yet."""
    ABORTED = "ABORTED"
    HEURISTIC = "HEURISTIC"


@dataclass(frozen=True)
class TxnInfo:
    id: str
    label: str
    state: TxnState
    began_at: datetime
    """The server's clock."""
    expires_at: datetime
    """The server's clock."""
    branches: Tuple[Branch, ...] = ()
    abort: Optional[Abort] = None
    """ABORTING and ABORTED only."""
