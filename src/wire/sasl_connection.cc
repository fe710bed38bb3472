#include "wire/sasl_connection.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "wire/protocol/sasl_messages.h"
#include "wire/sasl.h"

namespace lockstep::wire {
namespace {

/// Of our requests. The link above counts its own from 1.
constexpr std::int32_t kCorrelationId = -1;
/// When to log in again, of the session's lifetime: as Java's clients, but not at random, for there
/// are few connections.
constexpr double kRenewAt = 0.85;
constexpr Duration kShortestSession = std::chrono::seconds(1);

class SaslConnection : public Connection {
 public:
  SaslConnection(Io& io, std::string broker, const SaslConfig& config, std::string client_id,
                 Events events)
      : broker_(std::move(broker)),
        config_(config),
        client_id_(std::move(client_id)),
        events_(std::make_shared<Events>(std::move(events))),
        renewal_(io) {}

  void Open(const std::function<std::unique_ptr<Connection>(Events)>& open) {
    below_ = open({.opened = [this] { LogIn(); },
                   .received = [this](std::string frame) { OnFrame(std::move(frame)); },
                   .closed = [this](Error error) { End(std::move(error)); }});
  }

  void Send(const std::string& frame) override {
    if (client_ != nullptr) {
      held_.push_back(frame);
    } else {
      below_->Send(frame);
    }
  }

 private:
  /// From here on until LoggedIn, what is sent waits: the broker would take it for an answer.
  void LogIn() {
    auto client = MakeSaslClient(config_);
    if (!client.ok()) return Fail(client.error().code, client.error().message);
    client_ = *std::move(client);
    shaking_hands_ = true;
    protocol::SaslHandshake request;
    request.mechanism = std::string(Name(config_.mechanism));
    Ask(request);
  }

  template <typename Request>
  void Ask(const Request& request) {
    constexpr auto kVersion = Request::kApi.max_version;
    protocol::Writer w(kVersion, kVersion >= Request::kApi.flexible_from);
    request.Encode(w);
    below_->Send(protocol::EncodeHeader(Request::kApi, kVersion, kCorrelationId, client_id_) +
                 w.Take());
  }

  void OnFrame(std::string frame) {
    protocol::Reader r(frame, 0, false);
    if (client_ != nullptr && r.Int32() == kCorrelationId && r.ok()) {
      return shaking_hands_ ? OnHandshake(r) : OnAuthenticate(frame);
    }
    const auto events = events_;  // An event may destroy this.
    events->received(std::move(frame));
  }

  void OnHandshake(protocol::Reader& r) {
    const auto response = protocol::SaslHandshake::Decode(r);
    if (Status status = r.Finish("SaslHandshake"); !status.ok()) {
      return Fail(Code::kCorrupt, status.error().message);
    }
    if (response.error == ErrorCode::kUnsupportedSaslMechanism) {
      std::string offered;
      for (const std::string& mechanism : response.mechanisms) {
        offered += (offered.empty() ? "" : ", ") + mechanism;
      }
      return Fail(Code::kPermissionDenied, "it does not offer this mechanism, only " + offered +
                                               ": set sasl.mechanism to one of them");
    }
    if (response.error == ErrorCode::kIllegalSaslState) {
      return Fail(Code::kPermissionDenied,
                  "this listener takes no log-in: set security_protocol to PLAINTEXT or SSL");
    }
    if (response.error != ErrorCode::kNone) {
      return Fail(Code::kPermissionDenied, wire::Name(response.error));
    }
    shaking_hands_ = false;
    Ask(protocol::SaslAuthenticate{client_->First()});
  }

  void OnAuthenticate(const std::string& frame) {
    protocol::Reader r(frame, protocol::SaslAuthenticate::kApi.max_version, true);
    r.Int32();
    r.SkipTags();
    const auto response = protocol::SaslAuthenticate::Decode(r);
    if (Status status = r.Finish("SaslAuthenticate"); !status.ok()) {
      return Fail(Code::kCorrupt, status.error().message);
    }
    if (response.error != ErrorCode::kNone) {
      return Fail(Code::kPermissionDenied, response.error_message.empty()
                                               ? wire::Name(response.error)
                                               : response.error_message);
    }
    auto next = client_->Next(response.bytes);
    if (!next.ok()) return Fail(next.error().code, next.error().message);
    if (*next) return Ask(protocol::SaslAuthenticate{**std::move(next)});
    LoggedIn(std::chrono::milliseconds(response.session_lifetime_ms));
  }

  void LoggedIn(std::chrono::milliseconds lifetime) {
    client_.reset();
    if (lifetime.count() > 0) {
      const auto share = std::chrono::duration_cast<Duration>(lifetime * kRenewAt);
      renewal_.Start(std::max<Duration>(share, kShortestSession), [this] { LogIn(); });
    }
    for (const std::string& frame : std::exchange(held_, {})) below_->Send(frame);
    if (std::exchange(opened_, true)) return;
    const auto events = events_;
    events->opened();
  }

  void Fail(Code code, const std::string& why) {
    const std::string who = config_.username.empty() ? "" : " as '" + config_.username + "'";
    End(MakeError(code, "broker " + broker_ + ": log-in" + who + " by " +
                            std::string(Name(config_.mechanism)) + ": " + why));
  }

  void End(Error error) {
    renewal_.Cancel();
    below_.reset();
    const auto events = events_;
    events->closed(std::move(error));
  }

  const std::string broker_;
  const SaslConfig config_;
  const std::string client_id_;
  const std::shared_ptr<Events> events_;
  Timer renewal_;
  std::unique_ptr<SaslClient> client_;  // While a log-in runs.
  bool shaking_hands_ = false;          // Its first question is not answered yet.
  bool opened_ = false;
  std::vector<std::string> held_;
  std::unique_ptr<Connection> below_;
};

}  // namespace

std::unique_ptr<Connection> OpenSaslConnection(
    Io& io, std::string broker, const SaslConfig& config, std::string client_id,
    const std::function<std::unique_ptr<Connection>(Connection::Events)>& open,
    Connection::Events events) {
  auto connection = std::make_unique<SaslConnection>(io, std::move(broker), config,
                                                     std::move(client_id), std::move(events));
  connection->Open(open);
  return connection;
}

}  // namespace lockstep::wire
