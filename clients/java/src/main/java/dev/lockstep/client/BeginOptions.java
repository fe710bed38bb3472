package dev.lockstep.client;

import java.time.Duration;

/**
 * How a transaction begins.
 *
 * @param timeout it aborts if it is not decided by then; the server has a limit
 * @param label for people: shown in listings and logs; at most 256 bytes
 */
public record BeginOptions(Duration timeout, String label) {
  public static final BeginOptions DEFAULT = new BeginOptions(Duration.ofMinutes(1), "");

  public BeginOptions withTimeout(Duration other) {
    return new BeginOptions(other, label);
  }

  public BeginOptions withLabel(String other) {
    return new BeginOptions(timeout, other);
  }
}
