#include "fake_cluster.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

namespace lockstep::bench {
namespace {

using boost::asio::ip::tcp;
using wire::ErrorCode;
using wire::protocol::ApiKey;
using wire::protocol::HasFlexibleResponseHeader;

/// What is spoken: the versions that librdkafka's producers use, and those that the wire client
/// does. From the schemas in the kafka-clients jar (common/message/*.json).
constexpr std::array kSpoken = std::to_array<wire::protocol::Api>({
    {ApiKey::kProduce, "Produce", 3, 7, 9},
    // Never asked: without it librdkafka takes the broker for an old one.
    {ApiKey::kFetch, "Fetch", 4, 11, 12},
    {ApiKey::kMetadata, "Metadata", 0, 9, 9},
    {ApiKey::kFindCoordinator, "FindCoordinator", 0, 3, 3},
    {ApiKey::kApiVersions, "ApiVersions", 0, 3, 3},
    {ApiKey::kInitProducerId, "InitProducerId", 0, 4, 2},
    {ApiKey::kAddPartitionsToTxn, "AddPartitionsToTxn", 0, 0, 3},
    {ApiKey::kEndTxn, "EndTxn", 0, 4, 3},
    {ApiKey::kDescribeConfigs, "DescribeConfigs", 4, 4, 4},
    {ApiKey::kDescribeTransactions, "DescribeTransactions", 0, 0, 0},
    {ApiKey::kListTransactions, "ListTransactions", 0, 0, 0},
});

const wire::protocol::Api* Spoken(ApiKey key) {
  const auto* found = std::ranges::find(kSpoken, key, &wire::protocol::Api::key);
  return found == std::end(kSpoken) ? nullptr : found;
}

/// A record batch's count of records (of magic 2), without looking at them.
std::int64_t RecordsIn(std::string_view batches) {
  constexpr std::size_t kLengthAt = 8;
  constexpr std::size_t kCountAt = 57;
  std::int64_t records = 0;
  while (batches.size() >= kCountAt + 4) {
    wire::protocol::Reader length(batches.substr(kLengthAt), 0, false);
    const auto size = static_cast<std::size_t>(length.Int32()) + kLengthAt + 4;
    wire::protocol::Reader count(batches.substr(kCountAt), 0, false);
    records += count.Int32();
    batches.remove_prefix(std::min(size, batches.size()));
  }
  return records;
}

std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

// ---- Connections --------------------------------------------------------------------------------

/// One connection: answers what came in one piece in one piece, then reads on.
class FakeCluster::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(FakeCluster& cluster, tcp::socket socket)
      : cluster_(cluster), socket_(std::move(socket)) {
    boost::system::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
  }

  void Read() {
    if (filled_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
    socket_.async_read_some(
        boost::asio::buffer(buffer_.data() + filled_, buffer_.size() - filled_),
        [self = shared_from_this()](boost::system::error_code error, std::size_t got) {
          if (error) return;
          self->filled_ += got;
          self->Take();
        });
  }

 private:
  void Take() {
    answers_.clear();
    std::size_t at = 0;
    for (;;) {
      wire::protocol::Reader r(std::string_view(buffer_).substr(at, filled_ - at), 0, false);
      const auto size = static_cast<std::size_t>(r.Int32());
      if (!r.ok() || r.remaining() < size) break;
      const std::string answer = cluster_.Answer(std::string(r.Raw(size)));
      if (answer.empty()) return;
      answers_ += answer;
      at += 4 + size;
    }
    std::memmove(buffer_.data(), buffer_.data() + at, filled_ - at);
    filled_ -= at;
    if (answers_.empty()) return Read();
    boost::asio::async_write(
        socket_, boost::asio::buffer(answers_),
        [self = shared_from_this()](boost::system::error_code error, std::size_t) {
          if (!error) self->Read();
        });
  }

  FakeCluster& cluster_;
  tcp::socket socket_;
  std::string buffer_ = std::string(16 * 1024, '\0');
  std::size_t filled_ = 0;
  std::string answers_;
};

FakeCluster::FakeCluster(boost::asio::io_context& io, int partitions)
    : partitions_(partitions),
      acceptor_(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)) {
  Accept();
}

FakeCluster::~FakeCluster() = default;

std::string FakeCluster::bootstrap() const {
  return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
}

void FakeCluster::Accept() {
  acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
    if (error) return;
    std::make_shared<Session>(*this, std::move(socket))->Read();
    Accept();
  });
}

