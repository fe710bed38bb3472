#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "wire/connection.h"
#include "wire/protocol/cluster_messages.h"
#include "wire/signal.h"
#include "wire/types.h"

namespace lockstep::wire {

/// One request on its way: shared by the coroutine that waits and the link that carries it.
struct Exchange {
  Exchange(Io& io, Waits& waits) : done(io, waits) {}

  // What is asked, and by which versions (within the api's own).
  protocol::Api api{};
  std::int16_t min_version = 0;
  std::int16_t max_version = 0;
  bool any_cluster = false;         ///< Even if it is not the pinned one.
  bool needs_txn_version2 = false;  ///< Only where transaction.version 2 is finalized.
  std::function<void(protocol::Writer&)> encode;

  // What became of it: final once `done` is set.
  std::int16_t version = -1;  ///< The request's.
  bool sent = false;          ///< It may have reached the broker.
  bool abandoned = false;     ///< Set by who waited: not to be sent any more.
  std::string frame;          ///< The answer: header and body.
  std::size_t body_at = 0;
  std::optional<Error> error;  ///< Instead of an answer.
  Signal done;
};

/// What a broker said of itself and its cluster when it was connected, or was last asked.
struct BrokerSelf {
  KafkaClusterId cluster_id;
  std::map<std::int16_t, protocol::ApiVersions::Range> apis;
  std::int16_t metadata_version_max = 0;  ///< Of its software.
  std::int16_t metadata_version = 0;      ///< Finalized.
  std::int16_t transaction_version = 0;   ///< Finalized.

  void Learn(const protocol::ApiVersions::Response& versions);
};

/// What the links of one client share.
struct LinkEnv {
  Io& io;
  const ClientOptions& options;
  Security& security;
  const std::optional<KafkaClusterId>& pinned;
  std::function<void(const protocol::Metadata::Response&)> learned;  ///< From a handshake.
};

/// The connection to one broker's address, as it comes and goes. Opened by the first request, kept
/// open, opened again with growing pauses while requests want it. Whoever asks in the pause after a
/// refusal (a log-in, a certificate) gets that refusal for an answer, at once and from here:
/// however many ask, a broker sees one attempt a pause. Before anything else it asks for versions
/// and cluster id; then requests go out as they come (pipelined), up to the limit, and answers are
/// matched in order. Loop thread only.
class Link {
 public:
  Link(LinkEnv& env, Endpoint endpoint);

  /// Sends it as soon as may be. A connection that fails takes every request on it along.
  void Submit(std::shared_ptr<Exchange> exchange);
  /// Gives up the connection, e.g. after an answer that makes no sense. What is under way fails as
  /// kUnavailable, for it may go better on another one; before the handshake is done, with `error`.
  void Drop(const Error& error);

  const Endpoint& endpoint() const { return endpoint_; }
  bool ready() const { return state_ == State::kReady; }
  int failures() const { return failures_; }  ///< In a row.
  /// Why the connection was last lost; empty once the broker has answered again.
  const std::string& problem() const { return problem_; }
  std::size_t load() const { return waiting_.size() + in_flight_.size(); }
  BrokerSelf& self() { return self_; }  ///< Of the last handshake; empty before.
  bool mismatch() const;                ///< Ready, but not of the pinned cluster.
  bool stalled() const;  ///< It owes answers, and has sent nothing for a while: rather ask others.

 private:
  enum class State { kIdle, kConnecting, kHandshaking, kReady, kPausing };
  struct Sent {
    std::int32_t correlation_id = 0;
    std::shared_ptr<Exchange> exchange;  // None: one of the handshake.
  };

  void Connect();
  void Handshake();
  void OnFrame(std::string frame);
  void OnClosed(const Error& error);
  Status OnHandshake(const std::string& frame);
  void Pump();
  void FailOldest(const Error& error);
  std::optional<Error> Refuse(Exchange& exchange) const;
  bool StillRefused();
  Duration PauseAfter(const Error& error);
  void Transmit(const protocol::Api& api, std::int16_t version,
                const std::function<void(protocol::Writer&)>& encode,
                std::shared_ptr<Exchange> exchange);
  Error Silent(const char* what) const;

  LinkEnv& env_;
  const Endpoint endpoint_;
  State state_ = State::kIdle;
  int failures_ = 0;
  int refusals_ = 0;              // In a row.
  std::optional<Error> refusal_;  // While it pauses after one.
  std::string refused_with_;      // The Stamp of what was refused.
  std::string problem_;
  BrokerSelf self_;
  int handshakes_left_ = 0;
  std::int32_t next_correlation_id_ = 1;
  std::deque<std::shared_ptr<Exchange>> waiting_;
  std::deque<Sent> in_flight_;
  Deadline progress_;  // When it last answered, or had nothing to answer.
  Timer patience_;     // For the connection to open, then for the oldest request's answer.
  Timer pause_;
  std::unique_ptr<Connection> connection_;
};

/// The pause before the `attempt`-th retry, from 1: twice the one before, from `first` to
/// `longest`.
Duration Backoff(Duration first, Duration longest, int attempt);

}  // namespace lockstep::wire
