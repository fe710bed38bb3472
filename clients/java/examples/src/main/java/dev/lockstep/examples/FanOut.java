package dev.lockstep.examples;

import dev.lockstep.client.KafkaRecord;
import dev.lockstep.client.LockstepClient;
import dev.lockstep.client.LockstepException;
import dev.lockstep.client.LockstepException.Effect;
import dev.lockstep.client.Transaction;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;

/**
 * Copies the events of one cluster to a primary and to a disaster recovery cluster, to both or to
 * neither, each exactly once: the records on both and the group's offsets commit together.
 *
 * <pre>FanOut LOCKSTEPD BOOTSTRAP_SOURCE SOURCE PRIMARY RECOVERY</pre>
 *
 * The last three are names from lockstepd's configuration. Run it again whenever it ends: what was
 * under way is then committed or aborted, and a group's new member goes on from there.
 */
public final class FanOut {
  private static final Duration PATIENCE = Duration.ofMinutes(10);

  public static void main(String[] args) {
    try (LockstepClient lockstep = LockstepClient.connect(args[0]);
        Source events = new Source(args[1], "fan-out", "events")) {
      while (true) {
        ConsumerRecords<String, String> records = events.poll();
        if (records.isEmpty()) continue;
        if (!commit(lockstep, events, records, args[2], List.of(args[3], args[4]))) events.rewind();
      }
    }
  }

  private static boolean commit(
      LockstepClient lockstep,
      Source events,
      ConsumerRecords<String, String> records,
      String source,
      List<String> targets) {
    List<KafkaRecord> copies = new ArrayList<>();
    for (ConsumerRecord<String, String> event : records) {
      copies.add(KafkaRecord.of("events-copy", event.key(), event.value()));
    }
    try (Transaction txn = lockstep.begin()) {
      for (String target : targets) txn.produce(target, copies);
      txn.sendOffsets(source, events.after(records));
      return txn.commit(PATIENCE).decided();
    } catch (LockstepException e) {
      // Never go on from an unknown outcome: the same records might be written twice.
      if (e.effect() == Effect.UNKNOWN) throw e;
      return false;
    }
  }
}
