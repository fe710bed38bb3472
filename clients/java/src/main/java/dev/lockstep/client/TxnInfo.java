package dev.lockstep.client;

import java.time.Instant;
import java.util.List;

/**
 * What is known of a transaction.
 *
 * @param beganAt by the server's clock
 * @param expiresAt by the server's clock
 * @param abort of ABORTING and ABORTED only
 */
public record TxnInfo(
    String id,
    String label,
    TxnState state,
    Instant beganAt,
    Instant expiresAt,
    List<Branch> branches,
    Abort abort) {
  public TxnInfo {
    branches = List.copyOf(branches);
  }
}
