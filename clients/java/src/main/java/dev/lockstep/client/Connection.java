package dev.lockstep.client;

import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Predicate;
import lockstep.v1.CoordinatorGrpc;
import lockstep.v1.CoordinatorGrpc.CoordinatorBlockingStub;

/** What all calls of one client share. Thread-safe. */
final class Connection {
  private final ManagedChannel channel;
  private final ClientOptions options;
  private final CoordinatorBlockingStub stub;

  Connection(ManagedChannel channel, ClientOptions options) {
    this.channel = channel;
    this.options = options;
    this.stub = CoordinatorGrpc.newBlockingStub(channel);
  }

  ClientOptions options() {
    return options;
  }

  /** A call with its retries, up to the client's own timeout. */
  <Q, A> A call(BiFunction<CoordinatorBlockingStub, Q, A> method, Q request) {
    return call(method, request, options.callTimeout(), false, answer -> false);
  }

  /**
   * A call with its retries: repeats what may have been lost, so only for methods that may be
   * repeated.
   *
   * @param insist it is not given up while it can still succeed: also after LIMIT_REACHED
   * @param askAgain an answer that is OK, and that a later one may better: the last of these is
   *     returned once there is no more time
   * @throws LockstepException with what is known of all attempts
   */
  <Q, A> A call(
      BiFunction<CoordinatorBlockingStub, Q, A> method,
      Q request,
      Duration timeout,
      boolean insist,
      Predicate<A> askAgain) {
    Retry retry = new Retry(options, timeout, insist);
    A soFar = null;
    while (true) {
      try {
        A answer =
            method.apply(
                stub.withDeadlineAfter(retry.nextAttemptNanos(), TimeUnit.NANOSECONDS), request);
        if (!askAgain.test(answer)) return answer;
        soFar = answer;
        if (!retry.afterAnswer()) return soFar;
      } catch (StatusRuntimeException e) {
        try {
          retry.afterError(Errors.of(e));
        } catch (LockstepException known) {
          if (soFar != null) return soFar;
          throw known;
        }
        // Else a channel that lost its server tries to connect only after up to two minutes.
        channel.resetConnectBackoff();
      }
    }
  }
}
