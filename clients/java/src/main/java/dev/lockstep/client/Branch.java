package dev.lockstep.client;

/**
 * What a transaction did on one cluster.
 *
 * @param problem why it is still pending, or what went wrong; for people
 * @param transactionalId as the brokers know it; empty: nothing was written there
 * @param enlisted by a producer of the client's own
 * @param reinitRequired that producer must be made anew; {@link EnlistedProducer} does
 */
public record Branch(
    String cluster,
    BranchOutcome outcome,
    String problem,
    String transactionalId,
    boolean enlisted,
    boolean reinitRequired) {}
