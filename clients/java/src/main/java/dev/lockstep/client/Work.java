package dev.lockstep.client;

import java.util.List;

/**
 * What a whole transaction does on one cluster; see {@link LockstepClient#execute}.
 *
 * @param offsets null: none
 */
public record Work(String cluster, List<KafkaRecord> records, GroupOffsets offsets) {
  public Work {
    records = List.copyOf(records);
  }

  public static Work produce(String cluster, KafkaRecord... records) {
    return new Work(cluster, List.of(records), null);
  }

  public static Work offsets(String cluster, GroupOffsets offsets) {
    return new Work(cluster, List.of(), offsets);
  }
}
