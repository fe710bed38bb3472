#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "coordinator/coordinator.h"
#include "coordinator/views.h"

/// Transactions of clients' own producers: who may begin one, as a branch of which global one.
namespace lockstep::coordinator {
namespace {

using txn::AbortReason;
using txn::GlobalTxnState;
using txn::KafkaTxnState;

// An abort whose broker does not answer is left to the producer's owner, who is told so.
constexpr Duration kAbortTime = std::chrono::seconds(5);

Error ReinitRequired(const EnlistedId& producer) {
  return MakeError(Code::kFenced,
                   "the end of the latest transaction of " + ToString(producer) +
                       " is not certain to be over: close the producer, register, and make a new "
                       "one");
}

}  // namespace

std::string Coordinator::RegistrationPrefix(const RecoveredLog& log) {
  return log.log_id.get() + "-" + std::to_string(log.incarnation.get()) + "-";
}

EnlistedParticipant::Ports Coordinator::EnlistedPorts(Cluster& cluster) {
  return {executor_, clock_, log_, enlistments_, cluster};
}

void Coordinator::WhenFree(const EnlistedId& producer, MonoTime give_up, std::function<void()> then,
                           std::function<void()> late) {
  // Whichever comes first cancels the other.
  const auto wait = std::make_shared<Enlistments::WaitId>();
  const auto timer =
      executor_.PostAfter(give_up - clock_.Now(), [this, producer, wait, late = std::move(late)] {
        enlistments_.StopWaiting(producer, *wait);
        late();
      });
  *wait = enlistments_.WhenFree(producer, [this, timer, then = std::move(then)] {
    executor_.Cancel(timer);
    executor_.Post(then);
  });
}

// ---- RegisterProducer ---------------------------------------------------------------------------

void Coordinator::RegisterProducer(ClusterName cluster, TransactionalId id,
                                   txn::EndTxnProtocol protocol, Callback<Result<Registered>> done,
                                   std::string owner) {
  Post(
      [this, producer = EnlistedId{std::move(cluster), std::move(id)}, protocol,
       owner = std::move(owner), done] {
        if (FindCluster(producer.cluster) == nullptr) {
          return done(UnknownCluster(producer.cluster, clusters_));
        }
        if (Status admitted = CheckAdmission(); !admitted.ok()) return done(admitted.error());
        if (Enlistments::Registration* before = enlistments_.FindProducer(producer)) {
          const GlobalTxnId txn = before->txn;
          enlistments_.Void(producer);
          if (const auto found = open_.find(txn); found != open_.end()) {
            AbortOpen(found->second, {AbortReason::kProducerFenced, producer.cluster,
                                      ToString(producer) + " was registered anew", true});
          }
        }
        Register(producer, protocol, owner, done);
      },
      done);
}

void Coordinator::Register(const EnlistedId& producer, txn::EndTxnProtocol protocol,
                           const std::string& owner, const Callback<Result<Registered>>& done) {
  if (failed_) return done(*failed_);
  if (enlistments_.held(producer) && !Planted(PlantedBug::kRegisterAtOnce)) {
    return WhenFree(
        producer, clock_.Now() + options_.prepare_timeout,
        [this, producer, protocol, owner, done] { Register(producer, protocol, owner, done); },
        [producer, done] { done(Unfinished(producer)); });
  }
  const ClusterStatus status = FindCluster(producer.cluster)->status();
  // Connecting: its transaction.version is not known yet.
  if (status.kafka_cluster_id.get().empty() || status.state == ClusterState::kConnecting ||
      status.state == ClusterState::kMismatch) {
    return done(MakeError(Code::kUnavailable, "cluster '" + producer.cluster.get() + "' is " +
                                                  std::string(Name(status.state)) + ": " +
                                                  status.problem));
  }
  if (status.transaction_version < 2) protocol = txn::EndTxnProtocol::kTv1;
  const Enlistments::Registration& made = enlistments_.Register(producer, protocol, owner);
  done(Registered{made.id, made.protocol});
}

// ---- Enlist -------------------------------------------------------------------------------------

struct Coordinator::Enlisting {
  GlobalTxnId txn;
  std::string registration;
  std::optional<ToldProducer> told;
  Callback<Status> done;
};

void Coordinator::Enlist(GlobalTxnId id, std::string registration, std::optional<ToldProducer> told,
                         Callback<Status> done) {
  Post([this, enlisting = std::make_shared<Enlisting>(Enlisting{
                  std::move(id), std::move(registration), told, done})] { TryEnlist(enlisting); },
       done);
}

Status Coordinator::CheckEnlist(const OpenTxn& txn,
                                const Enlistments::Registration& registration) const {
  const ClusterName& cluster = registration.producer.cluster;
  if (!txn.streams.empty()) {
    return MakeError(Code::kFailedPrecondition,
                     "more than limits.batch_bytes of the transaction is written already: enlist "
                     "producers before that");
  }
  if (txn.work.contains(cluster) || txn.enlisted.contains(cluster)) return HasBranch(cluster);
  return CheckFree(registration);
}

Status Coordinator::CheckFree(const Enlistments::Registration& registration) const {
  if (registration.reinit_required && !Planted(PlantedBug::kReinitNotEnforced)) {
    return ReinitRequired(registration.producer);
  }
  if (Planted(PlantedBug::kEnlistWhileUnfinished)) return {};
  const auto other = open_.find(registration.txn);
  if (other != open_.end() && (other->second.view.state == GlobalTxnState::kActive ||
                               other->second.view.state == GlobalTxnState::kPreparing)) {
    return MakeError(Code::kFailedPrecondition,
                     ToString(registration.producer) + " is enlisted in transaction '" +
                         registration.txn.get() + "', which is neither committed nor aborted");
  }
  return {};
}

void Coordinator::TryEnlist(const std::shared_ptr<Enlisting>& enlisting) {
  if (failed_) return enlisting->done(*failed_);
  const auto found = open_.find(enlisting->txn);
  if (found == open_.end()) return enlisting->done(NotOpen(enlisting->txn));
  OpenTxn& txn = found->second;
  if (txn.view.state != GlobalTxnState::kActive) {
    return enlisting->done(NotActive(txn.view.state));
  }
  Enlistments::Registration* registration = enlistments_.Find(enlisting->registration, txn.owner);
  if (registration == nullptr) {
    return enlisting->done(
        NotRegistered(enlisting->registration, RegistrationPrefix(log_.recovered())));
  }
  const auto enlisted = txn.enlisted.find(registration->producer.cluster);
  if (enlisted != txn.enlisted.end() && enlisted->second->registration() == registration->id) {
    return enlisting->done({});  // A repeated call.
  }
  if (Status may = CheckEnlist(txn, *registration); !may.ok()) return enlisting->done(may);
  if (enlistments_.held(registration->producer) && !Planted(PlantedBug::kEnlistWhileUnfinished)) {
    return WhenFree(
        registration->producer, clock_.Now() + options_.prepare_timeout,
        [this, enlisting] { TryEnlist(enlisting); },
        [enlisting, producer = registration->producer] { enlisting->done(Unfinished(producer)); });
  }
  const TransactionalId& id = registration->producer.transactional_id;
  if (enlisting->told) {
    Bind(txn, *registration, {id, enlisting->told->producer_id, enlisting->told->producer_epoch});
    return enlisting->done({});
  }
  if (registration->bound) {
    Bind(txn, *registration, *registration->bound);
    return enlisting->done({});
  }
  AskBound(*registration, [this, enlisting](const Status& asked) {
    if (!asked.ok()) return enlisting->done(asked);
    TryEnlist(enlisting);
  });
}

/// The producer's first transaction under its registration, and its library does not tell: what the
/// broker shows before the first write is what it must show at the vote.
void Coordinator::AskBound(const Enlistments::Registration& registration, Callback<Status> done) {
  Cluster* cluster = FindCluster(registration.producer.cluster);
  cluster->Describe({.cluster = cluster->name(),
                     .kafka_cluster_id = cluster->status().kafka_cluster_id,
                     .transactional_id = registration.producer.transactional_id},
                    [this, id = registration.id, owner = registration.owner,
                     done = std::move(done)](Result<txn::TxnDescription> description) {
                      executor_.Post([this, id, owner, done, description = std::move(description)] {
                        done(TakeBound(id, owner, description));
                      });
                    });
}

Status Coordinator::TakeBound(const std::string& id, const std::string& owner,
                              const Result<txn::TxnDescription>& description) {
  Enlistments::Registration* registration = enlistments_.Find(id, owner);
  if (registration == nullptr) return {};
  if (!description.ok()) {
    const bool late = description.error().code == Code::kDeadlineExceeded;
    return MakeError(late ? Code::kUnavailable : description.error().code,
                     description.error().message);
  }
  const std::string producer = ToString(registration->producer);
  if (!description->exists) {
    return MakeError(Code::kFailedPrecondition, "the brokers do not know " + producer +
                                                    ": call initTransactions() before Enlist");
  }
  switch (description->state) {
    case KafkaTxnState::kOngoing:
      return MakeError(
          Code::kFailedPrecondition,
          producer + " has a Kafka transaction open: Enlist comes before the first write");
    case KafkaTxnState::kEmpty:
    case KafkaTxnState::kCompleteCommit:
    case KafkaTxnState::kCompleteAbort:
      registration->bound = {registration->producer.transactional_id, description->producer_id,
                             description->producer_epoch};
      return {};
    default:
      return Unfinished(registration->producer);
  }
}

void Coordinator::Bind(OpenTxn& txn, Enlistments::Registration& registration,
                       const txn::ProducerInstance& producer) {
  Cluster* cluster = FindCluster(registration.producer.cluster);
  registration.bound = producer;
  registration.txn = txn.view.id;
  const txn::ParticipantName name{.cluster = cluster->name(),
                                  .kafka_cluster_id = cluster->status().kafka_cluster_id,
                                  .transactional_id = producer.transactional_id,
                                  .producer_id = producer.producer_id,
                                  .producer_epoch = producer.producer_epoch,
                                  .protocol = registration.protocol};
  auto participant =
      std::make_unique<EnlistedParticipant>(EnlistedPorts(*cluster), name, registration.id);
  participant->SetAbortTime(kAbortTime);
  txn.enlisted.emplace(cluster->name(), std::move(participant));
  log_.StoreEnlistment({txn.view.id, name});
  Touch(txn);
}

bool Coordinator::OpenTxn::has_enlisted() const {
  return !enlisted.empty() ||
         (runner != nullptr &&
          std::ranges::any_of(runner->batch().participants, &txn::BatchParticipant::enlisted));
}

Status Coordinator::CheckEnlistedWork(const OpenTxn& txn, const CommitOptions& options) const {
  if (txn.has_enlisted() && options.wait == WaitFor::kDecided) {
    return MakeError(Code::kInvalidArgument,
                     "wait: DECIDED is not for a transaction with a producer of the client's own: "
                     "that may go on only after COMPLETE");
  }
  for (const auto& [cluster, participant] : txn.enlisted) {
    if (options.enlisted.contains(participant->registration())) continue;
    return MakeError(Code::kInvalidArgument,
                     "enlisted: nothing is said of what " +
                         ToString(EnlistedId{cluster, participant->name().transactional_id}) +
                         " wrote (registration '" + participant->registration() + "')");
  }
  if (txn.view.state != GlobalTxnState::kActive) return {};
  for (const auto& [registration, work] : options.enlisted) {
    const bool known = std::ranges::any_of(txn.enlisted, [&id = registration](const auto& entry) {
      return entry.second->registration() == id;
    });
    if (known) continue;
    return MakeError(Code::kInvalidArgument, "enlisted: registration '" + registration +
                                                 "' is not enlisted in this transaction");
  }
  return {};
}

// ---- After a crash ------------------------------------------------------------------------------

void Coordinator::AbortEnlisted(const txn::Enlistment& enlistment) {
  Cluster* cluster = FindCluster(enlistment.name.cluster);
  const EnlistedId producer{enlistment.name.cluster, enlistment.name.transactional_id};
  // Gone from the configuration: left to its owner, and to Kafka's time-out. Held: what is decided
  // there is the id's last transaction.
  if (cluster == nullptr || enlistments_.held(producer)) {
    return log_.EndEnlistment(producer.cluster, producer.transactional_id);
  }
  aborting_.push_back(std::make_unique<EnlistedParticipant>(EnlistedPorts(*cluster),
                                                            enlistment.name, std::string()));
  const auto participant = std::prev(aborting_.end());
  (*participant)->Abort([this, participant](bool) {
    (*participant)->Release();
    // Not here: this is the participant's own call.
    executor_.Post([this, participant] { aborting_.erase(participant); });
  });
}

}  // namespace lockstep::coordinator
