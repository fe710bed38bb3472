#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::testing {

struct ReadRecord {
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  std::optional<std::string> key;
  std::optional<std::string> value;
};

/// What to do about transactions that are open on the topic. They hold back what others have
/// committed behind them: an abort that was answered at once and is written a moment later is
/// enough.
enum class Open {
  kAwaitTheirEnd,  // Then nothing is hidden: what is not there was not committed.
  kStopAtThem,     // What a consumer sees now.
};

/// An independent read_committed consumer: everything that a topic shows, from its beginning to the
/// last stable offset of each partition, in partition and offset order. Blocking. Throws
/// std::runtime_error if that takes longer than `limit`.
std::vector<ReadRecord> ReadTopic(const std::string& bootstrap, const std::string& topic,
                                  Open open = Open::kAwaitTheirEnd,
                                  std::chrono::milliseconds limit = std::chrono::seconds(30));

/// The values only; null values are left out.
std::vector<std::string> ReadValues(const std::string& bootstrap, const std::string& topic,
                                    Open open = Open::kAwaitTheirEnd);

}  // namespace lockstep::testing