std::string FakeCluster::Answer(const std::string& frame) {
  Reader header(frame, 0, false);
  const auto key = static_cast<ApiKey>(header.Int16());
  const std::int16_t version = header.Int16();
  const std::int32_t correlation_id = header.Int32();
  header.NullableString();  // client id
  const auto* api = Spoken(key);
  if (!header.ok() || api == nullptr || version > api->max_version) return {};
  const bool flexible = version >= api->flexible_from;
  Reader r(std::string_view(frame).substr(frame.size() - header.remaining()), version, flexible);
  r.SkipTags();
  Writer body(version, flexible);
  switch (key) {
    case ApiKey::kApiVersions:
      ApiVersions(body);
      break;
    case ApiKey::kMetadata:
      Metadata(r, body);
      break;
    case ApiKey::kFindCoordinator:
      FindCoordinator(body);
      break;
    case ApiKey::kInitProducerId:
      InitProducerId(r, body);
      break;
    case ApiKey::kAddPartitionsToTxn:
      AddPartitions(r, body);
      break;
    case ApiKey::kProduce:
      Produce(r, body);
      break;
    case ApiKey::kEndTxn:
      EndTxn(r, body);
      break;
    case ApiKey::kDescribeTransactions:
      DescribeTransactions(r, body);
      break;
    case ApiKey::kListTransactions:
      ListTransactions(body);
      break;
    case ApiKey::kDescribeConfigs:
      DescribeConfigs(body);
      break;
    default:
      return {};
  }
  if (!r.ok()) return {};
  Writer head(0, HasFlexibleResponseHeader(*api, version));
  head.Int32(correlation_id);
  head.NoTags();
  const std::string answer = head.Take() + body.Take();
  Writer size(0, false);
  size.Int32(static_cast<std::int32_t>(answer.size()));
  return size.Take() + answer;
}

// ---- The cluster --------------------------------------------------------------------------------

void FakeCluster::ApiVersions(Writer& w) const {
  w.Error(ErrorCode::kNone);
  w.Array(kSpoken, [&](const wire::protocol::Api& api) {
    w.Int16(static_cast<std::int16_t>(api.key));
    w.Int16(api.min_version);
    w.Int16(api.max_version);
    w.NoTags();
  });
  if (w.version() >= 1) w.Int32(0);
  if (w.version() < 3) return;
  const auto feature = [](const char* name, std::int16_t first, std::int16_t second) {
    Writer field(0, true);
    field.ArrayCount(1);
    field.String(name);
    field.Int16(first);
    field.Int16(second);
    field.NoTags();
    return field.Take();
  };
  // Of software that does not lose markers, and without transaction.version 2.
  const std::string supported = feature("metadata.version", 1, 25);
  const std::string finalized = feature("transaction.version", 1, 1);
  w.UnsignedVarint(2);
  for (const auto& [tag, field] : {std::pair(0U, supported), std::pair(2U, finalized)}) {
    w.UnsignedVarint(tag);
    w.UnsignedVarint(static_cast<std::uint32_t>(field.size()));
    w.Raw(field);
  }
}

void FakeCluster::WriteBroker(Writer& w) const {
  w.Int32(1);
  w.String("127.0.0.1");
  w.Int32(acceptor_.local_endpoint().port());
}

