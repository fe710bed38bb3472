#include "oracle.h"

#include <algorithm>
#include <chrono>

#include "sim_broker.h"

namespace lockstep::sim {
namespace {

using coordinator::TxnView;
using txn::GlobalTxnState;
using txn::ParticipantOutcome;

/// The tag of a record, or of an offset record: its last word.
std::string TagOf(const std::string& value) { return value.substr(value.rfind(' ') + 1); }

std::string Show(const fake_kafka::EndedTransaction& ended) {
  return ended.transactional_id + " (" + std::to_string(ended.producer.id) + ", " +
         std::to_string(ended.producer.epoch) + ")";
}

}  // namespace

void Oracle::Fail(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void Oracle::Watch(SimBroker& broker) { brokers_[broker.name()] = &broker; }

void Oracle::Check() const {
  if (!violation_.empty()) throw Violation(violation_);
}

// ---- Clients -----------------------------------------------------------------------------------

void Oracle::OnBegan(const GlobalTxnId& id) {
  if (!txns_.try_emplace(id).second) Fail("transaction id " + id.get() + " was given twice");
}

void Oracle::OnAdded(const GlobalTxnId& id, const ClusterName& cluster, std::uint64_t sequence,
                     const std::vector<std::string>& tags) {
  Txn& txn = txns_.at(id);
  if (!txn.sequences.insert(sequence).second) return;  // A repeated call.
  txn.branches[cluster].expected.insert(tags.begin(), tags.end());
}

void Oracle::OnWritten(const GlobalTxnId& id, const ClusterName& cluster,
                       const std::vector<std::string>& tags) {
  txns_.at(id).enlisted = true;
  txns_.at(id).branches[cluster].expected.insert(tags.begin(), tags.end());
}

GlobalTxnId Oracle::TxnOfTag(const std::string& tag) const {
  const std::string name = tag.substr(0, tag.find('/'));
  const auto call = run_of_call_.find(name);
  return call == run_of_call_.end() ? GlobalTxnId(name) : call->second;
}

void Oracle::OnSubmitted(const txn::ClientKey& key, const std::string& call, const Work& work,
                         const Result<coordinator::Submitted>& answer) {
  if (!answer.ok()) {
    if (answer.error().code == Code::kNotFound && !options_.forgets) {
      Fail(key.key + " is forgotten, and nothing was: " + answer.error().message);
    }
    return;
  }
  if (!answer->repeated) return OnRun(key, call, work, answer->id);
  Key& known = keys_[key.key];
  const auto run = known.runs.find(answer->id);
  if (run == known.runs.end()) {
    return Fail(key.key + " is answered by " + answer->id.get() + ", which is no run of it");
  }
  if (known.effect && *known.effect != answer->id) {
    Fail(key.key + " is answered by " + answer->id.get() + ", and its effect is " +
         known.effect->get());
  }
  if ((run->second == key) == answer->other_work) {
    Fail(key.key + (answer->other_work ? " is refused its own work" : " is lent to other work"));
  }
  ++answered_by_earlier_run_;
}

void Oracle::OnRun(const txn::ClientKey& key, const std::string& call, const Work& work,
                   const GlobalTxnId& id) {
  Key& known = keys_[key.key];
  if (known.effect) {
    Fail(key.key + " runs again as " + id.get() + ", and had its effect as " + known.effect->get());
  }
  known.runs[id] = key;
  key_of_run_[id] = key.key;
  run_of_call_.insert_or_assign(call, id);
  OnBegan(id);
  for (const auto& [cluster, tags] : work) txns_.at(id).branches[cluster].expected = tags;
}

void Oracle::OnAnswer(const GlobalTxnId& id, const Result<TxnView>& answer) {
  Txn& txn = txns_.at(id);
  if (answer.ok()) return CheckTold(id, txn, *answer);
  // An error is never an outcome, except for the one that says that it is forgotten.
  if (answer.error().code == Code::kNotFound && !options_.forgets) {
    Fail(id.get() + " is not found, and nothing was forgotten: " + answer.error().message);
  }
}

void Oracle::CheckTold(const GlobalTxnId& id, Txn& txn, const TxnView& view) {
  const std::string name = id.get() + " is told " + std::string(Name(view.state));
  switch (view.state) {
    case GlobalTxnState::kActive:
    case GlobalTxnState::kPreparing:
      if (txn.told_committing || txn.told_committed || txn.told_aborted || txn.told_heuristic) {
        Fail(name + " after its decision was told");
      }
      return;
    case GlobalTxnState::kCommitting:
      txn.told_committing = true;
      if (!txn.decided) Fail(name + ", and no durable decision says so");
      if (txn.told_aborted) Fail(name + " after ABORTED");
      return;
    case GlobalTxnState::kCommitted:
      txn.told_committed = true;
      if (txn.told_aborted || txn.told_heuristic) Fail(name + " after another outcome");
      return CheckCommittedView(id, txn);
    case GlobalTxnState::kAborting:
    case GlobalTxnState::kAborted:
      txn.told_aborted = true;
      if (txn.decided) Fail(name + ", and a durable decision says COMMIT");
      if (txn.told_committing || txn.told_committed || txn.told_heuristic) {
        Fail(name + " after COMMIT was told");
      }
      return;
    case GlobalTxnState::kHeuristic:
      txn.told_heuristic = true;
      if (txn.told_aborted || txn.told_committed) Fail(name + " after another outcome");
      return CheckHeuristicView(id, txn, view);
  }
}

void Oracle::CheckCommittedView(const GlobalTxnId& id, const Txn& txn) {
  if (!txn.decided) Fail(id.get() + " is told COMMITTED, and no durable decision says so");
  for (const auto& [cluster, branch] : txn.branches) {
    if (branch.expected.empty()) continue;
    if (!branch.committed) {
      Fail(id.get() + " is told COMMITTED, and " + cluster.get() + " has not committed it");
    }
    // Where the coordinator's word is not enough, COMMITTED means visible. Elsewhere the markers
    // follow, and CheckQuiet sees that they did.
    if (options_.loses_markers && branch.visible != branch.expected) {
      Fail(id.get() + " is told COMMITTED, and is not visible on " + cluster.get());
    }
  }
}

void Oracle::CheckHeuristicView(const GlobalTxnId& id, const Txn& txn, const TxnView& view) {
  if (!txn.decided) Fail(id.get() + " is told HEURISTIC, and was never decided");
  bool torn = false;
  for (const coordinator::BranchView& told : view.branches) {
    const auto found = txn.branches.find(told.cluster);
    if (found == txn.branches.end()) continue;
    const Branch& branch = found->second;
    torn |= told.outcome == ParticipantOutcome::kAborted;
    if (told.outcome == ParticipantOutcome::kCommitted && !branch.committed &&
        !branch.expected.empty()) {
      Fail(id.get() + ": told committed on " + told.cluster.get() + ", and it is not");
    }
    if (told.outcome == ParticipantOutcome::kAborted && !branch.decided_is_aborted()) {
      Fail(id.get() + ": told aborted on " + told.cluster.get() + ", and it is not");
    }
    torn |= told.outcome == ParticipantOutcome::kUnknown;
    // Where nothing is ever deleted, there is always evidence.
    if (told.outcome == ParticipantOutcome::kUnknown && options_.delete_records == 0) {
      Fail(id.get() + ": told unknown on " + told.cluster.get() + ", and it can be known");
    }
  }
  if (!torn) Fail(id.get() + " is told HEURISTIC, and no branch is told other than committed");
}

// ---- The disk ----------------------------------------------------------------------------------

void Oracle::OnDecisionWritten(const txn::Decision& decision) {
  ++decisions_;
  decided_ += decision.members.size();
  if (decision.members.size() > 1) shared_ += decision.members.size();
  for (const auto& participant : decision.participants) {
    CheckOpen(participant.prepared);
    const txn::ParticipantName& name = participant.prepared.name;
    ++in_flight_[{name.cluster, name.transactional_id}];
  }
}

void Oracle::CheckOpen(const txn::PreparedParticipant& participant) {
  const txn::ParticipantName& name = participant.name;
  SimBroker& broker = *brokers_.at(name.cluster);
  const txn::TxnDescription now = broker.kafka().DescribeTransaction(name.transactional_id.get());
  const std::string what = "COMMIT is decided about " + name.transactional_id.get();
  if (now.state != txn::KafkaTxnState::kOngoing || now.producer_id != name.producer_id ||
      now.producer_epoch != name.producer_epoch) {
    Fail(what + ", which is " + std::string(Name(now.state)) + " already");
  }
  const std::int64_t left = now.start_time_ms + now.timeout_ms - broker.ClockMs();
  const auto margin =
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.deadline_margin).count();
  if (left + 1 < margin) {  // Brokers round to whole milliseconds.
    Fail(what + ", for which only " + std::to_string(left) + " ms are left");
  }
}

void Oracle::OnDecisionDurable(const txn::Decision& decision) {
  for (const auto& participant : decision.participants) {
    const txn::ParticipantName& name = participant.prepared.name;
    int& in_flight = in_flight_[{name.cluster, name.transactional_id}];
    in_flight = std::max(0, in_flight - 1);  // One that recovery found was not counted.
    if (participant.outcome == ParticipantOutcome::kPending) {
      ++pending_[{name.cluster, name.transactional_id}];
    }
  }
  for (std::uint32_t i = 0; i < decision.members.size(); ++i) OnMemberDecided(decision, i);
  for (const GlobalTxnId& member : decision.members) {
    Txn& txn = txns_.at(member);
    txn.decided = true;
    if (txn.told_aborted) Fail(member.get() + " was told ABORTED, and is decided COMMIT");
    for (const auto& participant : decision.participants) {
      const txn::ParticipantName& name = participant.prepared.name;
      Branch& branch = txn.branches[name.cluster];
      branch.decided = AttemptOf(name);
      const auto aborted = branch.aborted.find(*branch.decided);
      if (aborted != branch.aborted.end() && !aborted->second) {
        Fail(member.get() + " is decided COMMIT after we aborted it on " + name.cluster.get());
      }
    }
  }
}

void Oracle::OnMemberDecided(const txn::Decision& decision, std::uint32_t member) {
  const GlobalTxnId& id = decision.members[member];
  const auto name = key_of_run_.find(id);
  if (name == key_of_run_.end()) return;
  Key& known = keys_.at(name->second);
  if (known.effect && *known.effect != id) {
    Fail(name->second + " has two effects: " + known.effect->get() + " and " + id.get());
  }
  known.effect = id;
  const txn::MemberKey expected{member, known.runs.at(id)};
  if (std::ranges::find(decision.keys, expected) == decision.keys.end()) {
    Fail(id.get() + " is decided without its key " + name->second);
  }
}

void Oracle::OnCompletionDurable(const txn::Decision& decision, std::uint32_t participant) {
  const txn::ParticipantName& name = decision.participants.at(participant).prepared.name;
  --pending_[{name.cluster, name.transactional_id}];
}

void Oracle::OnLogOpened() {
  in_flight_.clear();
  pending_.clear();
}

Oracle::Attempt Oracle::AttemptOf(const txn::ParticipantName& name) {
  return {name.transactional_id.get(), name.producer_id.get(), name.producer_epoch.get(),
          name.start_time_ms};
}

Oracle::Attempt Oracle::AttemptOf(const fake_kafka::EndedTransaction& ended) {
  return {ended.transactional_id, ended.producer.id, ended.producer.epoch, ended.start_time_ms};
}

std::map<GlobalTxnId, std::set<std::string>> Oracle::ByTxn(
    const std::set<std::string>& tags) const {
  std::map<GlobalTxnId, std::set<std::string>> by_txn;
  for (const std::string& tag : tags) by_txn[TxnOfTag(tag)].insert(tag);
  return by_txn;
}

// ---- The brokers -------------------------------------------------------------------------------

void Oracle::OnInitProducerId(const SimBroker& broker, const std::string& transactional_id) {
  const Participant key{broker.name(), TransactionalId(transactional_id)};
  const auto busy = [&](const std::map<Participant, int>& in) {
    const auto found = in.find(key);
    return found != in.end() && found->second > 0;
  };
  if (busy(pending_) || busy(in_flight_)) {
    Fail("InitProducerId(" + transactional_id + ") on " + broker.name().get() +
         " while a decision about it is pending or in flight");
  }
}

void Oracle::OnBrokerStep(SimBroker& broker) {
  for (const auto& ended : broker.kafka().TakeEnded()) OnEnded(broker, ended);
  for (const auto& [partition, log] : broker.kafka().partitions()) {
    std::int64_t& at = read_up_to_[&log];
    if (at >= log.last_stable_offset()) continue;
    const auto values = log.ReadCommitted(at);
    at = log.last_stable_offset();
    for (const std::string& value : values) {
      if (value != kForeign) OnVisible(broker, TagOf(value));
    }
  }
}

void Oracle::OnEnded(const SimBroker& broker, const fake_kafka::EndedTransaction& ended) {
  std::set<std::string> tags;
  for (const auto& [partition, values] : ended.values) {
    for (const std::string& value : values) {
      if (value != kForeign) tags.insert(TagOf(value));
    }
  }
  if (tags.empty()) return;
  if (ended.commit) {
    OnCommitted(broker, ended, tags);
  } else {
    OnAborted(broker, ended, tags);
  }
}

void Oracle::OnCommitted(const SimBroker& broker, const fake_kafka::EndedTransaction& ended,
                         const std::set<std::string>& tags) {
  for (const auto& [id, of_txn] : ByTxn(tags)) {
    Txn& txn = txns_.at(id);
    Branch& branch = txn.branches[broker.name()];
    const std::string what = broker.name().get() + " commits " + Show(ended) + " with " + id.get();
    if (!txn.decided) Fail(what + ", and nobody decided so");
    if (of_txn != branch.expected) Fail(what + ", and it is not exactly that transaction's work");
    if (branch.committed) Fail(what + " a second time");
    if (branch.decided != AttemptOf(ended)) Fail(what + ", and another attempt was decided");
    branch.committed = true;
  }
}

void Oracle::OnAborted(const SimBroker& broker, const fake_kafka::EndedTransaction& ended,
                       const std::set<std::string>& tags) {
  const bool timed_out = ended.cause == fake_kafka::EndedTransaction::Cause::kTimeout;
  for (const auto& [id, of_txn] : ByTxn(tags)) {
    Branch& branch = txns_.at(id).branches[broker.name()];
    branch.aborted[AttemptOf(ended)] = timed_out;
    if (branch.decided_is_aborted() && !timed_out) {
      Fail(broker.name().get() + " aborts " + Show(ended) + " with " + id.get() +
           " at our request, and it is decided COMMIT");
    }
  }
}

void Oracle::OnVisible(const SimBroker& broker, const std::string& tag) {
  const GlobalTxnId id = TxnOfTag(tag);
  Txn& txn = txns_.at(id);
  Branch& branch = txn.branches[broker.name()];
  if (!txn.decided) Fail(tag + " is visible, and nobody decided so");
  if (txn.told_aborted) Fail(tag + " is visible, and its client was told ABORTED");
  if (!branch.expected.contains(tag)) Fail(tag + " is visible, and was not accepted");
  if (!branch.visible.insert(tag).second) Fail(tag + " is visible twice");
}

// ---- With the environment quiet -----------------------------------------------------------------

void Oracle::CheckQuiet(const std::map<GlobalTxnId, Result<TxnView>>& final_views) {
  for (const auto& [id, txn] : txns_) {
    const auto found = final_views.find(id);
    if (found == final_views.end()) {
      Fail(id.get() + " has no final answer");
    } else {
      CheckQuietTxn(id, txn, found->second);
    }
  }
  for (const auto& [name, broker] : brokers_) CheckQuietBroker(*broker);
  Check();
}

void Oracle::CheckQuietTxn(const GlobalTxnId& id, const Txn& txn, const Result<TxnView>& view) {
  bool torn = false;
  for (const auto& [cluster, branch] : txn.branches) {
    if (branch.committed && !txn.decided) Fail(id.get() + " is committed, and was never decided");
    if (branch.committed && branch.visible != branch.expected) {
      Fail(id.get() + " is committed on " + cluster.get() + ", and not all of it is visible");
    }
    if (txn.decided && !branch.expected.empty() && !branch.committed) torn = true;
  }
  if (!view.ok()) return;  // Forgotten: OnAnswer saw whether it may be.
  const GlobalTxnState state = view->state;
  const GlobalTxnState due = !txn.decided ? GlobalTxnState::kAborted
                             : torn       ? GlobalTxnState::kHeuristic
                                          : GlobalTxnState::kCommitted;
  // Evidence may be gone: then it is told that nobody knows.
  if (state == GlobalTxnState::kHeuristic && options_.delete_records > 0 && txn.decided) return;
  if (state != due) {
    Fail(id.get() + " is " + std::string(Name(state)) + " in the end, and must be " +
         std::string(Name(due)));
  }
}

void Oracle::CheckQuietBroker(SimBroker& broker) {
  for (const auto& listed : broker.kafka().ListTransactions()) {
    if (listed.state == txn::KafkaTxnState::kOngoing ||
        listed.state == txn::KafkaTxnState::kPrepareCommit ||
        listed.state == txn::KafkaTxnState::kPrepareAbort) {
      Fail(listed.transactional_id + " is " + std::string(Name(listed.state)) + " on " +
           broker.name().get() + " although all is quiet");
    }
  }
  for (const auto& [partition, log] : broker.kafka().partitions()) {
    if (log.last_stable_offset() == log.high_watermark()) continue;
    Fail("readers of " + ToString(partition) + " on " + broker.name().get() + " hang at " +
         std::to_string(log.last_stable_offset()));
  }
}

std::vector<GlobalTxnId> Oracle::Begun() const {
  std::vector<GlobalTxnId> ids;
  for (const auto& [id, txn] : txns_) ids.push_back(id);
  return ids;
}

std::vector<txn::ClientKey> Oracle::KeysWithEffect() const {
  std::vector<txn::ClientKey> keys;
  for (const auto& [name, key] : keys_) {
    if (key.effect) keys.push_back(key.runs.at(*key.effect));
  }
  return keys;
}

Oracle::Counts& Oracle::Counts::operator+=(const Counts& more) {
  begun += more.begun;
  committed += more.committed;
  heuristic += more.heuristic;
  keys += more.keys;
  run_again += more.run_again;
  answered_by_earlier_run += more.answered_by_earlier_run;
  enlisted_committed += more.enlisted_committed;
  enlisted_aborted += more.enlisted_aborted;
  decided += more.decided;
  shared += more.shared;
  return *this;
}

Oracle::Counts Oracle::counts() const {
  Counts counts;
  counts.decided = decided_;
  counts.shared = shared_;
  for (const auto& [name, key] : keys_) {
    ++counts.keys;
    if (key.runs.size() > 1) ++counts.run_again;
  }
  counts.answered_by_earlier_run = answered_by_earlier_run_;
  for (const auto& [id, txn] : txns_) {
    ++counts.begun;
    if (txn.told_committed) ++counts.committed;
    if (txn.told_heuristic) ++counts.heuristic;
    if (txn.enlisted && txn.told_committed) ++counts.enlisted_committed;
    if (txn.enlisted && txn.told_aborted) ++counts.enlisted_aborted;
  }
  return counts;
}

}  // namespace lockstep::sim
