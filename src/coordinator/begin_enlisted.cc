#include <algorithm>
#include <set>
#include <utility>

#include "base/planted.h"
#include "coordinator/coordinator.h"

/// A transaction together with its branches of clients' own producers. What may have to be waited
/// for is waited for first; then it begins whole, within one task, or not at all.
namespace lockstep::coordinator {
namespace {

using Registrations = std::vector<Enlistments::Registration*>;

/// An error about one of those that were to be enlisted: `index` tells which.
Error Of(std::size_t index, Error error) {
  error.message = "enlistments[" + std::to_string(index) + "]: " + error.message;
  return error;
}

}  // namespace

struct Coordinator::BeginningEnlisted {
  Beginning what;
  MonoTime give_up;
  Callback<Result<TxnView>> done;
};

void Coordinator::BeginEnlisted(Beginning beginning, Callback<Result<TxnView>> done) {
  Post(
      [this, beginning = std::move(beginning), done]() mutable {
        const MonoTime give_up = clock_.Now() + options_.prepare_timeout;
        TryBeginEnlisted(std::make_shared<BeginningEnlisted>(
            BeginningEnlisted{std::move(beginning), give_up, std::move(done)}));
      },
      done);
}

/// From the start each time: any wait may have changed anything.
void Coordinator::TryBeginEnlisted(const std::shared_ptr<BeginningEnlisted>& beginning) {
  const Beginning& what = beginning->what;
  const auto& done = beginning->done;
  if (failed_) return done(*failed_);
  if (what.gone()) {
    return done(MakeError(Code::kUnavailable, "nobody waits for the transaction any more"));
  }
  Registrations registrations;
  for (std::size_t i = 0; i < what.enlisted.size(); ++i) {
    const std::string& id = what.enlisted[i].registration;
    registrations.push_back(enlistments_.Find(id, what.owner.name));
    if (registrations.back() != nullptr) continue;
    return done(Of(i, NotRegistered(id, RegistrationPrefix(log_.recovered()))));
  }
  if (const OpenTxn* begun = FindBegun(what, registrations)) return done(ViewOf(*begun));

  std::set<ClusterName> clusters;
  for (std::size_t i = 0; i < registrations.size(); ++i) {
    const EnlistedId& producer = registrations[i]->producer;
    Status may = CheckFree(*registrations[i]);
    if (!clusters.insert(producer.cluster).second) may = HasBranch(producer.cluster);
    if (!may.ok()) return done(Of(i, may.error()));
  }
  const auto again = [this, beginning] { TryBeginEnlisted(beginning); };
  for (std::size_t i = 0; i < registrations.size(); ++i) {
    const EnlistedId& producer = registrations[i]->producer;
    if (enlistments_.held(producer) && !Planted(PlantedBug::kEnlistWhileUnfinished)) {
      return WhenFree(producer, beginning->give_up, again,
                      [i, producer, done] { done(Of(i, Unfinished(producer))); });
    }
    if (what.enlisted[i].told || registrations[i]->bound) continue;
    return AskBound(*registrations[i], [i, again, done](const Status& asked) {
      asked.ok() ? again() : done(Of(i, asked.error()));
    });
  }
  done(BeginWith(what, registrations));
}

Result<TxnView> Coordinator::BeginWith(const Beginning& beginning,
                                       const Registrations& registrations) {
  const Result<OpenTxn*> opened =
      Open(beginning.timeout, beginning.label, beginning.client, beginning.owner);
  if (!opened.ok()) return opened.error();
  for (std::size_t i = 0; i < registrations.size(); ++i) {
    Enlistments::Registration& registration = *registrations[i];
    txn::ProducerInstance producer;
    if (const auto& told = beginning.enlisted[i].told) {
      producer = {registration.producer.transactional_id, told->producer_id, told->producer_epoch};
    } else {
      producer = *registration.bound;
    }
    Bind(**opened, registration, producer);
  }
  return ViewOf(**opened);
}

const Coordinator::OpenTxn* Coordinator::FindBegun(const Beginning& beginning,
                                                   const Registrations& registrations) const {
  const auto found = open_.find(registrations.front()->txn);
  if (found == open_.end()) return nullptr;
  const OpenTxn& txn = found->second;
  if (txn.view.state != txn::GlobalTxnState::kActive || !txn.work.empty() ||
      txn.enlisted.size() != registrations.size()) {
    return nullptr;
  }
  for (std::size_t i = 0; i < registrations.size(); ++i) {
    const auto enlisted = txn.enlisted.find(registrations[i]->producer.cluster);
    if (enlisted == txn.enlisted.end()) return nullptr;
    if (enlisted->second->registration() != registrations[i]->id) return nullptr;
    const txn::ParticipantName& name = enlisted->second->name();
    const auto& told = beginning.enlisted[i].told;
    if (told &&
        (told->producer_id != name.producer_id || told->producer_epoch != name.producer_epoch)) {
      return nullptr;
    }
  }
  return &txn;
}

}  // namespace lockstep::coordinator
