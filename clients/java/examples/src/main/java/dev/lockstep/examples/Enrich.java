package dev.lockstep.examples;

import dev.lockstep.client.EnlistedProducer;
import dev.lockstep.client.Enlistment;
import dev.lockstep.client.LockstepClient;
import dev.lockstep.client.LockstepException;
import dev.lockstep.client.LockstepException.Effect;
import dev.lockstep.client.Transaction;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Reads orders from cluster a, and writes them enriched to cluster b, each exactly once: the group's
 * offsets on a and the records on b commit together. The records go to b directly.
 *
 * <pre>Enrich LOCKSTEPD BOOTSTRAP_A BOOTSTRAP_B</pre>
 *
 * Run it again whenever it ends: what was under way is then committed or aborted, and a group's new
 * member goes on from there.
 */
public final class Enrich {
  private static final Duration PATIENCE = Duration.ofMinutes(10);

  public static void main(String[] args) {
    try (LockstepClient lockstep = LockstepClient.connect(args[0]);
        Source orders = new Source(args[1], "enrich", "orders");
        EnlistedProducer<String, String> b =
            EnlistedProducer.create(
                lockstep,
                "b",
                Map.of("bootstrap.servers", args[2], "transactional.id", "enrich-1"),
                new StringSerializer(),
                new StringSerializer())) {
      while (true) {
        ConsumerRecords<String, String> records = orders.poll();
        if (!records.isEmpty() && !commit(lockstep, b, orders, records)) orders.rewind();
      }
    }
  }

  private static boolean commit(
      LockstepClient lockstep,
      EnlistedProducer<String, String> b,
      Source orders,
      ConsumerRecords<String, String> records) {
    try (Transaction txn = lockstep.begin()) {
      Enlistment<String, String> enriched = txn.enlist(b);
      for (ConsumerRecord<String, String> order : records) {
        enriched.send(new ProducerRecord<>("enriched", order.key(), enrich(order.value())));
      }
      txn.sendOffsets("a", orders.after(records));
      return txn.commit(PATIENCE).decided();
    } catch (LockstepException e) {
      // Never go on from an unknown outcome: the same records might be written twice.
      if (e.effect() == Effect.UNKNOWN) throw e;
      return false;
    }
  }

  private static String enrich(String order) {
    return order + " enriched";
  }
}
