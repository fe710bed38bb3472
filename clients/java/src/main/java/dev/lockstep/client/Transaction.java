package dev.lockstep.client;

import dev.lockstep.client.LockstepException.Effect;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import lockstep.v1.CoordinatorGrpc.CoordinatorBlockingStub;
import lockstep.v1.CoordinatorOuterClass.CommitRequest;
import lockstep.v1.CoordinatorOuterClass.EnlistedWork;
import lockstep.v1.CoordinatorOuterClass.ProduceRequest;
import lockstep.v1.CoordinatorOuterClass.SendOffsetsRequest;

/**
 * One transaction over several clusters, of {@link LockstepClient#begin}. Aborts unless it is
 * committed: use it in a try-with-resources statement.
 *
 * <pre>{@code
 * try (Transaction txn = client.begin()) {
 *   txn.produce("east", KafkaRecord.of("orders", "42", "ten apples"));
 *   txn.produce("west", KafkaRecord.of("orders", "42", "ten apples"));
 *   txn.commit().orThrow();
 * }
 * }</pre>
 *
 * <p>For one thread at a time. Calls block; each retries inside, until an answer or its timeout, so
 * a lost connection and a server that restarts are not errors. A server keeps open transactions in
 * memory only: work after its restart is refused (WRONG_STATE, ABORTED); what was decided before is
 * not lost.
 */
