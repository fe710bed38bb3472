package dev.lockstep.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Records and offsets through the server, on real clusters. */
@Timeout(120)
class ManagedIT extends OnClusters {
  @Test
  void bothClustersOrNone() throws Exception {
    String topic = stack.topic("both");
    try (Transaction txn = client.begin()) {
      for (String cluster : List.of("a", "b")) txn.produce(cluster, KafkaRecord.of(topic, "k", "1"));
      txn.commit().orThrow();
    }
    try (Transaction txn = client.begin()) {
      txn.produce("a", KafkaRecord.of(topic, "k", "2"));
      txn.produce("b", KafkaRecord.of("no-such-topic", "k", "2"));
      TxnResult result = txn.commit();
      assertEquals(Outcome.ABORTED, result.outcome());
      assertEquals("UNKNOWN_TOPIC", result.abort().reason());
      assertEquals("b", result.abort().cluster());
      assertEquals(TxnState.ABORTED, client.getTxn(txn.id()).state());
    }
    assertEquals(List.of("1"), stack.committed("a", topic));
    assertEquals(List.of("1"), stack.committed("b", topic));
  }

  @Test
  void offsetsOfAConsumerCommitWithTheRecords() throws Exception {
    String topic = stack.topic("offsets");
    client.execute(List.of(Work.produce("a", KafkaRecord.of(topic, "k", "1"))));
    Map<String, Object> config =
        Map.of(
            "bootstrap.servers", stack.bootstrap("a"),
            "group.id", "g",
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "isolation.level", "read_committed");
    try (KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(topic));
      ConsumerRecords<String, String> records;
      do {
        records = consumer.poll(Duration.ofMillis(200));
      } while (records.isEmpty());
      TopicPartition partition = new TopicPartition(topic, 0);
      try (Transaction txn = client.begin()) {
        txn.produce("b", KafkaRecord.of(topic, "k", "copied"));
        txn.sendOffsets(
            "a",
            KafkaTypes.offsets(
                consumer.groupMetadata(), Map.of(partition, new OffsetAndMetadata(1))));
        txn.commit().orThrow();
      }
      assertEquals(
          1, consumer.committed(java.util.Set.of(partition)).get(partition).offset());
    }
    assertEquals(List.of("copied"), stack.committed("b", topic));
  }

  @Test
  void aRestartOfTheServerIsNoError() throws Exception {
    String topic = stack.topic("restart");
    ExecuteKey key = ExecuteKey.random();
    List<Work> work = List.of(Work.produce("a", KafkaRecord.of(topic, "k", "once")));
    client.execute(work, key, BeginOptions.DEFAULT).result().orThrow();
    Transaction lost = client.begin();
    stack.kill();
    stack.start();
    Executed again = client.execute(work, key, BeginOptions.DEFAULT);
    assertTrue(again.repeatedKey());
    assertEquals(Outcome.COMMITTED, again.result().outcome());
    assertEquals(Outcome.ABORTED, lost.commit().outcome());
    assertEquals(List.of("once"), stack.committed("a", topic));
  }
}
