package dev.lockstep.client;

/** How a transaction ended. */
public enum Outcome {
  /** On every cluster, and visible to read_committed consumers there. */
  COMMITTED,
  /** On no cluster, now and later. */
  ABORTED,
  /** COMMIT is durable and under way. It will not abort; ask again for its end. */
  COMMITTING,
  /** Clusters disagree, or one cannot be known: see the branches. */
  HEURISTIC,
}
