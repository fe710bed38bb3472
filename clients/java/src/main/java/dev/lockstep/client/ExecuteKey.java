package dev.lockstep.client;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.UUID;

/**
 * Names one piece of work for ever: however often it is executed under its key, at most one run of
 * it commits.
 *
 * @param name 1 to 256 bytes of printable ASCII without spaces; unique for ever
 * @param madeAt the same with each use
 */
public record ExecuteKey(String name, Instant madeAt) {
  /** A random one, made now. */
  public static ExecuteKey random() {
    return of(UUID.randomUUID().toString());
  }

  /** Made now. Store both parts with the work, to be able to execute it again after a crash. */
  public static ExecuteKey of(String name) {
    return new ExecuteKey(name, Instant.now().truncatedTo(ChronoUnit.MILLIS));
  }
}
