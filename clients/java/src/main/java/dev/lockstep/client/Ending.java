package dev.lockstep.client;

import java.time.Duration;
import java.util.List;
import lockstep.v1.CoordinatorGrpc.CoordinatorBlockingStub;
import lockstep.v1.CoordinatorOuterClass.AbortRequest;
import lockstep.v1.CoordinatorOuterClass.AbortResponse;
import lockstep.v1.CoordinatorOuterClass.CommitRequest;
import lockstep.v1.CoordinatorOuterClass.CommitResponse;
import lockstep.v1.CoordinatorOuterClass.EnlistedWork;
import lockstep.v1.Txn;

/** Commit and Abort, repeated until there is an outcome. */
final class Ending {
  private Ending() {}

  static CommitRequest request(String txnId, Wait wait, List<EnlistedWork> enlisted) {
    return CommitRequest.newBuilder()
        .setTxnId(txnId)
        .setWait(Convert.wait(wait))
        .addAllEnlisted(enlisted)
        .build();
  }

  static TxnResult commit(Connection connection, CommitRequest request, Duration timeout) {
    // COMMITTING is then the server's answer shortly before an attempt's deadline, not ours.
    boolean complete = request.getWait() != Convert.wait(Wait.DECIDED);
    CommitResponse answer =
        connection.call(
            CoordinatorBlockingStub::commit,
            request,
            timeout,
            true,
            it -> complete && it.getOutcome() == Txn.Outcome.OUTCOME_COMMITTING);
    return Convert.result(
        request.getTxnId(), answer.getOutcome(), answer.getBranchesList(), answer.getAbort());
  }

  static TxnResult abort(Connection connection, String txnId, Duration timeout) {
    AbortResponse answer =
        connection.call(
            CoordinatorBlockingStub::abort,
            AbortRequest.newBuilder().setTxnId(txnId).build(),
            timeout,
            true,
            it -> false);
    return Convert.result(
        txnId, answer.getOutcome(), answer.getBranchesList(), answer.getAbort());
  }
}
