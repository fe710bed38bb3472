package dev.lockstep.client;

import java.time.Duration;
import java.util.Optional;

/**
 * A call that failed. An outcome is never one: a transaction that aborted is an answer. Act on
 * {@link #effect}, then on {@link #code}; the wording is for people.
 */
public final class LockstepException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What is known about the effect of the call. */
  public enum Effect {
    /** Nothing happened, and nothing will happen later. */
    NONE,
    /** It may have happened, or may still happen: ask again. */
    UNKNOWN,
  }

  public enum Code {
    /** The request must change; the message names the field. */
    INVALID_ARGUMENT,
    /** Another server's id, or its outcome is no longer kept. */
    NOT_FOUND,
    /** The state of the transaction, of the producer or of the server forbids it. */
    WRONG_STATE,
    /** A bound of the server's is reached: see {@link #retryAfter}. */
    LIMIT_REACHED,
    /** The server is away, starting or leaving. */
    UNAVAILABLE,
    /** The call's timeout passed. */
    DEADLINE_EXCEEDED,
    /** The calling thread was interrupted; its interrupt flag is set. */
    INTERRUPTED,
    PERMISSION_DENIED,
    /** This server does not do it. */
    UNSUPPORTED,
    /** The server found its data damaged. */
    CORRUPT,
    /** A defect, here or there. */
    INTERNAL,
  }

  private final Code code;
  private final Effect effect;
  private final String reason;
  private final Duration retryAfter;

  LockstepException(
      Code code,
      Effect effect,
      String reason,
      String message,
      Duration retryAfter,
      Throwable cause) {
    super(message, cause);
    this.code = code;
    this.effect = effect;
    this.reason = reason;
    this.retryAfter = retryAfter;
  }

  /** Said by this side, of a call that was not made. */
  static LockstepException wrongState(String message) {
    return new LockstepException(Code.WRONG_STATE, Effect.NONE, "", message, null, null);
  }

  LockstepException with(Effect other, String prefix) {
    return new LockstepException(code, other, reason, prefix + getMessage(), retryAfter, this);
  }

  public Code code() {
    return code;
  }

  public Effect effect() {
    return effect;
  }

  /**
   * The server's own word, as in lockstep/v1/error.proto without its prefix ("UNKNOWN_CLUSTER");
   * empty where the server did not say one.
   */
  public String reason() {
    return reason;
  }

  /** Set where the same call may succeed after so long. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  boolean unknown() {
    return effect == Effect.UNKNOWN;
  }
}
