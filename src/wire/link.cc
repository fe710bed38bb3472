#include "wire/link.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/units.h"

namespace lockstep::wire {
namespace {

using protocol::ApiVersions;
using protocol::Metadata;

std::int16_t MaxVersionOf(const std::vector<ApiVersions::Feature>& features, const char* name) {
  for (const ApiVersions::Feature& feature : features) {
    if (feature.name == name) return feature.max_version;
  }
  return 0;
}

void Finish(Exchange& exchange, Error error) {
  exchange.error = std::move(error);
  exchange.done.Set();
}

}  // namespace

Duration Backoff(Duration first, Duration longest, int attempt) {
  constexpr int kMaxDoublings = 16;
  const auto factor = std::int64_t{1} << std::clamp(attempt - 1, 0, kMaxDoublings);
  return std::min(first * factor, longest);
}

void BrokerSelf::Learn(const ApiVersions::Response& versions) {
  apis.clear();
  for (const ApiVersions::Range& range : versions.apis) apis[range.key] = range;
  metadata_version_max = MaxVersionOf(versions.supported, "metadata.version");
  metadata_version = MaxVersionOf(versions.finalized, "metadata.version");
  transaction_version = MaxVersionOf(versions.finalized, "transaction.version");
}

Link::Link(LinkEnv& env, Endpoint endpoint)
    : env_(env), endpoint_(std::move(endpoint)), patience_(env.io), pause_(env.io) {}

bool Link::mismatch() const { return ready() && env_.pinned && self_.cluster_id != *env_.pinned; }

bool Link::stalled() const {
  constexpr auto kStall = std::chrono::seconds(1);
  return !in_flight_.empty() && std::chrono::steady_clock::now() - progress_ > kStall;
}

/// The pause is over early if somebody has changed what was refused.
bool Link::StillRefused() {
  if (state_ != State::kPausing || !refusal_) return false;
  if (Stamp(env_.options.security) == refused_with_) return true;
  pause_.Cancel();
  state_ = State::kIdle;
  return false;
}

Duration Link::PauseAfter(const Error& error) {
  refusal_.reset();
  const bool refused =
      error.code == Code::kPermissionDenied || error.code == Code::kFailedPrecondition;
  if (!refused) return Backoff(env_.options.backoff_min, env_.options.backoff_max, failures_);
  refusal_ = error;
  refused_with_ = Stamp(env_.options.security);
  return Backoff(env_.options.refused_backoff_min, env_.options.refused_backoff_max, ++refusals_);
}

void Link::Submit(std::shared_ptr<Exchange> exchange) {
  if (StillRefused()) return Finish(*exchange, *refusal_);
  waiting_.push_back(std::move(exchange));
  if (state_ == State::kIdle) Connect();
  if (state_ == State::kReady) Pump();
}

void Link::Connect() {
  state_ = State::kConnecting;
  patience_.Start(env_.options.connect_timeout, [this] { Drop(Silent("no connection within")); });
  connection_ = OpenConnection(env_.io, endpoint_, env_.security,
                               {env_.options.max_response_bytes, env_.options.client_id},
                               {.opened = [this] { Handshake(); },
                                .received = [this](std::string f) { OnFrame(std::move(f)); },
                                .closed = [this](const Error& error) { OnClosed(error); }});
}

void Link::Handshake() {
  state_ = State::kHandshaking;
  handshakes_left_ = 2;
  Transmit(
      ApiVersions::kApi, ApiVersions::kApi.max_version,
      [](protocol::Writer& w) { ApiVersions().Encode(w); }, nullptr);
  Transmit(
      Metadata::kApi, Metadata::kApi.max_version, [](protocol::Writer& w) { Metadata().Encode(w); },
      nullptr);
}

void Link::Transmit(const protocol::Api& api, std::int16_t version,
                    const std::function<void(protocol::Writer&)>& encode,
                    std::shared_ptr<Exchange> exchange) {
  const std::int32_t id = next_correlation_id_;
  next_correlation_id_ = id == std::numeric_limits<std::int32_t>::max() ? 1 : id + 1;
  protocol::Writer w(version, version >= api.flexible_from);
  encode(w);
  if (in_flight_.empty()) progress_ = std::chrono::steady_clock::now();
  in_flight_.push_back({id, std::move(exchange)});
  if (env_.options.requests_sent != nullptr) ++*env_.options.requests_sent;
  connection_->Send(protocol::EncodeHeader(api, version, id, env_.options.client_id) + w.Take());
}

void Link::OnFrame(std::string frame) {
  protocol::Reader r(frame, 0, false);
  const std::int32_t id = r.Int32();
  if (in_flight_.empty() || !r.ok() || in_flight_.front().correlation_id != id) {
    const Error error = MakeError(Code::kCorrupt, "broker " + ToString(endpoint_) +
                                                      ": an answer to no question that was asked");
    FailOldest(error);
    return Drop(error);
  }
  const std::shared_ptr<Exchange> exchange = in_flight_.front().exchange;
  in_flight_.pop_front();
  progress_ = std::chrono::steady_clock::now();
  if (!exchange) {
    const Status status = OnHandshake(frame);
    if (!status.ok()) return Drop(status.error());
  } else {
    const bool flexible = HasFlexibleResponseHeader(exchange->api, exchange->version);
    protocol::Reader header(frame, 0, flexible);
    header.Int32();
    header.SkipTags();
    exchange->body_at = frame.size() - header.remaining();
    exchange->frame = std::move(frame);
    failures_ = 0;
    problem_.clear();
    exchange->done.Set();
  }
  if (state_ != State::kReady) return;
  // Any answer shows that the broker is alive, and gives the next request its own time.
  patience_.Cancel();
  if (!in_flight_.empty()) {
    patience_.Start(env_.options.request_timeout, [this] { Drop(Silent("no answer within")); });
  }
  Pump();
}

Status Link::OnHandshake(const std::string& frame) {
  const bool versions_first = --handshakes_left_ == 1;
  if (versions_first) {
    protocol::Reader r(frame, ApiVersions::kApi.max_version, true);
    r.Int32();  // correlation id; this header has no tagged fields
    const auto versions = ApiVersions::Decode(r);
    // An old broker answers in an old version, so its error must be looked at before the rest.
    if (versions.error == ErrorCode::kUnsupportedVersion) {
      return MakeError(Code::kUnimplemented, "broker " + ToString(endpoint_) +
                                                 " is too old: Kafka 3.5 or later is needed");
    }
    if (Status status = r.Finish("ApiVersions"); !status.ok()) return status;
    if (versions.error != ErrorCode::kNone) return ToError(versions.error, "ApiVersions");
    self_.Learn(versions);
    return {};
  }
  protocol::Reader r(frame, Metadata::kApi.max_version, true);
  r.Int32();
  r.SkipTags();
  const auto metadata = Metadata::Decode(r);
  if (Status status = r.Finish("Metadata"); !status.ok()) return status;
  self_.cluster_id = KafkaClusterId(metadata.cluster_id);
  state_ = State::kReady;
  refusals_ = 0;
  env_.learned(metadata);
  return {};
}

void Link::Pump() {
  while (!waiting_.empty() && in_flight_.size() < env_.options.max_in_flight) {
    const std::shared_ptr<Exchange> exchange = std::move(waiting_.front());
    waiting_.pop_front();
    if (exchange->abandoned) continue;
    if (auto refusal = Refuse(*exchange)) {
      Finish(*exchange, std::move(*refusal));
      continue;
    }
    if (in_flight_.empty()) {
      patience_.Start(env_.options.request_timeout, [this] { Drop(Silent("no answer within")); });
    }
    exchange->sent = true;
    Transmit(exchange->api, exchange->version, exchange->encode, exchange);
  }
}

/// Picks the version, or tells why it must not be sent.
std::optional<Error> Link::Refuse(Exchange& exchange) const {
  const std::string broker = "broker " + ToString(endpoint_);
  if (mismatch() && !exchange.any_cluster) {
    return MakeError(Code::kFailedPrecondition, broker + " belongs to Kafka cluster " +
                                                    self_.cluster_id.get() + ", not to " +
                                                    env_.pinned->get() + ": nothing was sent");
  }
  if (exchange.needs_txn_version2 && self_.transaction_version < 2) {
    return MakeError(Code::kUnimplemented, broker + ": transaction.version is " +
                                               std::to_string(self_.transaction_version) +
                                               ", and a TV2 transaction cannot be ended below 2");
  }
  const auto found = self_.apis.find(static_cast<std::int16_t>(exchange.api.key));
  static constexpr ApiVersions::Range kNothing{0, 1, 0};
  const ApiVersions::Range& offered = found == self_.apis.end() ? kNothing : found->second;
  const std::int16_t low = std::max(exchange.min_version, offered.min_version);
  const std::int16_t high = std::min(exchange.max_version, offered.max_version);
  if (low > high) {
    return MakeError(Code::kUnimplemented, broker + " offers no version of " + exchange.api.name +
                                               " from " + std::to_string(exchange.min_version) +
                                               " to " + std::to_string(exchange.max_version));
  }
  exchange.version = high;
  return std::nullopt;
}

void Link::OnClosed(const Error& error) {
  // Too long an answer is the fault of the one question whose turn it was.
  if (error.code == Code::kResourceExhausted) FailOldest(error);
  Drop(error);
}

void Link::FailOldest(const Error& error) {
  if (in_flight_.empty() || !in_flight_.front().exchange) return;
  Finish(*in_flight_.front().exchange, error);
  in_flight_.pop_front();
}

void Link::Drop(const Error& cause) {
  Error error = cause;
  if (state_ == State::kReady) error.code = Code::kUnavailable;
  const bool versions_only = state_ == State::kHandshaking && handshakes_left_ == 1;
  if (versions_only && error.code == Code::kUnavailable && !env_.options.security.sasl) {
    error.message += " (a listener that wants a log-in does that: see security_protocol)";
  }
  const bool quiet_end = state_ == State::kReady && load() == 0;  // Brokers close idle connections.
  auto lost = std::exchange(in_flight_, {});
  auto unsent = std::exchange(waiting_, {});
  connection_.reset();
  patience_.Cancel();
  problem_ = error.message;
  if (quiet_end) {
    state_ = State::kIdle;
  } else {
    ++failures_;
    const Duration pause = PauseAfter(error);
    state_ = State::kPausing;
    pause_.Start(pause, [this] {
      state_ = State::kIdle;
      if (!waiting_.empty()) Connect();
    });
  }
  for (const Sent& sent : lost) {
    if (sent.exchange) Finish(*sent.exchange, error);
  }
  for (const auto& exchange : unsent) Finish(*exchange, error);
}

Error Link::Silent(const char* what) const {
  const Duration patience =
      state_ == State::kReady ? env_.options.request_timeout : env_.options.connect_timeout;
  return MakeError(Code::kUnavailable,
                   "broker " + ToString(endpoint_) + ": " + what + " " + FormatDuration(patience));
}

}  // namespace lockstep::wire
