package dev.lockstep.client;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** Two real clusters and a lockstepd, for one class of tests after the other. */
abstract class OnClusters {
  static LocalStack stack;
  static LockstepClient client;

  @BeforeAll
  static void start() throws Exception {
    stack = new LocalStack(null);
    client = stack.connect();
  }

  @AfterAll
  static void stop() throws Exception {
    client.close();
    stack.close();
  }
}
