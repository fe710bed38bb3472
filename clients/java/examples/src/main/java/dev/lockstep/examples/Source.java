package dev.lockstep.examples;

import dev.lockstep.client.GroupOffsets;
import dev.lockstep.client.KafkaTypes;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What the examples read: a group's part of a topic, whose offsets they commit themselves. */
final class Source implements AutoCloseable {
  private final KafkaConsumer<String, String> consumer;

  Source(String bootstrapServers, String group, String topic) {
    consumer =
        new KafkaConsumer<>(
            Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers,
                ConsumerConfig.GROUP_ID_CONFIG, group,
                // After a crash the next one need not wait for the last.
                ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, group + "-1",
                // Lockstep commits the offsets, with the records.
                ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false,
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                // Also: a new owner of a partition waits for the offsets that are being committed.
                ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 100),
            new StringDeserializer(),
            new StringDeserializer());
    consumer.subscribe(List.of(topic));
  }

  ConsumerRecords<String, String> poll() {
    return consumer.poll(Duration.ofMillis(500));
  }

  /** That these records are processed, said in the name of this member of the group. */
  GroupOffsets after(ConsumerRecords<String, String> records) {
    Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
    for (ConsumerRecord<String, String> record : records) {
      next.put(
          new TopicPartition(record.topic(), record.partition()),
          new OffsetAndMetadata(record.offset() + 1));
    }
    return KafkaTypes.offsets(consumer.groupMetadata(), next);
  }

  /** Back to what is committed: the last poll's records come again. */
  void rewind() {
    consumer
        .committed(consumer.assignment())
        .forEach(
            (partition, committed) -> {
              if (committed == null) consumer.seekToBeginning(List.of(partition));
              else consumer.seek(partition, committed.offset());
            });
  }

  @Override
  public void close() {
    consumer.close();
  }
}