void FakeCluster::Metadata(Reader& r, Writer& w) const {
  const auto wanted = r.Array([&] {
    std::string topic = r.String();
    r.SkipTags();
    return topic;
  });
  const std::int16_t version = w.version();
  if (version >= 3) w.Int32(0);
  w.ArrayCount(1);
  WriteBroker(w);
  if (version >= 1) w.NullableString(std::nullopt);  // rack
  w.NoTags();
  if (version >= 2) w.NullableString("fake-" + bootstrap());
  if (version >= 1) w.Int32(1);  // controller
  w.Array(wanted, [&](const std::string& topic) {
    w.Error(ErrorCode::kNone);
    w.String(topic);
    if (version >= 1) w.Bool(false);
    w.ArrayCount(static_cast<std::size_t>(partitions_));
    for (int partition = 0; partition < partitions_; ++partition) {
      w.Error(ErrorCode::kNone);
      w.Int32(partition);
      w.Int32(1);
      if (version >= 7) w.Int32(0);  // leader epoch
      for (int list = 0; list < (version >= 5 ? 3 : 2); ++list) w.ArrayCount(0);
      w.NoTags();
    }
    if (version >= 8) w.Int32(0);
    w.NoTags();
  });
  if (version >= 8) w.Int32(0);
  w.NoTags();
}

void FakeCluster::FindCoordinator(Writer& w) const {
  if (w.version() >= 1) w.Int32(0);
  w.Error(ErrorCode::kNone);
  if (w.version() >= 1) w.NullableString(std::nullopt);
  WriteBroker(w);
  w.NoTags();
}

void FakeCluster::DescribeConfigs(Writer& w) {
  w.Int32(0);
  w.ArrayCount(1);
  w.Error(ErrorCode::kNone);
  w.NullableString(std::nullopt);
  w.Int8(4);
  w.String("1");
  w.ArrayCount(1);
  w.String("transaction.max.timeout.ms");
  w.NullableString("900000");
  w.Bool(false);
  w.Int8(5);
  w.Bool(false);
  w.ArrayCount(0);
  w.Int8(3);
  w.NullableString(std::nullopt);
  for (int structure = 0; structure < 3; ++structure) w.NoTags();
}

// ---- Transactions -------------------------------------------------------------------------------

const char* FakeCluster::NameOf(State state) {
  switch (state) {
    case State::kEmpty:
      return "Empty";
    case State::kOngoing:
      return "Ongoing";
    case State::kCompleteCommit:
      return "CompleteCommit";
    case State::kCompleteAbort:
      return "CompleteAbort";
  }
  return "";
}

void FakeCluster::InitProducerId(Reader& r, Writer& w) {
  const std::string id = r.String();
  Txn& txn = txns_[id];
  if (txn.producer_id == 0) {
    txn.producer_id = static_cast<std::int64_t>(txns_.size());
  } else {
    if (txn.state == State::kOngoing) End(txn, false);
    ++txn.epoch;
  }
  txn.state = State::kEmpty;
  w.Int32(0);
  w.Error(ErrorCode::kNone);
  w.Int64(txn.producer_id);
  w.Int16(txn.epoch);
  w.NoTags();
}

ErrorCode FakeCluster::Check(const std::string& id, std::int64_t producer_id,
                             std::int16_t epoch) const {
  const auto found = txns_.find(id);
  if (found == txns_.end() || found->second.producer_id != producer_id) {
    return ErrorCode::kInvalidProducerIdMapping;
  }
  return found->second.epoch == epoch ? ErrorCode::kNone : ErrorCode::kInvalidProducerEpoch;
}

void FakeCluster::AddPartitions(Reader& r, Writer& w) {
  const std::string id = r.String();
  const std::int64_t producer_id = r.Int64();
  const std::int16_t epoch = r.Int16();
  const ErrorCode error = Check(id, producer_id, epoch);
  w.Int32(0);
  const auto topics = r.Array([&] {
    std::string topic = r.String();
    return std::pair(std::move(topic), r.Array([&] { return r.Int32(); }));
  });
  if (error == ErrorCode::kNone) {
    Txn& txn = txns_[id];
    if (txn.state != State::kOngoing) {
      txn = {.producer_id = producer_id,
             .epoch = epoch,
             .state = State::kOngoing,
             // A later transaction has a later one: under TV1 it is part of the name.
             .start_time_ms = std::max(NowMs(), txn.start_time_ms + 1)};
    }
    for (const auto& [topic, partitions] : topics) {
      auto& known = txn.partitions[topic];
      known.insert(known.end(), partitions.begin(), partitions.end());
    }
  }
  w.Array(topics, [&](const auto& topic) {
    w.String(topic.first);
    w.Array(topic.second, [&](std::int32_t partition) {
      w.Int32(partition);
      w.Error(error);
    });
  });
}

