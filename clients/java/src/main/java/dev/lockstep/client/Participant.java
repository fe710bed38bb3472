package dev.lockstep.client;

import java.time.Duration;
import java.util.Optional;
import lockstep.v1.CoordinatorOuterClass.EnlistedWork;

/**
 * What a transaction has to do with one enlisted producer. Called in this order, by the thread that
 * ends the transaction: {@link #close}, {@link #flush} for a commit or {@link #settle} for an abort,
 * then one of {@link #end} and {@link #abandon}.
 */
interface Participant {
  String cluster();

  /** No more work from here on. */
  void close();

  /**
   * Until everything that was sent is acknowledged.
   *
   * @param patience after what the producer itself waits for
   * @return why not; empty: all of it is
   */
  Optional<Exception> flush(Duration patience);

  /**
   * A moment for what was sent to be acknowledged. What the broker hears of only after the server
   * has looked, the producer would end by itself, and the server would not know its next epoch.
   * Throws nothing.
   */
  void settle();

  /** What was written, after {@link #flush}. */
  EnlistedWork work();

  /** There is a definite answer: the producer's own end says the same. Throws nothing. */
  void end(TxnResult result);

  /**
   * There is none: the producer is closed without an end of its own, for that could tear what is
   * committed elsewhere. Throws nothing.
   */
  void abandon();
}
