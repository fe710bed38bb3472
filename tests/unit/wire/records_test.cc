#include "wire/protocol/records.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "golden.h"
#include "wire/messages.h"

namespace lockstep::wire::protocol {
namespace {

constexpr std::size_t kMagicAt = 16;
constexpr std::size_t kCrcAt = 17;
constexpr std::size_t kSizeAt = 8;

std::string Data(std::int64_t producer_id) {
  return testing::EncodeRecordBatch({producer_id, 0, 0, true, {"value"}});
}

TEST(Records, Crc32cOfTheStandardCheckString) { EXPECT_EQ(Crc32c("123456789"), 0xE3069283U); }

TEST(Records, FindsKafkasOwnMarkers) {
  const auto scanned = ScanRecords(Golden("Records", 2));
  ASSERT_TRUE(scanned.ok());
  EXPECT_EQ(scanned->next_offset, 44);
  ASSERT_EQ(scanned->markers.size(), 2U);
  EXPECT_EQ(scanned->markers[0].offset, 42);
  EXPECT_EQ(scanned->markers[0].producer_id, 8);
  EXPECT_FALSE(scanned->markers[0].commit);
  EXPECT_EQ(scanned->markers[1].offset, 43);
  EXPECT_EQ(scanned->markers[1].producer_id, 7);
  EXPECT_EQ(scanned->markers[1].producer_epoch, 3);
  EXPECT_TRUE(scanned->markers[1].commit);
}

TEST(Records, NothingIsNoMarkerAndNoOffset) {
  const auto scanned = ScanRecords("");
  ASSERT_TRUE(scanned.ok());
  EXPECT_TRUE(scanned->markers.empty());
  EXPECT_EQ(scanned->next_offset, -1);
}

TEST(Records, OlderFormatsArePassedOver) {
  std::string old = Data(1);
  old[kMagicAt] = 1;
  const auto scanned = ScanRecords(old + testing::EncodeMarker(1, 7, 0, true));
  ASSERT_TRUE(scanned.ok());
  EXPECT_EQ(scanned->markers.size(), 1U);
  EXPECT_EQ(scanned->next_offset, 2);
}

TEST(Records, AWrongChecksumOfAMarkerIsCorrupt) {
  std::string marker = testing::EncodeMarker(5, 7, 0, true);
  marker[kCrcAt] ^= 1;
  const auto scanned = ScanRecords(marker);
  ASSERT_FALSE(scanned.ok());
  EXPECT_EQ(scanned.error().code, Code::kCorrupt);
}

TEST(Records, AWrongChecksumOfDataIsNotOurs) {
  std::string data = Data(7);
  data[kCrcAt] ^= 1;
  EXPECT_TRUE(ScanRecords(data).ok());
}

TEST(Records, ASizeThatLiesIsCorrupt) {
  std::string data = Data(7);
  for (int i = 0; i < 4; ++i) data[kSizeAt + static_cast<std::size_t>(i)] = 0;
  EXPECT_FALSE(ScanRecords(data).ok());
  data[kSizeAt] = static_cast<char>(0xFF);
  EXPECT_FALSE(ScanRecords(data).ok());
}

TEST(Records, OffsetsThatGoBackAreCorrupt) {
  EXPECT_FALSE(
      ScanRecords(testing::EncodeMarker(5, 7, 0, true) + testing::EncodeMarker(4, 7, 0, true))
          .ok());
}

/// Whoever looks for the first marker from an offset on takes the first in the list: were the ABORT
/// of a later transaction in front of our COMMIT, what is committed would be called aborted.
TEST(Records, BatchesThatOverlapAreCorrupt) {
  constexpr std::size_t kLastOffsetDeltaAt = 23;
  std::string later = testing::EncodeMarker(10, 7, 0, false);
  std::string earlier = testing::EncodeMarker(5, 7, 0, true);
  earlier[kLastOffsetDeltaAt + 3] = 100;  // Its end is behind the other's.
  for (std::size_t i = 0; i < 4; ++i) {
    const auto shift = static_cast<unsigned>(24 - 8 * i);
    earlier[kCrcAt + i] =
        static_cast<char>(Crc32c(std::string_view(earlier).substr(kCrcAt + 4)) >> shift);
  }
  ASSERT_TRUE(ScanRecords(later).ok());
  ASSERT_TRUE(ScanRecords(earlier).ok());
  const auto scanned = ScanRecords(later + earlier);
  ASSERT_FALSE(scanned.ok());
  EXPECT_NE(scanned.error().message.find("goes backwards"), std::string::npos)
      << scanned.error().message;
}

}  // namespace
}  // namespace lockstep::wire::protocol
