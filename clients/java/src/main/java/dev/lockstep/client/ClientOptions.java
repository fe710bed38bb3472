package dev.lockstep.client;

import java.time.Duration;

/**
 * How calls are made.
 *
 * @param callTimeout for calls that name no timeout of their own, with their retries
 * @param attemptTimeout one attempt of a call; what is left of the call's time is for the next one
 * @param firstBackoff between attempts that failed: at first, then twice as long each time; the
 *     server's word on when to come again takes precedence where it is longer
 * @param maxBackoff the longest of these
 */
public record ClientOptions(
    Duration callTimeout, Duration attemptTimeout, Duration firstBackoff, Duration maxBackoff) {
  public static final ClientOptions DEFAULT =
      new ClientOptions(
          Duration.ofSeconds(30),
          Duration.ofSeconds(10),
          Duration.ofMillis(50),
          Duration.ofSeconds(1));

  public ClientOptions withCallTimeout(Duration other) {
    return new ClientOptions(other, attemptTimeout, firstBackoff, maxBackoff);
  }

  public ClientOptions withAttemptTimeout(Duration other) {
    return new ClientOptions(callTimeout, other, firstBackoff, maxBackoff);
  }

  public ClientOptions withBackoff(Duration first, Duration max) {
    return new ClientOptions(callTimeout, attemptTimeout, first, max);
  }
}
