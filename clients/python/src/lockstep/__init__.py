"""One transaction across several Apache Kafka clusters: all of them commit, or none does.

Client is the blocking client, lockstep.aio.Client the one for asyncio; lockstep.kafka is for those who
keep their own confluent-kafka producers and consumers.
"""

from ._client import Client, EnlistedBranch, Transaction
from ._errors import (
    CallFailed,
    Effect,
    HeuristicOutcome,
    LockstepError,
    OutcomeUnknown,
    TransactionAborted,
)
from ._io import CHANNEL_OPTIONS
from ._retry import RetryOptions
from ._types import (
    Abort,
    Branch,
    BranchOutcome,
    ConsumerGroup,
    Executed,
    ExecuteKey,
    GroupOffsets,
    Offset,
    Outcome,
    Record,
    TxnInfo,
    TxnResult,
    TxnState,
    Wait,
    Work,
)

__all__ = [
    "Abort",
    "Branch",
    "BranchOutcome",
    "CHANNEL_OPTIONS",
    "CallFailed",
    "Client",
    "ConsumerGroup",
    "Effect",
    "EnlistedBranch",
    "Executed",
    "ExecuteKey",
    "GroupOffsets",
    "HeuristicOutcome",
    "LockstepError",
    "Offset",
    "Outcome",
    "OutcomeUnknown",
    "Record",
    "RetryOptions",
    "Transaction",
    "TransactionAborted",
    "TxnInfo",
    "TxnResult",
    "TxnState",
    "Wait",
    "Work",
]
