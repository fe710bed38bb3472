#include "coordinator/resolver.h"

#include <utility>

#include "base/failpoint.h"

namespace lockstep::coordinator {

Resolver::Resolver(Executor& executor, Cluster& cluster, txn::PreparedParticipant participant,
                   Callback<txn::ParticipantOutcome> concluded)
    : executor_(executor), cluster_(cluster), concluded_(std::move(concluded)) {
  resolution_.participant = std::move(participant);
}

void Resolver::Start(Known known, std::optional<txn::OperatorOrder> order) {
  resolution_.order = std::move(order);
  // After a crash the cluster is not reached yet, and what it needs is not known before it is.
  resolution_.check_markers = cluster_.status().check_markers;
  switch (known) {
    case Known::kNothing:
      return Run(StartFromUnknown(resolution_));
    case Known::kBrokerCommitted:
      return Run(StartFromCommitted(resolution_));
  }
}

void Resolver::Hurry() {
  if (resolution_.phase != txn::ResolvePhase::kWaiting) return;
  executor_.Cancel(timer_);
  Feed(txn::WaitOver{});
}

void Resolver::Obey(txn::OperatorOrder order) {
  if (resolution_.phase == txn::ResolvePhase::kWaiting) executor_.Cancel(timer_);
  Feed(txn::OrderGiven{std::move(order)});
}

template <typename Event, typename Answer>
Callback<Answer> Resolver::Answered() {
  return [weak = weak_from_this(), &executor = executor_](Answer answer) {
    executor.Post([weak, answer = std::move(answer)]() mutable {
      if (const auto self = weak.lock()) self->Feed(Event{std::move(answer)});
    });
  };
}

void Resolver::Feed(const txn::ResolveEvent& event) {
  const std::string& tag = cluster_.name().get();
  if (std::holds_alternative<txn::EndTxnAnswered>(event)) {
    PassFailpoint(Failpoint::kResolverAfterEndTxn, tag);
  }
  // Known only now if the cluster was not reached when this started.
  resolution_.check_markers = cluster_.status().check_markers;
  Run(txn::Step(resolution_, event));
}

void Resolver::Run(const std::vector<txn::ResolveEffect>& effects) {
  const auto self = shared_from_this();  // Concluding may drop the last owner.
  for (const txn::ResolveEffect& effect : effects) {
    std::visit([this](const auto& e) { Run(e); }, effect);
  }
}

void Resolver::Run(const txn::AskDescribe&) {
  cluster_.Describe(resolution_.participant.name,
                    Answered<txn::Described, Result<txn::TxnDescription>>());
}

void Resolver::Run(const txn::SendEndTxn& send) {
  PassFailpoint(Failpoint::kResolverBeforeEndTxn, cluster_.name().get());
  cluster_.EndTxn(resolution_.participant.name, send.direction,
                  Answered<txn::EndTxnAnswered, txn::EndTxnAnswer>());
}

void Resolver::Run(const txn::ReadMarkers&) {
  cluster_.ReadMarkers(resolution_.participant,
                       Answered<txn::MarkersRead, Result<std::vector<txn::MarkerFound>>>());
}

void Resolver::Run(const txn::CheckMarkers&) {
  cluster_.CheckMarkers(resolution_.participant,
                        Answered<txn::MarkersChecked, Result<std::vector<txn::TopicPartition>>>());
}

void Resolver::Run(const txn::Wait& wait) {
  timer_ = executor_.PostAfter(wait.duration, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Feed(txn::WaitOver{});
  });
}

void Resolver::Run(const txn::Conclude& conclude) {
  PassFailpoint(Failpoint::kResolverConcluded, cluster_.name().get());
  concluded_(conclude.outcome);
}

}  // namespace lockstep::coordinator
