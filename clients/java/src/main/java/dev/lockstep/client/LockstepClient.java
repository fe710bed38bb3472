package dev.lockstep.client;

import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import lockstep.v1.CoordinatorGrpc.CoordinatorBlockingStub;
import lockstep.v1.CoordinatorOuterClass.BeginGlobalTxnRequest;
import lockstep.v1.CoordinatorOuterClass.BeginGlobalTxnResponse;
import lockstep.v1.CoordinatorOuterClass.ExecuteRequest;
import lockstep.v1.CoordinatorOuterClass.ExecuteResponse;
import lockstep.v1.CoordinatorOuterClass.GetTxnRequest;
import lockstep.v1.Txn;

/**
 * A connection to one lockstepd. Thread-safe. Make one for the process and keep it: it connects at
 * the first call, connects again whenever it must, and all transactions share it.
 *
 * <p>Every call blocks, and retries inside until an answer or its timeout. A call that may have
 * reached the server and was not answered is repeated so that it takes effect once. What fails is a
 * {@link LockstepException}. An interrupt ends a call, with {@link
 * LockstepException.Effect#UNKNOWN}.
 */
public final class LockstepClient implements AutoCloseable {
  private final ManagedChannel channel;
  private final boolean owned;
  private final Connection connection;

  private LockstepClient(ManagedChannel channel, boolean owned, ClientOptions options) {
    this.channel = channel;
    this.owned = owned;
    this.connection = new Connection(channel, options);
  }

  /** In plain text; {@code server} is HOST:PORT of lockstepd. */
  public static LockstepClient connect(String server) {
    return connect(server, ClientOptions.DEFAULT);
  }

  public static LockstepClient connect(String server, ClientOptions options) {
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget(server)
            .usePlaintext()
            .maxInboundMessageSize(Integer.MAX_VALUE)
            // A server whose machine is gone says nothing: notice it while a call waits.
            .keepAliveTime(20, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            // The calls' own retries know which call may be repeated.
            .disableRetry()
            .build();
    return new LockstepClient(channel, true, options);
  }

  /**
   * Over a channel of the caller's, who closes it: for TLS, or whatever else gRPC can do. Turn
   * gRPC's own retries off.
   */
  public static LockstepClient over(ManagedChannel channel, ClientOptions options) {
    return new LockstepClient(channel, false, options);
  }

  /** Begins a transaction of a minute at most. */
  public Transaction begin() {
    return begin(BeginOptions.DEFAULT);
  }

  /**
   * Begins a transaction; nothing is written to disk or to any cluster. After an error there may be
   * one that nobody knows: it aborts at its timeout. LIMIT_REACHED: too many are open.
   */
  public Transaction begin(BeginOptions options) {
    BeginGlobalTxnResponse begun =
        connection.call(
            CoordinatorBlockingStub::beginGlobalTxn,
            BeginGlobalTxnRequest.newBuilder()
                .setTimeout(Convert.duration(options.timeout()))
                .setLabel(options.label())
                .build());
    return new Transaction(
        connection, begun.getTxnId(), Convert.instant(begun.getExpireTime()));
  }

  /** Under a random key, a minute at most; see the other. */
  public Executed execute(List<Work> work) {
    return execute(work, ExecuteKey.random(), BeginOptions.DEFAULT);
  }

  /**
   * A whole transaction in one call: commits all of {@code work}, in its order, or nothing. Repeated
   * inside under one key until an outcome is known, so that it takes effect once. For what fits into
   * one message.
   *
   * <p>After an error with {@link LockstepException.Effect#UNKNOWN} it may have committed, be
   * running, or not have begun: execute it again under the same key. So after ABORTED too, should
   * the work still be wanted. NOT_FOUND means that the key is older than the outcomes that the
   * server keeps, so that nobody knows whether it once committed.
   */
  public Executed execute(List<Work> work, ExecuteKey key, BeginOptions options) {
    ExecuteRequest.Builder request =
        ExecuteRequest.newBuilder()
            .setKey(key.name())
            .setKeyTime(Convert.timestamp(key.madeAt()))
            .setTimeout(Convert.duration(options.timeout()))
            .setLabel(options.label());
    for (Work part : work) {
      // Of a part without any work the server says what is wrong.
      if (!part.records().isEmpty() || part.offsets() == null) {
        request.addWorkBuilder().setProduce(Convert.produceWork(part));
      }
      if (part.offsets() != null) request.addWorkBuilder().setOffsets(Convert.offsetsWork(part));
    }
    ExecuteResponse answer =
        connection.call(
            CoordinatorBlockingStub::execute,
            request.build(),
            connection.options().callTimeout(),
            false,
            it -> it.getOutcome() == Txn.Outcome.OUTCOME_COMMITTING);
    TxnResult result =
        Convert.result(
            answer.getTxnId(), answer.getOutcome(), answer.getBranchesList(), answer.getAbort());
    return new Executed(key, result, answer.getRepeatedKey());
  }

  /**
   * What is known of a transaction now. Changes nothing. One that the server does not know, and that
   * it would know had it been decided, is ABORTED (presumed abort). NOT_FOUND: another server's id,
   * or its outcome is no longer kept.
   */
  public TxnInfo getTxn(String txnId) {
    return Convert.info(
        connection
            .call(
                CoordinatorBlockingStub::getTxn,
                GetTxnRequest.newBuilder().setTxnId(txnId).build())
            .getTxn());
  }

  /**
   * {@link Transaction#commit()} for one that was begun elsewhere, or whose commit failed with an
   * unknown effect. Commits an open one: its work must be complete. An open one with enlisted
   * producers is refused.
   */
  public TxnResult commit(String txnId) {
    return commit(txnId, connection.options().callTimeout());
  }

  public TxnResult commit(String txnId, Duration timeout) {
    return Ending.commit(
        connection, Ending.request(txnId, Wait.COMPLETE, List.of()), timeout);
  }

  /** {@link Transaction#abort()} by id. */
  public TxnResult abort(String txnId) {
    return Ending.abort(connection, txnId, connection.options().callTimeout());
  }

  Connection connection() {
    return connection;
  }

  /** Ends the calls that are under way. Close transactions and enlisted producers first. */
  @Override
  public void close() {
    if (owned) channel.shutdownNow();
  }
}
