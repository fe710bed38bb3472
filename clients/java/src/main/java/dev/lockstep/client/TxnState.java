package dev.lockstep.client;

/** Where a transaction stands. */
public enum TxnState {
  /** Takes work. */
  ACTIVE,
  /** Commit was called; not decided. It may still abort. */
  PREPARING,
  /** COMMIT is durable; some cluster is not yet known complete. */
  COMMITTING,
  COMMITTED,
  /** It will never commit; some cluster may not have been told yet. */
  ABORTING,
  ABORTED,
  /** COMMIT was decided, and some cluster is known aborted, or cannot be known any more. */
  HEURISTIC,
}
