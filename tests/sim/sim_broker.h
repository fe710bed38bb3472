#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "fake_kafka/fake_kafka.h"
#include "random.h"
#include "scheduler.h"
#include "sim_options.h"
#include "trace.h"

namespace lockstep::sim {

class Oracle;
using fake_kafka::FakeKafka;

/// Clients try again what was answered so.
bool AsksForPatience(fake_kafka::KafkaError error);

/// One cluster of the simulated world and the network to it: delays, losses, late and repeated
/// requests, outages, markers that take their time. It outlives every process that talks to it, and
/// so do the requests on their way.
class SimBroker {
 public:
  SimBroker(ClusterName name, const SimOptions& options, Scheduler& scheduler, Random& random,
            Trace& trace, Oracle& oracle);

  const ClusterName& name() const { return name_; }
  FakeKafka& kafka() { return kafka_; }
  const FakeKafka& kafka() const { return kafka_; }
  /// The broker's clock as it is now, even while it is away.
  std::int64_t ClockMs() const;
  bool may_lose_markers() const { return options_.loses_markers; }

  /// Who sends: the wire client's requests may be repeated by the network's troubles.
  /// A reliable one's are neither lost nor late on their way.
  enum class Sender { kLane, kWire, kReliable };

  /// One request over the network. `done` gets the answer, or nothing if none came within
  /// `timeout`: then the request may have been carried out, or may be later. `what` is for the
  /// trace.
  template <typename R>
  void Call(Sender sender, const std::string& what, Life caller, Duration timeout,
            std::function<R(FakeKafka&)> request, std::function<void(std::optional<R>)> done) {
    auto pending = std::make_shared<std::function<void(std::optional<R>)>>(std::move(done));
    const auto answer = [pending](std::optional<R> result) {
      if (auto once = std::exchange(*pending, nullptr)) once(std::move(result));
    };
    scheduler_.After(timeout, caller, [this, what, pending, answer] {
      if (*pending != nullptr) Note(what, "unanswered");
      answer(std::nullopt);
    });
    Send(sender, what, [this, what, caller, request = std::move(request), answer](bool refused) {
      std::optional<R> result;
      if (!refused) {
        result = request(kafka_);
        Note(what, Show(*result));
        AfterChange();
        if (Lost()) return;
      }
      scheduler_.After(Delay(), caller, [answer, result = std::move(result)] { answer(result); });
    });
  }

  /// How long a lane's thread takes to pass on a YES: mostly no time at all.
  Duration VoteDelay();
  /// Called after each step of the world: troubles that may begin now.
  void MaybeTrouble();
  /// The cluster goes away for a while.
  void StartOutage();
  /// No more troubles from now on; those that last end.
  void CalmDown();

 private:
  enum class State { kUp, kRefusing, kSilent, kPaused };

  void Note(const std::string& what, const std::string& how);
  /// Decides the request's fate; `carry_out(true)` means: refused, nothing happened.
  void Send(Sender sender, const std::string& what, std::function<void(bool)> carry_out);
  void Arrive(const std::function<void(bool)>& carry_out);
  static std::string Show(fake_kafka::KafkaError error) { return Name(error); }
  static std::string Show(const fake_kafka::Appended& answer);
  static std::string Show(const fake_kafka::ProducerAnswer& answer);
  static std::string Show(const txn::TxnDescription& description);
  template <typename R>
  static std::string Show(const R&) {
    return "answered";
  }
  bool Lost() { return !calm_ && random_.Chance(options_.lose_answer); }
  Duration Delay();
  void AdvanceClock();
  void AfterChange();
  void WriteSomeMarker();
  void Tick();
  void EndOutage();
  txn::TopicPartition SomePartition();
  void LoseLeader(const txn::TopicPartition& partition);
  void OpenForeign(const txn::TopicPartition& partition);

  const ClusterName name_;
  const SimOptions& options_;
  Scheduler& scheduler_;
  Random& random_;
  Trace& trace_;
  Oracle& oracle_;
  FakeKafka kafka_;
  std::int64_t clock_offset_ms_;  // Brokers' clocks are not ours.
  State state_ = State::kUp;
  bool calm_ = false;
  int foreign_ = 0;                          // Transactions of other applications so far.
  bool marker_is_due_ = false;               // An event is under way that writes one.
  std::vector<std::function<void()>> held_;  // Requests that wait for a paused broker.
};

}  // namespace lockstep::sim
