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

enum class Isolation { kReadCommitted, kReadUncommitted };

/// An independent consumer: everything that a topic shows now, from its beginning to where each
/// partition ends for this isolation (the last stable offset, or the high watermark), in partition
/// and offset order. Blocking. Throws std::runtime_error if that takes longer than `limit`.
std::vector<ReadRecord> ReadTopic(const std::string& bootstrap, const std::string& topic,
                                  Isolation isolation = Isolation::kReadCommitted,
                                  std::chrono::milliseconds limit = std::chrono::seconds(30));

/// The values only; null values are left out.
std::vector<std::string> ReadValues(const std::string& bootstrap, const std::string& topic,
                                    Isolation isolation = Isolation::kReadCommitted);

}  // namespace lockstep::testing
