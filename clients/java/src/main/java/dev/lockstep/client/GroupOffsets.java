package dev.lockstep.client;

import java.util.List;

/**
 * Consumer offsets that commit with a transaction. {@link KafkaTypes#offsets} makes one of what a
 * KafkaConsumer has.
 *
 * @param offsets at least one; each partition once
 * @param kafkaClusterId that the consumer saw; if not empty, the server refuses the offsets
 *     (WRONG_STATE) unless the named cluster has it
 */
public record GroupOffsets(Group group, List<Offset> offsets, String kafkaClusterId) {

  /**
   * Who commits (KIP-447). The broker fences a stale member only by what it is told here.
   *
   * @param generation the member epoch in a KIP-848 group
   * @param instanceId null: not a static member
   * @param standalone the caller vouches that nobody else commits for this group: no generation, no
   *     member id, and so no fencing by the broker
   */
  public record Group(
      String id, int generation, String memberId, String instanceId, boolean standalone) {
    public static Group standalone(String id) {
      return new Group(id, -1, "", null, true);
    }
  }

  /**
   * @param offset the next one to read: last processed + 1
   * @param leaderEpoch null: not known
   */
  public record Offset(
      String topic, int partition, long offset, Integer leaderEpoch, String metadata) {
    public static Offset of(String topic, int partition, long offset) {
      return new Offset(topic, partition, offset, null, "");
    }
  }

  public GroupOffsets {
    offsets = List.copyOf(offsets);
  }

  public static GroupOffsets of(Group group, List<Offset> offsets) {
    return new GroupOffsets(group, offsets, "");
  }
}
