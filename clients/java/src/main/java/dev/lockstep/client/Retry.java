package dev.lockstep.client;

import dev.lockstep.client.LockstepException.Code;
import dev.lockstep.client.LockstepException.Effect;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * When one call is tried again, and what is known when it is not. For one thread; waits in {@link
 * #afterError} and {@link #afterAnswer} alone.
 */
final class Retry {
  /** Less than this is not enough for one more attempt. */
  private static final long TOO_LATE_NANOS = 5_000_000;

  private final ClientOptions options;
  private final boolean insist;
  private final long deadline;
  private long backoff;
  private boolean uncertain; // Some attempt may have reached the server without our knowing.

  /**
   * @param insist also try again when the server is full
   */
  Retry(ClientOptions options, Duration timeout, boolean insist) {
    this.options = options;
    this.insist = insist;
    this.deadline = System.nanoTime() + timeout.toNanos();
    this.backoff = options.firstBackoff().toNanos();
  }

  /** How long the attempt that begins now may take. */
  long nextAttemptNanos() {
    return Math.min(deadline - System.nanoTime(), options.attemptTimeout().toNanos());
  }

  /**
   * After an attempt that failed: returns when it is time for the next one, or throws what is known
   * of all of them.
   */
  void afterError(LockstepException error) {
    if (error.unknown()) uncertain = true;
    if (!canHelp(error)) {
      // Such a refusal settles earlier attempts too: had one of them taken effect, the repetition
      // would have been OK, or its effect ended with its transaction.
      if (error.code() == Code.INVALID_ARGUMENT || error.code() == Code.WRONG_STATE) {
        uncertain = false;
      }
      throw known(error);
    }
    if (!later(error.retryAfter().orElse(Duration.ZERO).toNanos())) throw known(error);
  }

  /** After an answer that may get better. False: there is no time to ask again. */
  boolean afterAnswer() {
    backoff = options.firstBackoff().toNanos();
    return later(0);
  }

  private boolean canHelp(LockstepException error) {
    if (error.code() == Code.INTERRUPTED) return false;
    if (error.unknown() || error.code() == Code.UNAVAILABLE) return true;
    // Full is the caller's to handle, unless an earlier attempt is to be cleared up.
    return error.retryAfter().isPresent()
        && (insist || uncertain || error.code() != Code.LIMIT_REACHED);
  }

  private LockstepException known(LockstepException error) {
    return uncertain && !error.unknown() ? error.with(Effect.UNKNOWN, "") : error;
  }

  private boolean later(long atLeast) {
    // Between a half and the whole: clients that lost one server come back spread out.
    long jittered = backoff / 2 + ThreadLocalRandom.current().nextLong(backoff / 2 + 1);
    long delay = Math.max(jittered, atLeast);
    backoff = Math.min(2 * backoff, options.maxBackoff().toNanos());
    if (System.nanoTime() + delay + TOO_LATE_NANOS - deadline > 0) return false;
    try {
      Thread.sleep(delay / 1_000_000, (int) (delay % 1_000_000));
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }
}
