#include "fake_broker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <utility>

#include "wire/protocol/cluster_messages.h"
#include "wire/protocol/sasl_messages.h"
#include "wire/protocol/txn_messages.h"

namespace lockstep::wire {
namespace {

using namespace std::chrono_literals;
using namespace protocol;  // NOLINT(google-build-using-namespace): every name here is Kafka's

constexpr auto kPatience = 20s;

/// The api that a request belongs to: its name does not matter here.
Api ApiOf(ApiKey key) {
  for (const Api& api :
       {ApiVersions::kApi, Metadata::kApi, FindCoordinator::kApi, InitProducerId::kApi,
        EndTxn::kApi, DescribeTransactions::kApi, ListTransactions::kApi, WriteTxnMarkers::kApi,
        DescribeProducers::kApi, ListOffsets::kApi, Fetch::kApi, DescribeGroups::kApi,
        ConsumerGroupDescribe::kApi, DescribeConfigs::kApi, SaslHandshake::kApi,
        SaslAuthenticate::kApi}) {
    if (api.key == key) return api;
  }
  std::abort();
}

std::pair<int, std::uint16_t> Listen() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    std::abort();
  }
  socklen_t size = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return {listener, ntohs(address.sin_port)};
}

/// The next whole frame of what was received, taken out of it.
std::optional<std::string> TakeFrame(std::string& received) {
  Reader r(received, 0, false);
  const std::int32_t size = r.Int32();
  if (!r.ok() || r.remaining() < static_cast<std::size_t>(size)) return std::nullopt;
  std::string frame = received.substr(4, static_cast<std::size_t>(size));
  received.erase(0, 4 + static_cast<std::size_t>(size));
  return frame;
}

std::pair<FakeRequest, std::int32_t> ParseRequest(const std::string& frame, int connection) {
  Reader r(frame, 0, false);
  FakeRequest request;
  request.key = static_cast<ApiKey>(r.Int16());
  request.version = r.Int16();
  request.connection = connection;
  const std::int32_t correlation_id = r.Int32();
  r.NullableString();  // client id
  if (request.version >= ApiOf(request.key).flexible_from) r.UnsignedVarint();
  request.body = std::string(r.Raw(r.remaining()));
  return {request, correlation_id};
}

}  // namespace

Reader FakeRequest::Read() const& {
  return Reader(body, version, version >= ApiOf(key).flexible_from);
}

FakeBroker::FakeBroker(std::int32_t node_id) : node_id_(node_id) {
  std::tie(listener_, port_) = Listen();
  acceptor_ = std::thread([this] { Accept(); });
}

FakeBroker::~FakeBroker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const Peer& peer : peers_) shutdown(peer.socket, SHUT_RDWR);
  }
  changed_.notify_all();
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  for (Peer& peer : peers_) {
    peer.thread.join();
    close(peer.socket);
  }
}

void FakeBroker::Accept() {
  for (;;) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (socket < 0 || stopping_) {
      if (socket >= 0) close(socket);
      return;
    }
    const int connection = static_cast<int>(peers_.size()) + 1;
    peers_.push_back({socket, std::thread([=, this] { Serve(socket, connection); })});
    changed_.notify_all();
  }
}

