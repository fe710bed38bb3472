package dev.lockstep.client;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * A record for Kafka, serialized. Not copied: leave the arrays alone once it is handed over.
 *
 * @param partition null: as the Java client's partitioner chooses
 * @param key null is not empty
 * @param value null: a tombstone
 * @param timestamp Kafka keeps milliseconds; null: the time of sending
 */
public record KafkaRecord(
    String topic,
    Integer partition,
    byte[] key,
    byte[] value,
    List<Header> headers,
    Instant timestamp) {

  /** A header; Kafka tells a null value from an empty one. */
  public record Header(String key, byte[] value) {}

  public KafkaRecord {
    headers = List.copyOf(headers);
  }

  public static KafkaRecord of(String topic, byte[] key, byte[] value) {
    return new KafkaRecord(topic, null, key, value, List.of(), null);
  }

  /** Key and value as UTF-8; either may be null. */
  public static KafkaRecord of(String topic, String key, String value) {
    return of(topic, utf8(key), utf8(value));
  }

  public KafkaRecord withPartition(int chosen) {
    return new KafkaRecord(topic, chosen, key, value, headers, timestamp);
  }

  public KafkaRecord withTimestamp(Instant at) {
    return new KafkaRecord(topic, partition, key, value, headers, at);
  }

  public KafkaRecord withHeader(String name, byte[] content) {
    List<Header> more = new ArrayList<>(headers);
    more.add(new Header(name, content));
    return new KafkaRecord(topic, partition, key, value, more, timestamp);
  }

  private static byte[] utf8(String text) {
    return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
  }
}
