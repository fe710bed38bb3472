#include "txn/vote_check.h"

#include <set>
#include <string>
#include <utility>

#include "base/planted.h"

namespace lockstep::txn {
namespace {

Refusal Refuse(AbortReason reason, std::string message, bool retriable) {
  return Refusal{reason, ClusterName{}, std::move(message), retriable};
}

std::string NameOf(const ProducerId& id, const ProducerEpoch& epoch) {
  return std::to_string(id.get()) + ", epoch " + std::to_string(epoch.get());
}

std::string List(const std::set<TopicPartition>& partitions) {
  std::string text;
  for (const TopicPartition& partition : partitions) {
    text += (text.empty() ? "" : ", ") + ToString(partition);
  }
  return text;
}

std::optional<Refusal> CheckPartitions(const Written& written, const TxnDescription& description) {
  std::set<TopicPartition> missing;
  for (const auto& [partition, offset] : written.partitions) missing.insert(partition);
  std::set<TopicPartition> foreign;
  std::size_t of_groups = 0;
  for (const TopicPartition& partition : description.partitions) {
    if (missing.erase(partition) > 0) continue;
    if (partition.topic == kOffsetsTopic) {
      ++of_groups;
    } else {
      foreign.insert(partition);
    }
  }
  if (!missing.empty()) {
    return Refuse(AbortReason::kVoteMismatch,
                  "the broker's transaction does not show " + List(missing) +
                      ", which was written: is the ACL Describe on these topics missing?",
                  false);
  }
  if (written.groups > 0 && of_groups == 0) {
    return Refuse(AbortReason::kVoteMismatch,
                  "the broker's transaction does not show the group offsets that were sent: is the "
                  "ACL Describe on topic __consumer_offsets missing?",
                  false);
  }
  if (!foreign.empty() || of_groups > written.groups) {
    return Refuse(AbortReason::kVoteMismatch,
                  "the broker's transaction has partitions that were not written: " +
                      (foreign.empty() ? std::string(kOffsetsTopic) : List(foreign)),
                  true);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> CheckDescription(const ProducerInstance& producer, const Written& written,
                                        const TxnDescription& description) {
  const std::string id = "transactional.id " + producer.transactional_id.get();
  if (!description.exists) {
    return Refuse(AbortReason::kVoteMismatch, "the broker does not know " + id, true);
  }
  const bool same = description.producer_id == producer.producer_id &&
                    description.producer_epoch == producer.producer_epoch;
  if (!same && !Planted(PlantedBug::kEpochUnchecked)) {
    return Refuse(AbortReason::kProducerFenced,
                  id + " is now producer " +
                      NameOf(description.producer_id, description.producer_epoch) + "; it was " +
                      NameOf(producer.producer_id, producer.producer_epoch) +
                      ": the broker aborted the transaction, or someone took the id over",
                  true);
  }
  if (description.state != KafkaTxnState::kOngoing) {
    return Refuse(AbortReason::kVoteMismatch,
                  "the broker says that the transaction of " + id + " is " +
                      std::string(Name(description.state)) + ", not Ongoing",
                  true);
  }
  if (description.start_time_ms < 0) {
    return Refuse(AbortReason::kVoteMismatch, "the broker tells no start time of " + id, true);
  }
  return CheckPartitions(written, description);
}

std::vector<TopicPartition> OffsetsPartitions(const TxnDescription& description) {
  std::vector<TopicPartition> partitions;
  for (const TopicPartition& partition : description.partitions) {
    if (partition.topic == kOffsetsTopic) partitions.push_back(partition);
  }
  return partitions;
}

}  // namespace lockstep::txn
