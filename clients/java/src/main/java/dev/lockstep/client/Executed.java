package dev.lockstep.client;

/**
 * What {@link LockstepClient#execute} did.
 *
 * @param result of the run that counts, which may have been an earlier one
 * @param repeatedKey the key had committed, or was running, before this call
 */
public record Executed(ExecuteKey key, TxnResult result, boolean repeatedKey) {}
