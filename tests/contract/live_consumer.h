#pragma once

#include <cstdint>
#include <string>

#include "txn/types.h"

using rd_kafka_t = struct rd_kafka_s;

namespace lockstep::contract {

/// A librdkafka consumer: the only member of its group, in the group's first generation. Throws
/// std::runtime_error where that fails.
class LiveConsumer {
 public:
  /// Returns once it has its partitions.
  LiveConsumer(const std::string& bootstrap, const std::string& group, const std::string& topic);
  ~LiveConsumer();
  LiveConsumer(const LiveConsumer&) = delete;
  LiveConsumer& operator=(const LiveConsumer&) = delete;

  std::string member_id() const;

 private:
  rd_kafka_t* consumer_ = nullptr;
};

/// The group's committed offset, -1 for none; pending transactions do not matter.
std::int64_t FetchCommittedOffset(const std::string& bootstrap, const std::string& group,
                                  const txn::TopicPartition& partition);

}  // namespace lockstep::contract
