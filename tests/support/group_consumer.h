#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "txn/types.h"

using rd_kafka_t = struct rd_kafka_s;
using rd_kafka_consumer_group_metadata_t = struct rd_kafka_consumer_group_metadata_s;

namespace lockstep::testing {

/// A member of a classic consumer group (librdkafka). The first member of a new group is in
/// generation 1; each that joins later raises it. Throws std::runtime_error where that fails.
class GroupConsumer {
 public:
  /// Returns once it has partitions. `instance`: a static member.
  GroupConsumer(const std::string& bootstrap, const std::string& group, const std::string& topic,
                const std::optional<std::string>& instance = {});
  /// It does not leave the group: its session runs out.
  ~GroupConsumer();
  GroupConsumer(const GroupConsumer&) = delete;
  GroupConsumer& operator=(const GroupConsumer&) = delete;

  /// Takes part in what the group does meanwhile, for a moment.
  void Poll();
  std::string member_id() const;
  /// As an application passes it on.
  std::shared_ptr<rd_kafka_consumer_group_metadata_t> metadata() const;

 private:
  rd_kafka_t* consumer_ = nullptr;
};

/// What of offsets that a transaction has sent and not ended.
enum class Pending {
  kAwaited,  ///< Its end is.
  kIgnored,
};
/// The group's committed offset, -1 for none.
std::int64_t CommittedOffset(const std::string& bootstrap, const std::string& group,
                             const txn::TopicPartition& partition,
                             Pending pending = Pending::kAwaited);

}  // namespace lockstep::testing
