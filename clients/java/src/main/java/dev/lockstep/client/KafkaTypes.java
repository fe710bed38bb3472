package dev.lockstep.client;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** From kafka-clients' types to this client's. Needs kafka-clients on the class path. */
public final class KafkaTypes {
  private KafkaTypes() {}

  /**
   * For {@link Transaction#sendOffsets}, of a consumer that polls for its group: generation, member
   * and instance go along, so that the broker fences a member that was left behind.
   *
   * @param group {@code consumer.groupMetadata()}, taken after the poll that gave the records
   */
  public static GroupOffsets offsets(
      ConsumerGroupMetadata group, Map<TopicPartition, OffsetAndMetadata> offsets) {
    List<GroupOffsets.Offset> list = new ArrayList<>(offsets.size());
    offsets.forEach(
        (partition, next) ->
            list.add(
                new GroupOffsets.Offset(
                    partition.topic(),
                    partition.partition(),
                    next.offset(),
                    next.leaderEpoch().orElse(null),
                    next.metadata())));
    return GroupOffsets.of(
        new GroupOffsets.Group(
            group.groupId(),
            group.generationId(),
            group.memberId(),
            group.groupInstanceId().orElse(null),
            false),
        list);
  }
}
