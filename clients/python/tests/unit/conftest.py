from __future__ import annotations

from typing import Iterator

import pytest
from fakes import FakeCoordinator, FakeKafka

import lockstep
from lockstep.kafka import EnlistedProducer

FAST = lockstep.RetryOptions(
    call_timeout=10.0, attempt_timeout=5.0, first_backoff=0.001, max_backoff=0.01
)


@pytest.fixture
def server() -> Iterator[FakeCoordinator]:
    coordinator = FakeCoordinator()
    yield coordinator
    coordinator.stop()


@pytest.fixture
def client(server: FakeCoordinator) -> Iterator[lockstep.Client]:
    with lockstep.Client(server.address, options=FAST) as one:
        yield one


@pytest.fixture
def kafka(server: FakeCoordinator) -> FakeKafka:
    return FakeKafka(server.journal)


@pytest.fixture
def producer(kafka: FakeKafka) -> EnlistedProducer:
    return EnlistedProducer("east", {"transactional.id": "orders"}, factory=kafka.producer)
