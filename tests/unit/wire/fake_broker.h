#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "wire/protocol/codec.h"

namespace lockstep::wire {

/// A request as a fake broker got it.
struct FakeRequest {
  protocol::ApiKey key{};
  std::int16_t version = 0;
  std::string body;
  int connection = 0;  ///< Counted from 1.

  /// Decodes the body's fields.
  protocol::Reader Read() const&;
  protocol::Reader Read() && = delete;  ///< It reads from `body`.
};

/// A broker that only has a socket: it speaks frames, and answers what the test says. Connections
/// are served side by side, each one's requests in order, as Kafka does. ApiVersions and Metadata
/// are answered by default. Thread-safe; handlers run on the connections' threads, one at a time.
class FakeBroker {
 public:
  /// Writes the answer's body; false: the connection is closed instead.
  using Handler = std::function<bool(const FakeRequest& request, protocol::Writer& answer)>;

  explicit FakeBroker(std::int32_t node_id = 1);
  ~FakeBroker();
  FakeBroker(const FakeBroker&) = delete;
  FakeBroker& operator=(const FakeBroker&) = delete;

  std::int32_t node_id() const { return node_id_; }
  std::uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // What it says of itself: to be set before anybody connects.
  std::map<protocol::ApiKey, std::pair<std::int16_t, std::int16_t>> versions;  ///< Overrides.
  std::int16_t transaction_version = 2;
  std::int16_t metadata_version_max = 33;
  std::vector<FakeBroker*> cluster;  ///< All nodes; empty: only this one.
  bool keeps_requests = true;        ///< For requests(), and AwaitRequests().

  void Handle(protocol::ApiKey key, Handler handler);
  /// Requests of this kind are received, and not answered until Release.
  void Hold(protocol::ApiKey key);
  void Release(protocol::ApiKey key);
  /// Closes every connection; new ones are accepted.
  void DropConnections();
  /// "cluster-a" before.
  void SetClusterId(const std::string& id);
  /// A topic, and who leads its partitions: -1 for nobody.
  void SetLeaders(const std::string& topic, std::vector<std::int32_t> leaders);
  /// Answers are sent with another correlation id from now on.
  void ConfuseCorrelationIds();

  /// Waits until `count` requests of this kind have come; false after 20 s.
  bool AwaitRequests(protocol::ApiKey key, std::size_t count);
  /// Waits until `count` connections have been accepted.
  bool AwaitConnections(int count);
  std::vector<FakeRequest> requests(protocol::ApiKey key) const;
  /// Everything received, in order.
  std::vector<FakeRequest> requests() const;
  int connections() const;

 private:
  struct Peer {
    int socket = -1;
    std::thread thread;
  };

  void Accept();
  void Serve(int socket, int connection);
  bool IsHeld(protocol::ApiKey key) const;
  /// Appends the whole frame; false: the connection is to be closed.
  bool Answer(const FakeRequest& request, std::int32_t correlation_id, std::string& to);
  void DefaultApiVersions(protocol::Writer& w) const;
  void DefaultMetadata(const FakeRequest& request, protocol::Writer& w) const;

  const std::int32_t node_id_;
  int listener_ = -1;
  std::uint16_t port_ = 0;

  std::mutex handling_;  // Held while a handler runs, for handlers keep state.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<protocol::ApiKey, std::shared_ptr<Handler>> handlers_;
  std::set<protocol::ApiKey> held_;
  std::vector<FakeRequest> received_;
  std::vector<Peer> peers_;
  std::string cluster_id_ = "cluster-a";
  std::map<std::string, std::vector<std::int32_t>> leaders_;
  bool confused_ = false;
  bool stopping_ = false;
  std::thread acceptor_;
};

// Bodies of answers, for handlers.
/// FindCoordinator's: it is this broker.
void WriteCoordinator(protocol::Writer& w, const FakeBroker& coordinator);
/// DescribeConfigs': a broker's transaction.max.timeout.ms, and nothing else.
void WriteMaxTimeout(protocol::Writer& w, const std::string& milliseconds);

/// A port of 127.0.0.1 where nobody listens.
std::uint16_t ClosedPort();

}  // namespace lockstep::wire
