package dev.lockstep.client;

/**
 * Why a transaction aborted.
 *
 * @param reason as in lockstep/v1/txn.proto without its prefix: "UNKNOWN_TOPIC", "TXN_TIMEOUT" ...
 *     More will come. Empty: no longer kept.
 * @param cluster empty where no cluster is to blame
 * @param message for people
 * @param retryable the same work, begun anew, may well succeed
 */
public record Abort(String reason, String cluster, String message, boolean retryable) {
  static final Abort NONE = new Abort("", "", "", false);
}
