package dev.lockstep.client;

/** How far commit waits. */
public enum Wait {
  /** Until every cluster is known to have committed. */
  COMPLETE,
  /** Until COMMIT is durable: it will complete, whatever crashes. Not with enlisted producers. */
  DECIDED,
}