/// Reads on while an answer is held back, so that a test sees what was pipelined. What came in one
/// piece is answered in one.
void FakeBroker::Serve(int socket, int connection) {
  pthread_setname_np(pthread_self(), "fake-broker");
  std::string received;
  std::deque<std::pair<FakeRequest, std::int32_t>> queue;
  for (;;) {
    std::string answers;
    bool on = true;
    while (on && !queue.empty() && !IsHeld(queue.front().first.key)) {
      on = Answer(queue.front().first, queue.front().second, answers);
      queue.pop_front();
    }
    const bool sent = answers.empty() || send(socket, answers.data(), answers.size(),
                                              MSG_NOSIGNAL) == static_cast<ssize_t>(answers.size());
    if (!sent || !on) {
      shutdown(socket, SHUT_RDWR);
      return;
    }
    // Not a sleep: how soon Release is noticed.
    pollfd readable{socket, POLLIN, 0};
    if (!queue.empty() && poll(&readable, 1, 2) == 0) continue;
    char buffer[16'384];
    const ssize_t got = recv(socket, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    received.append(buffer, static_cast<std::size_t>(got));
    while (auto frame = TakeFrame(received)) {
      queue.push_back(ParseRequest(*frame, connection));
      if (!keeps_requests) continue;
      const std::lock_guard lock(mutex_);
      received_.push_back(queue.back().first);
      changed_.notify_all();
    }
  }
}

bool FakeBroker::IsHeld(ApiKey key) const {
  const std::lock_guard lock(mutex_);
  return held_.contains(key);
}

bool FakeBroker::Answer(const FakeRequest& request, std::int32_t correlation_id, std::string& to) {
  std::shared_ptr<Handler> handler;
  {
    const std::lock_guard lock(mutex_);
    if (confused_) ++correlation_id;
    const auto found = handlers_.find(request.key);
    if (found != handlers_.end()) handler = found->second;
  }
  const Api api = ApiOf(request.key);
  Writer body(request.version, request.version >= api.flexible_from);
  if (handler) {
    const std::lock_guard lock(handling_);
    if (!(*handler)(request, body)) return false;
  } else if (request.key == ApiKey::kApiVersions) {
    DefaultApiVersions(body);
  } else if (request.key == ApiKey::kMetadata) {
    DefaultMetadata(request, body);
  } else {
    return false;
  }
  Writer header(0, HasFlexibleResponseHeader(api, request.version));
  header.Int32(correlation_id);
  header.NoTags();
  const std::string answer = header.Take() + body.Take();
  Writer size(0, false);
  size.Int32(static_cast<std::int32_t>(answer.size()));
  to += size.Take() + answer;
  return true;
}

void FakeBroker::DefaultApiVersions(Writer& w) const {
  std::vector<std::pair<ApiKey, std::pair<std::int16_t, std::int16_t>>> all;
  for (const ApiKey key :
       {ApiKey::kFetch, ApiKey::kListOffsets, ApiKey::kMetadata, ApiKey::kFindCoordinator,
        ApiKey::kDescribeGroups, ApiKey::kApiVersions, ApiKey::kInitProducerId, ApiKey::kEndTxn,
        ApiKey::kWriteTxnMarkers, ApiKey::kDescribeConfigs, ApiKey::kDescribeProducers,
        ApiKey::kDescribeTransactions, ApiKey::kListTransactions, ApiKey::kConsumerGroupDescribe}) {
    const auto overridden = versions.find(key);
    all.emplace_back(key, overridden == versions.end()
                              ? std::pair<std::int16_t, std::int16_t>{0, 20}
                              : overridden->second);
  }
  w.Error(ErrorCode::kNone);
  w.Array(all, [&](const auto& each) {
    w.Int16(static_cast<std::int16_t>(each.first));
    w.Int16(each.second.first);
    w.Int16(each.second.second);
    w.NoTags();
  });
  w.Int32(0);
  const auto feature = [&](const char* name, std::int16_t first, std::int16_t second) {
    Writer field(0, true);
    field.ArrayCount(1);
    field.String(name);
    field.Int16(first);
    field.Int16(second);
    field.NoTags();
    return field.Take();
  };
  const std::string supported = feature("metadata.version", 1, metadata_version_max);
  const std::string finalized =
      feature("transaction.version", transaction_version, transaction_version);
  w.UnsignedVarint(2);
  for (const auto& [tag, field] : {std::pair(0U, supported), std::pair(2U, finalized)}) {
    w.UnsignedVarint(tag);
    w.UnsignedVarint(static_cast<std::uint32_t>(field.size()));
    w.Raw(field);
  }
}

void FakeBroker::DefaultMetadata(const FakeRequest& request, Writer& w) const {
  Reader r = request.Read();
  const auto wanted = r.Array([&] {
    std::string topic = r.String();
    r.SkipTags();
    return topic;
  });
  std::vector<const FakeBroker*> nodes(cluster.begin(), cluster.end());
  if (nodes.empty()) nodes = {this};
  w.Int32(0);
  w.Array(nodes, [&](const FakeBroker* node) {
    w.Int32(node->node_id());
    w.String("127.0.0.1");
    w.Int32(node->port());
    w.NullableString(std::nullopt);
    w.NoTags();
  });
  const std::lock_guard lock(mutex_);
  w.NullableString(cluster_id_);
  w.Int32(1);
  w.Array(wanted, [&](const std::string& name) {
    const auto found = leaders_.find(name);
    const bool known = found != leaders_.end();
    w.Error(known ? ErrorCode::kNone : ErrorCode::kUnknownTopicOrPartition);
    w.String(name);
    w.Bool(false);
    const auto leaders = known ? found->second : std::vector<std::int32_t>{};
    std::int32_t partition = 0;
    w.Array(leaders, [&](std::int32_t leader) {
      w.Error(leader < 0 ? ErrorCode::kLeaderNotAvailable : ErrorCode::kNone);
      w.Int32(partition++);
      w.Int32(leader);
      w.Int32(0);
      for (int list = 0; list < 3; ++list) w.ArrayCount(0);
      w.NoTags();
    });
    w.Int32(0);
    w.NoTags();
  });
  w.Int32(0);
  w.NoTags();
}

void FakeBroker::Handle(ApiKey key, Handler handler) {
  const std::lock_guard lock(mutex_);
  handlers_[key] = std::make_shared<Handler>(std::move(handler));
}

void FakeBroker::Hold(ApiKey key) {
  const std::lock_guard lock(mutex_);
  held_.insert(key);
}

void FakeBroker::Release(ApiKey key) {
  const std::lock_guard lock(mutex_);
  held_.erase(key);
}

void FakeBroker::DropConnections() {
  const std::lock_guard lock(mutex_);
  for (const Peer& peer : peers_) shutdown(peer.socket, SHUT_RDWR);
}

void FakeBroker::SetClusterId(const std::string& id) {
  const std::lock_guard lock(mutex_);
  cluster_id_ = id;
}

void FakeBroker::SetLeaders(const std::string& topic, std::vector<std::int32_t> leaders) {
  const std::lock_guard lock(mutex_);
  leaders_[topic] = std::move(leaders);
}

void FakeBroker::ConfuseCorrelationIds() {
  const std::lock_guard lock(mutex_);
  confused_ = true;
}

bool FakeBroker::AwaitRequests(ApiKey key, std::size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] {
    return static_cast<std::size_t>(std::count_if(
               received_.begin(), received_.end(),
               [&](const FakeRequest& request) { return request.key == key; })) >= count;
  });
}

