package dev.lockstep.client;

/** A transaction ended ABORTED or HEURISTIC, of {@link TxnResult#orThrow}. */
public final class NotCommittedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final transient TxnResult result;

  NotCommittedException(TxnResult result) {
    super("transaction " + result.txnId() + ": " + result.describe());
    this.result = result;
  }

  public TxnResult result() {
    return result;
  }
}