public final class Transaction implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(Transaction.class.getName());

  /** What the abort of {@link #close} may take at most. */
  private static final Duration CLOSING = Duration.ofSeconds(5);

  private enum State {
    OPEN,
    /** Of a call it is not known whether it added its work: aborting is all that is left. */
    DOUBTFUL,
    COMMITTING,
    ABORTING,
  }

  private final Connection connection;
  private final String id;
  private final Instant expiresAt;
  private final List<Participant> participants = new ArrayList<>();
  private State state = State.OPEN;
  private long nextSequence = 0;
  private CommitRequest commitRequest; // The same in each commit.

  Transaction(Connection connection, String id, Instant expiresAt) {
    this.connection = connection;
    this.id = id;
    this.expiresAt = expiresAt;
  }

  /**
   * Names it for {@link LockstepClient#commit}, {@link LockstepClient#abort} and {@link
   * LockstepClient#getTxn}, from any process. Store it before the commit to be able to ask for the
   * outcome after a crash of your own.
   */
  public String id() {
    return id;
  }

  /** When it aborts unless it is decided, by the server's clock. */
  public Instant expiresAt() {
    return expiresAt;
  }

  // ---- Work through the server ----

  /** See {@link #produce(String, List)}. */
  public void produce(String cluster, KafkaRecord... records) {
    produce(cluster, List.of(records));
  }

  /**
   * Adds records for one cluster (a name from the server's configuration): all of them or none. The
   * server buffers them, nothing is durable, and no cluster hears of them until the commit: what is
   * wrong with a topic or a record is commit's answer.
   *
   * <p>After an exception with {@link Effect#NONE} nothing was added, and the transaction goes on;
   * LIMIT_REACHED is for the caller to wait out, or to make transactions smaller. With UNKNOWN
   * (only after the timeout, or an interrupt) nobody knows whether it was added: the transaction can
   * only be aborted then.
   */
  public void produce(String cluster, List<KafkaRecord> records) {
    ProduceRequest.Builder request =
        ProduceRequest.newBuilder().setTxnId(id).setCluster(cluster).setSequence(nextSequence);
    for (KafkaRecord record : records) request.addRecords(Convert.record(record));
    add(() -> connection.call(CoordinatorBlockingStub::produce, request.build()));
    ++nextSequence;
  }

  /**
   * Adds consumer offsets that commit with the transaction. As {@link #produce(String, List)}. A
   * group that fences the member is commit's answer: ABORTED, GROUP_FENCED.
   */
  public void sendOffsets(String cluster, GroupOffsets offsets) {
    SendOffsetsRequest.Builder request =
        Convert.sendOffsets(offsets).setTxnId(id).setCluster(cluster).setSequence(nextSequence);
    add(() -> connection.call(CoordinatorBlockingStub::sendOffsets, request.build()));
    ++nextSequence;
  }

  // ---- Work of the caller's own producer ----

  /**
   * Makes what {@code producer} writes from now on a part of this transaction, on the producer's
   * cluster; at most one producer a cluster. The first time, and whenever the producer has to be
   * made anew, this registers and initialises it, which takes as long as Kafka takes.
   *
   * <p>After an exception (of {@link LockstepException}'s, or of Kafka's) the transaction goes on
   * without the producer, or, where it cannot, takes nothing more and can only be aborted.
   */
  public <K, V> Enlistment<K, V> enlist(EnlistedProducer<K, V> producer) {
    Enlistment<K, V> enlistment = add(() -> producer.enlist(id));
    participants.add(enlistment.participant());
    try {
      enlistment.begin();
    } catch (RuntimeException e) {
      state = State.DOUBTFUL;
      throw e;
    }
    return enlistment;
  }

  private <T> T add(Supplier<T> work) {
    if (state == State.DOUBTFUL) throw doubtful();
    if (state != State.OPEN) {
      throw LockstepException.wrongState("commit or abort was called: no more work");
    }
    try {
      return work.get();
    } catch (LockstepException e) {
      if (e.unknown()) state = State.DOUBTFUL;
      throw e;
    }
  }

  // ---- The end ----

  /** Until every cluster has committed, or the client's own timeout. */
  public TxnResult commit() {
    return commit(Wait.COMPLETE, connection.options().callTimeout());
  }

  public TxnResult commit(Duration timeout) {
    return commit(Wait.COMPLETE, timeout);
  }

  /**
   * Commits everywhere or nowhere, and answers with the outcome, which may be ABORTED: look at it,
   * or say {@link TxnResult#orThrow}. If it is COMMITTED (or with {@link Wait#DECIDED} also
   * COMMITTING) the decision is durable and will be carried out on every cluster. A decided
   * transaction whose clusters take longer than the timeout is COMMITTING.
   *
   * <p>After an exception with {@link Effect#UNKNOWN} it may be committed, aborted or open: call
   * commit again, here or through the client by its id, also after a restart of either side. {@link
   * #close} does not abort it from here on.
   *
   * <p>With enlisted producers this first flushes them, which is not part of the timeout: it takes
   * up to their delivery.timeout.ms. If a record or an offset was not written, the transaction is
   * aborted, and the answer says so. After the server's answer they end their own transactions
   * accordingly; one that cannot is made anew when it is enlisted the next time, and changes nothing
   * about the outcome. If there is no definite answer (an exception, or COMMITTING) they do not end
   * theirs, ever, and are made anew, too.
   */
  public TxnResult commit(Wait wait, Duration timeout) {
    if (state == State.DOUBTFUL) throw doubtful();
    if (state == State.ABORTING) throw LockstepException.wrongState("abort was called");
    if (wait == Wait.DECIDED && !participants.isEmpty()) {
      throw new IllegalArgumentException("Wait.DECIDED does not go with enlisted producers");
    }
    if (commitRequest == null) {
      Optional<TxnResult> failed = flush(timeout);
      if (failed.isPresent()) return failed.get();
      List<EnlistedWork> enlisted = participants.stream().map(Participant::work).toList();
      commitRequest = Ending.request(id, wait, enlisted);
    }
    state = State.COMMITTING;
    return settle(() -> Ending.commit(connection, commitRequest, timeout));
  }

  /** Until all work of the participants is acknowledged. Not empty: it was not, and all is aborted. */
  private Optional<TxnResult> flush(Duration timeout) {
    participants.forEach(Participant::close);
    for (Participant participant : participants) {
      Optional<Exception> failure = participant.flush(timeout);
      if (failure.isEmpty()) continue;
      TxnResult result = abort(timeout);
      // The server knows of an abort by its client only; the client knows better.
      String why = "the enlisted producer could not write: " + failure.get();
      Abort abort =
          new Abort(result.abort().reason(), participant.cluster(), why, result.abort().retryable());
      return Optional.of(
          result.outcome() == Outcome.ABORTED
              ? new TxnResult(id, result.outcome(), result.branches(), abort)
              : result);
    }
    return Optional.empty();
  }

  /** Aborts, unless COMMIT is decided already: then the outcome says so. */
  public TxnResult abort() {
    return abort(connection.options().callTimeout());
  }

  /**
   * After an exception with {@link Effect#UNKNOWN}: ask again. Enlisted producers then abort their
   * own; one whose records are not all acknowledged within a second is made anew.
   */
  public TxnResult abort(Duration timeout) {
    state = State.ABORTING;
    participants.forEach(Participant::close);
    participants.forEach(Participant::settle);
    return settle(() -> Ending.abort(connection, id, timeout));
  }

  /**
   * The one place where producers hear of the end: after a definite answer they say the same, and
   * without one they say nothing.
   */
  private TxnResult settle(Supplier<TxnResult> ask) {
    boolean answered = false;
    try {
      TxnResult result = ask.get();
      if (result.outcome() == Outcome.HEURISTIC) {
        LOG.log(System.Logger.Level.ERROR, "transaction {0}: {1}", id, result.describe());
      }
      answered = result.outcome() != Outcome.COMMITTING;
      if (answered) participants.forEach(participant -> participant.end(result));
      return result;
    } catch (LockstepException e) {
      throw e.with(e.effect(), "transaction " + id + ": ");
    } finally {
      if (!answered) participants.forEach(Participant::abandon);
      participants.clear();
    }
  }

  private static LockstepException doubtful() {
    return LockstepException.wrongState(
        "it is not known whether an earlier call added its work: abort, begin anew");
  }

  /** Aborts, unless commit or abort was called. If that does not get through, its timeout does. */
  @Override
  public void close() {
    if (state == State.COMMITTING || state == State.ABORTING) return;
    Duration own = connection.options().callTimeout();
    try {
      abort(own.compareTo(CLOSING) < 0 ? own : CLOSING);
    } catch (RuntimeException e) {
      LOG.log(
          System.Logger.Level.WARNING,
          "transaction {0} is left to its timeout, for it could not be aborted: {1}",
          id,
          e.getMessage());
    }
  }
}
