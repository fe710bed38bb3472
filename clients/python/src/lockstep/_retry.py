"""When a call is tried again, and what is known when it is not: the same rules as the C++ client's."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Callable, Optional

import grpc

from ._errors import CallFailed, Effect, from_rpc_error
from ._io import Io, Method, Request, Response

# Less than this is not enough for one more attempt.
_TOO_LATE = 0.005

# Such a refusal settles earlier attempts too: had one of them taken effect, the repetition would have
# been OK, or its effect ended with its transaction.
_SETTLES = frozenset({
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.ALREADY_EXISTS,
})


@dataclass(frozen=True)
class RetryOptions:
    """In seconds."""

    call_timeout: float = 30.0
    """For calls that name no timeout of their own."""
    attempt_timeout: float = 10.0
    """One attempt of a call; what is left of the call's time is for the next one."""
    first_backoff: float = 0.05
    """Between attempts that failed: at first, then twice as long each time. The server's word on when to
    come again takes precedence where it is longer."""
    max_backoff: float = 1.0


class Deadline:
    """math.inf seconds never pass."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        return max(self._at - time.monotonic(), 0.0)


class Backoff:
    def __init__(self, options: RetryOptions, deadline: Deadline) -> None:
        self._options = options
        self._deadline = deadline
        self._next = options.first_backoff

    def reset(self) -> None:
        self._next = self._options.first_backoff

    def delay(self, at_least: float = 0.0) -> Optional[float]:
        """So long before the next attempt; None: there is no time for one. Spread out, for clients that
        lost one server at one time."""
        delay = max(self._next * random.uniform(0.5, 1.0), at_least)
        self._next = min(2 * self._next, self._options.max_backoff)
        return delay if delay + _TOO_LATE < self._deadline.left() else None


async def call(
    io: Io,
    options: RetryOptions,
    method: Method[Request, Response],
    request: Request,
    deadline: Deadline,
    *,
    wait_if_full: bool = True,
    ask_again: Optional[Callable[[Response], bool]] = None,
) -> Response:
    """Repeats a call, which must be one that may be repeated, until there is an answer.

    `wait_if_full`: also after LIMIT_REACHED. `ask_again`: an answer that is OK, and that a later one may
    better; when time is up, it is the answer.

    Raises CallFailed: the last attempt's error, with what is known of the effect of all of them.
    """
    backoff = Backoff(options, deadline)
    so_far: Optional[Response] = None
    uncertain = False  # Some attempt may have reached the server without our knowing.
    while True:
        failed: Optional[CallFailed] = None
        try:
            answer = await io.call(method, request, min(deadline.left(), options.attempt_timeout))
            if ask_again is None or not ask_again(answer):
                return answer
            so_far = answer
            backoff.reset()
        except grpc.RpcError as error:
            failed = from_rpc_error(error)
        delay = None
        if failed is None:
            delay = backoff.delay()
        else:
            uncertain = failed.code not in _SETTLES and (uncertain or failed.effect is Effect.UNKNOWN)
            if _can_help(failed, wait_if_full or uncertain):
                delay = backoff.delay(failed.retry_after or 0.0)
        if delay is not None:
            await io.sleep(delay)
        elif so_far is not None:
            return so_far
        else:
            assert failed is not None
            failed.effect = Effect.UNKNOWN if uncertain else failed.effect
            raise failed


def _can_help(failed: CallFailed, wait_if_full: bool) -> bool:
    if failed.effect is Effect.UNKNOWN or failed.code is grpc.StatusCode.UNAVAILABLE:
        return True
    full = failed.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    return failed.retry_after is not None and (wait_if_full or not full)
