#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>

#include "golden.h"
#include "wire/protocol/cluster_messages.h"
#include "wire/protocol/records.h"
#include "wire/protocol/txn_messages.h"

/// Decoders fed with what no broker sends. They must end without touching what is not theirs, which
/// AddressSanitizer watches, and without believing what contradicts itself.
namespace lockstep::wire::protocol {
namespace {

/// Decodes and tells whether the bytes were accepted.
using DecodeFunction = std::function<bool(const std::string& bytes, std::int16_t version)>;

template <typename Request>
DecodeFunction Decoder() {
  return [](const std::string& bytes, std::int16_t version) {
    Reader r(bytes, version, version >= Request::kApi.flexible_from);
    Request::Decode(r);
    return r.Finish(Request::kApi.name).ok();
  };
}

const std::map<std::string, DecodeFunction>& Decoders() {
  static const std::map<std::string, DecodeFunction> decoders = {
      {"ApiVersionsResponse", Decoder<ApiVersions>()},
      {"MetadataResponse", Decoder<Metadata>()},
      {"FindCoordinatorResponse", Decoder<FindCoordinator>()},
      {"FindCoordinatorResponse.error", Decoder<FindCoordinator>()},
      {"InitProducerIdResponse", Decoder<InitProducerId>()},
      {"EndTxnResponse", Decoder<EndTxn>()},
      {"DescribeTransactionsResponse", Decoder<DescribeTransactions>()},
      {"DescribeTransactionsResponse.unknown", Decoder<DescribeTransactions>()},
      {"ListTransactionsResponse", Decoder<ListTransactions>()},
      {"WriteTxnMarkersResponse", Decoder<WriteTxnMarkers>()},
      {"DescribeProducersResponse", Decoder<DescribeProducers>()},
      {"ListOffsetsResponse", Decoder<ListOffsets>()},
      {"FetchResponse", Decoder<Fetch>()},
      {"DescribeGroupsResponse", Decoder<DescribeGroups>()},
      {"ConsumerGroupDescribeResponse", Decoder<ConsumerGroupDescribe>()},
      {"ConsumerGroupDescribeResponse.unknown", Decoder<ConsumerGroupDescribe>()},
      {"DescribeConfigsResponse", Decoder<DescribeConfigs>()},
      {"Records", [](const std::string& bytes, std::int16_t) { return ScanRecords(bytes).ok(); }},
  };
  return decoders;
}

/// Each golden answer with its decoder. An answer that has none fails the test.
void ForEachAnswer(const std::function<void(const GoldenFrame&, const DecodeFunction&)>& visit) {
  for (const GoldenFrame& frame : GoldenFrames()) {
    if (frame.name.find("Request") != std::string::npos) continue;
    SCOPED_TRACE(frame.name + " " + std::to_string(frame.version));
    ASSERT_TRUE(Decoders().contains(frame.name));
    visit(frame, Decoders().at(frame.name));
  }
}

TEST(Mutation, EveryAnswerIsAcceptedWhole) {
  ForEachAnswer([](const GoldenFrame& frame, const DecodeFunction& decode) {
    EXPECT_TRUE(decode(frame.bytes, frame.version));
  });
}

TEST(Mutation, NoPrefixIsAccepted) {
  ForEachAnswer([](const GoldenFrame& frame, const DecodeFunction& decode) {
    if (frame.name == "Records") return;  // Cut off is what brokers do to them.
    for (std::size_t size = 0; size < frame.bytes.size(); ++size) {
      // A copy of its own, so that a read beyond it is one beyond an allocation.
      EXPECT_FALSE(decode(frame.bytes.substr(0, size), frame.version)) << "prefix " << size;
    }
  });
}

TEST(Mutation, NothingMayFollow) {
  ForEachAnswer([](const GoldenFrame& frame, const DecodeFunction& decode) {
    if (frame.name == "Records") return;
    EXPECT_FALSE(decode(frame.bytes + '\0', frame.version));
  });
}

TEST(Mutation, EveryCutOfRecordsIsSafe) {
  const std::string records = Golden("Records", 2);
  for (std::size_t size = 0; size < records.size(); ++size) {
    const auto scanned = ScanRecords(records.substr(0, size));
    ASSERT_TRUE(scanned.ok()) << size;
    EXPECT_LE(scanned->markers.size(), 1U) << size;  // The last marker is never whole.
  }
}

TEST(Mutation, EveryByteChangedInEveryWay) {
  ForEachAnswer([](const GoldenFrame& frame, const DecodeFunction& decode) {
    for (std::size_t at = 0; at < frame.bytes.size(); ++at) {
      for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
        std::string bytes = frame.bytes;
        bytes[at] = static_cast<char>(value);
        decode(bytes, frame.version);
      }
    }
  });
}

TEST(Mutation, RandomDamage) {
  constexpr int kRounds = 2000;
  ForEachAnswer([](const GoldenFrame& frame, const DecodeFunction& decode) {
    std::mt19937 random(20734);  // NOLINT: the same damage in every run
    for (int round = 0; round < kRounds; ++round) {
      std::string bytes = frame.bytes;
      for (auto flips = random() % 8 + 1; flips > 0; --flips) {
        bytes[random() % bytes.size()] ^= static_cast<char>(1U << (random() % 8));
      }
      decode(bytes.substr(0, random() % bytes.size() + 1), frame.version);
    }
  });
}

TEST(Mutation, RandomBytes) {
  constexpr int kRounds = 2000;
  constexpr std::size_t kMaxSize = 200;
  ForEachAnswer([](const GoldenFrame& frame, const DecodeFunction& decode) {
    std::mt19937 random(17754);  // NOLINT: the same bytes in every run
    for (int round = 0; round < kRounds; ++round) {
      std::string bytes(random() % kMaxSize, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      decode(bytes, frame.version);
    }
  });
}

/// A control batch that was damaged must not become another outcome.
TEST(Mutation, NoSingleBitOfAMarkerTurnsItIntoAnother) {
  const std::string records = Golden("Records", 2);
  const auto whole = ScanRecords(records);
  ASSERT_TRUE(whole.ok());
  ASSERT_EQ(whole->markers.size(), 2U);
  const std::size_t commit_begins = records.size() - (records.size() - 12) / 3 - 4;
  for (std::size_t bit = commit_begins * 8; bit < records.size() * 8; ++bit) {
    std::string bytes = records;
    bytes[bit / 8] ^= static_cast<char>(1U << (bit % 8));
    const auto scanned = ScanRecords(bytes);
    if (!scanned.ok()) continue;
    for (const Marker& marker : scanned->markers) {
      EXPECT_TRUE(marker.producer_id != 7 || marker.commit) << bit;
    }
  }
}

}  // namespace
}  // namespace lockstep::wire::protocol