bool FakeBroker::AwaitConnections(int count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience,
                           [&] { return static_cast<int>(peers_.size()) >= count; });
}

std::vector<FakeRequest> FakeBroker::requests(ApiKey key) const {
  std::vector<FakeRequest> found;
  for (FakeRequest& request : requests()) {
    if (request.key == key) found.push_back(std::move(request));
  }
  return found;
}

std::vector<FakeRequest> FakeBroker::requests() const {
  const std::lock_guard lock(mutex_);
  return received_;
}

int FakeBroker::connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(peers_.size());
}

void WriteCoordinator(Writer& w, const FakeBroker& coordinator) {
  w.Int32(0);
  w.Error(ErrorCode::kNone);
  w.NullableString(std::nullopt);
  w.Int32(coordinator.node_id());
  w.String("127.0.0.1");
  w.Int32(coordinator.port());
  w.NoTags();
}

void WriteMaxTimeout(Writer& w, const std::string& milliseconds) {
  w.Int32(0);
  w.ArrayCount(1);
  w.Error(ErrorCode::kNone);
  w.NullableString(std::nullopt);
  w.Int8(4);
  w.String("1");
  w.ArrayCount(1);
  w.String("transaction.max.timeout.ms");
  w.NullableString(milliseconds);
  w.Bool(false);
  w.Int8(5);
  w.Bool(false);
  w.ArrayCount(0);
  w.Int8(3);
  w.NullableString(std::nullopt);
  for (int structure = 0; structure < 3; ++structure) w.NoTags();
}

std::uint16_t ClosedPort() {
  const auto [listener, port] = Listen();
  close(listener);
  return port;
}

}  // namespace lockstep::wire
