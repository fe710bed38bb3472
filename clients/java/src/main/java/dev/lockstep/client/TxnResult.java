package dev.lockstep.client;

import java.util.List;

/**
 * How a transaction ended: a value, also when it aborted.
 *
 * @param abort of {@link Outcome#ABORTED} only
 */
public record TxnResult(String txnId, Outcome outcome, List<Branch> branches, Abort abort) {
  public TxnResult {
    branches = List.copyOf(branches);
  }

  /** COMMIT is durable: it is on every cluster, or will be. */
  public boolean decided() {
    return outcome == Outcome.COMMITTED || outcome == Outcome.COMMITTING;
  }

  /**
   * For programs that have no other answer to a transaction that did not commit.
   *
   * @return this, if it is {@link #decided}
   * @throws NotCommittedException if it is ABORTED or HEURISTIC
   */
  public TxnResult orThrow() {
    if (!decided()) throw new NotCommittedException(this);
    return this;
  }

  /** For people: "ABORTED: UNKNOWN_TOPIC on east: ...". */
  public String describe() {
    StringBuilder text = new StringBuilder(outcome.name());
    if (outcome == Outcome.ABORTED) {
      text.append(": ").append(abort.reason());
      if (!abort.cluster().isEmpty()) text.append(" on ").append(abort.cluster());
      if (!abort.message().isEmpty()) text.append(": ").append(abort.message());
    } else {
      for (Branch branch : branches) {
        text.append(", ").append(branch.cluster()).append(" ").append(branch.outcome());
        if (!branch.problem().isEmpty()) text.append(" (").append(branch.problem()).append(")");
      }
    }
    return text.toString();
  }
}
