#pragma once

#include <memory>
#include <optional>

#include "coordinator/ports.h"
#include "txn/resolve.h"

namespace lockstep::coordinator {

/// Finds out what became of one decided participant, and ends it if it is still open: runs a
/// txn::Resolution against the participant's cluster until it concludes. Lives on the executor;
/// calls `concluded` there, once. Destroying it stops it: answers on their way are ignored.
class Resolver : public std::enable_shared_from_this<Resolver> {
 public:
  enum class Known : std::uint8_t {
    kNothing,          ///< Ask the broker first.
    kBrokerCommitted,  ///< The lane's own commit was answered OK.
  };

  Resolver(Executor& executor, Cluster& cluster, txn::PreparedParticipant participant,
           Callback<txn::ParticipantOutcome> concluded);
  /// `order`: an operator's, given before a crash.
  void Start(Known known, std::optional<txn::OperatorOrder> order = std::nullopt);

  /// Ends a wait early: something changed.
  void Hurry();

  /// An operator's order, durable: see txn::OrderGiven. May conclude at once.
  void Obey(txn::OperatorOrder order);

  const txn::Resolution& resolution() const { return resolution_; }

 private:
  void Feed(const txn::ResolveEvent& event);
  void Run(const std::vector<txn::ResolveEffect>& effects);
  void Run(const txn::AskDescribe&);
  void Run(const txn::SendEndTxn& send);
  void Run(const txn::ReadMarkers&);
  void Run(const txn::CheckMarkers&);
  void Run(const txn::Wait& wait);
  void Run(const txn::Conclude& conclude);
  /// Wraps a cluster's answer: back to the executor, and only if this still lives.
  template <typename Event, typename Answer>
  Callback<Answer> Answered();

  Executor& executor_;
  Cluster& cluster_;
  Callback<txn::ParticipantOutcome> concluded_;
  txn::Resolution resolution_;
  Executor::TimerId timer_ = 0;
};

}  // namespace lockstep::coordinator
