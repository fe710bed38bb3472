package dev.lockstep.installed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.lockstep.client.ClientOptions;
import dev.lockstep.client.LockstepClient;
import dev.lockstep.client.LockstepException;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** What only the installed artefact shows: that its dependencies are all there. */
class InstalledTest {
  @Test
  void callsGoOut() {
    ClientOptions options = ClientOptions.DEFAULT.withCallTimeout(Duration.ofMillis(300));
    try (LockstepClient client = LockstepClient.connect("127.0.0.1:1", options)) {
      LockstepException away = assertThrows(LockstepException.class, client::begin);
      assertEquals(LockstepException.Effect.UNKNOWN, away.effect());
    }
  }

  /** Of kafka-clients, which an application without a producer of its own does not have. */
  @Test
  void transactionsNeedNothingElse() throws Exception {
    Class.forName("dev.lockstep.client.Transaction");
  }
}
