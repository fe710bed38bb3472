package dev.lockstep.client;

/** How a transaction ended on one cluster. */
public enum BranchOutcome {
  /** Not known yet: being asked. */
  PENDING,
  COMMITTED,
  ABORTED,
  /** Cannot be known any more: no evidence is left. */
  UNKNOWN,
}