void FakeCluster::Produce(Reader& r, Writer& w) {
  const std::string id = r.NullableString().value_or("");
  r.Int16();  // acks
  r.Int32();  // timeout
  const auto txn = txns_.find(id);
  struct Written {
    std::int32_t partition;
    std::int64_t offset;
  };
  const auto topics = r.Array([&] {
    std::string topic = r.String();
    auto written = r.Array([&] {
      const std::int32_t partition = r.Int32();
      const std::int64_t records = RecordsIn(r.Bytes());
      std::int64_t& next = offsets_[{topic, partition}];
      next += records;
      if (txn != txns_.end()) txn->second.records += records;
      return Written{partition, next - records};
    });
    return std::pair(std::move(topic), std::move(written));
  });
  w.Array(topics, [&](const auto& topic) {
    w.String(topic.first);
    w.Array(topic.second, [&](const Written& written) {
      w.Int32(written.partition);
      w.Error(txn == txns_.end() ? ErrorCode::kInvalidProducerIdMapping : ErrorCode::kNone);
      w.Int64(written.offset);
      w.Int64(-1);                       // log append time
      if (w.version() >= 5) w.Int64(0);  // log start offset
    });
  });
  w.Int32(0);
}

ErrorCode FakeCluster::End(Txn& txn, bool commit) {
  const State wanted = commit ? State::kCompleteCommit : State::kCompleteAbort;
  if (txn.state == wanted) return ErrorCode::kNone;
  if (txn.state != State::kOngoing) return ErrorCode::kInvalidTxnState;
  if (commit) committed_records_ += txn.records;
  txn.state = wanted;
  txn.records = 0;
  txn.partitions.clear();
  return ErrorCode::kNone;
}

void FakeCluster::EndTxn(Reader& r, Writer& w) {
  const std::string id = r.String();
  const std::int64_t producer_id = r.Int64();
  const std::int16_t epoch = r.Int16();
  const bool commit = r.Bool();
  ErrorCode error = Check(id, producer_id, epoch);
  if (error == ErrorCode::kNone) error = End(txns_[id], commit);
  w.Int32(0);
  w.Error(error);
  w.NoTags();
}

void FakeCluster::DescribeTransactions(Reader& r, Writer& w) const {
  const auto wanted = r.Array([&] { return r.String(); });
  w.Int32(0);
  w.Array(wanted, [&](const std::string& id) {
    const auto found = txns_.find(id);
    const Txn txn = found == txns_.end() ? Txn() : found->second;
    w.Error(found == txns_.end() ? ErrorCode::kTransactionalIdNotFound : ErrorCode::kNone);
    w.String(id);
    w.String(NameOf(txn.state));
    w.Int32(60'000);
    w.Int64(txn.start_time_ms);
    w.Int64(txn.producer_id);
    w.Int16(txn.epoch);
    w.Array(txn.partitions, [&](const auto& topic) {
      w.String(topic.first);
      w.Array(topic.second, [&](std::int32_t partition) { w.Int32(partition); });
      w.NoTags();
    });
    w.NoTags();
  });
  w.NoTags();
}

void FakeCluster::ListTransactions(Writer& w) const {
  w.Int32(0);
  w.Error(ErrorCode::kNone);
  w.ArrayCount(0);  // filters that are not known
  w.Array(txns_, [&](const auto& txn) {
    w.String(txn.first);
    w.Int64(txn.second.producer_id);
    w.String(NameOf(txn.second.state));
    w.NoTags();
  });
  w.NoTags();
}

}  // namespace lockstep::bench
