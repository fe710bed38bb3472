#include "wire/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;

[[noreturn]] void Fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::string ReadExactly(int socket, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t have = 0; have < size;) {
    const ssize_t got = recv(socket, bytes.data() + have, size - have, 0);
    if (got == 0) throw std::runtime_error("the broker closed the connection");
    if (got < 0) Fail("no answer");
    have += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string Sized(const std::string& message) {
  Writer w(0, false);
  w.Int32(static_cast<std::int32_t>(message.size()));
  return w.Take() + message;
}

/// Asks until the answer is none of those that only mean "not yet".
template <typename AskOnce>
ErrorCode AskUntilSettled(AskOnce ask) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const ErrorCode error = ask();
    const bool busy = error == ErrorCode::kConcurrentTransactions ||
                      error == ErrorCode::kCoordinatorLoadInProgress ||
                      error == ErrorCode::kCoordinatorNotAvailable ||
                      error == ErrorCode::kNotCoordinator;
    if (!busy || std::chrono::steady_clock::now() > give_up) return error;
    std::this_thread::sleep_for(2ms);  // the pace of polling, not a guess at a duration
  }
}

}  // namespace

RawClient::RawClient(const std::string& address) {
  const std::string first = address.substr(0, address.find(','));
  const std::size_t colon = first.rfind(':');
  if (colon == std::string::npos) throw std::runtime_error("not HOST:PORT: " + first);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(first.substr(colon + 1))));
  if (inet_pton(AF_INET, first.substr(0, colon).c_str(), &to.sin_addr) != 1) {
    throw std::runtime_error("not an IPv4 address: " + first);
  }
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval patience{kPatience.count(), 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    const int error = errno;
    close(socket_);
    errno = error;
    Fail("connect to " + first);
  }
}

RawClient::~RawClient() { close(socket_); }

void RawClient::Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(ToString(status.error()));
}

std::string RawClient::Exchange(const Api& api, std::int16_t version, const std::string& body) {
  const std::int32_t id = ++correlation_id_;
  const std::string frame =
      Sized(wire::protocol::EncodeHeader(api, version, id, "lockstep-test") + body);
  if (send(socket_, frame.data(), frame.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(frame.size())) {
    Fail("send");
  }
  const std::string size_bytes = ReadExactly(socket_, 4);
  const std::string answer =
      ReadExactly(socket_, static_cast<std::size_t>(Reader(size_bytes, 0, false).Int32()));
  Reader r(answer, version, HasFlexibleResponseHeader(api, version));
  if (r.Int32() != id) throw std::runtime_error("an answer to another request");
  r.SkipTags();
  return answer.substr(answer.size() - r.remaining());
}

ErrorCode RawProducer::Init(std::chrono::milliseconds txn_timeout) {
  wire::protocol::InitProducerId request;
  request.transactional_id = id_;
  request.timeout_ms = static_cast<std::int32_t>(txn_timeout.count());
  return AskUntilSettled([&] {
    // A coordinator's partition has a leader only once somebody has asked for it.
    wire::protocol::FindCoordinator find;
    find.coordinator_key = id_;
    find.type = 1;
    if (const ErrorCode error = client_.Ask(find).error; error != ErrorCode::kNone) return error;
    const auto response = client_.Ask(request);
    if (response.error == ErrorCode::kNone) {
      producer_id_ = response.producer_id;
      producer_epoch_ = response.producer_epoch;
      sequences_.clear();
    }
    return response.error;
  });
}

ErrorCode RawProducer::AddPartition(const std::string& topic, std::int32_t partition) {
  AddPartitionsToTxn request;
  request.transactional_id = id_;
  request.producer_id = producer_id_;
  request.producer_epoch = producer_epoch_;
  request.topics = {{topic, {partition}}};
  return AskUntilSettled([&] { return client_.Ask(request).partitions.at(0).error; });
}

ErrorCode RawProducer::AddGroup(const std::string& group_id) {
  AddOffsetsToTxn request;
  request.transactional_id = id_;
  request.producer_id = producer_id_;
  request.producer_epoch = producer_epoch_;
  request.group_id = group_id;
  return AskUntilSettled([&] { return client_.Ask(request).error; });
}

ErrorCode RawProducer::Produce(const std::string& topic, std::int32_t partition,
                               const std::string& value, std::int64_t* base_offset,
                               std::int16_t version) {
  std::int32_t& sequence = sequences_[{topic, partition}];
  RecordBatch batch;
  batch.producer_id = producer_id_;
  batch.producer_epoch = producer_epoch_;
  batch.base_sequence = sequence;
  batch.values = {value};
  testing::Produce request;
  request.transactional_id = id_;
  request.topic = topic;
  request.partition = partition;
  request.records = EncodeRecordBatch(batch);
  const auto response = client_.Ask(request, version);
  if (response.error == ErrorCode::kNone) ++sequence;
  if (base_offset != nullptr) *base_offset = response.base_offset;
  return response.error;
}

ErrorCode RawProducer::End(bool commit, std::int16_t version) {
  wire::protocol::EndTxn request;
  request.transactional_id = id_;
  request.producer_id = producer_id_;
  request.producer_epoch = producer_epoch_;
  request.commit = commit;
  const auto response = client_.Ask(request, version);
  const bool bumps = version >= 5 && response.error == ErrorCode::kNone;
  if (bumps &&
      (response.producer_id != producer_id_ || response.producer_epoch != producer_epoch_)) {
    producer_id_ = response.producer_id;
    producer_epoch_ = response.producer_epoch;
    sequences_.clear();
  }
  return response.error;
}

ErrorCode RawProducer::EndAndSettle(bool commit, std::int16_t version) {
  const ErrorCode error = AskUntilSettled([&] { return End(commit, version); });
  if (error != ErrorCode::kNone) return error;
  return AskUntilSettled([&] {
    const auto described = Describe();
    return described.state.starts_with("Prepare") ? ErrorCode::kConcurrentTransactions
                                                  : described.error;
  });
}

wire::protocol::DescribeTransactions::Response RawProducer::Describe() {
  wire::protocol::DescribeTransactions request;
  request.transactional_id = id_;
  return client_.Ask(request);
}

}  // namespace lockstep::testing
