package dev.lockstep.installed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.lockstep.client.ClientOptions;
import dev.lockstep.client.EnlistedProducer;
import dev.lockstep.client.LockstepClient;
import dev.lockstep.client.LockstepException;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** The same, with kafka-clients of the application's own choice. */
class KafkaInstalledTest {
  @Test
  void aRealProducerIsMade() {
    Map<String, ?> config = Map.of("bootstrap.servers", "127.0.0.1:1", "transactional.id", "id");
    ClientOptions options = ClientOptions.DEFAULT.withCallTimeout(Duration.ofMillis(300));
    try (LockstepClient client = LockstepClient.connect("127.0.0.1:1", options);
        EnlistedProducer<String, String> east =
            EnlistedProducer.create(
                client, "east", config, new StringSerializer(), new StringSerializer())) {
      LockstepException away = assertThrows(LockstepException.class, east::warmUp);
      assertEquals(LockstepException.Effect.UNKNOWN, away.effect());
    }
  }
}
