#include "sim_app.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/planted.h"
#include "sim_caller.h"
#include "world.h"

namespace lockstep::sim {
namespace {

using coordinator::Coordinator;
using coordinator::EnlistedWork;
using coordinator::Registered;
using coordinator::TxnView;
using fake_kafka::Appended;
using fake_kafka::KafkaError;
using fake_kafka::Producer;
using fake_kafka::ProducerAnswer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using txn::GlobalTxnState;

constexpr milliseconds kRequestTimeout{1'000};
constexpr milliseconds kRetry{20};

SimBroker& SomeBroker(World& world) {
  const auto at = static_cast<std::ptrdiff_t>(world.random().Below(world.brokers().size()));
  return *std::next(world.brokers().begin(), at)->second;
}

}  // namespace

/// One process of the application: one producer after the other.
class SimApp::Instance : private SimCaller {
 public:
  explicit Instance(SimApp& app) : SimCaller(app.world_), app_(app) {}

  void Start() { Register(); }
  void Die() { life_.reset(); }
  bool done() const { return life_ == nullptr || done_; }

 private:
  Random& random() { return world_.random(); }
  SimBroker& broker() { return app_.broker_; }
  bool tv2() const { return protocol_ == txn::EndTxnProtocol::kTv2; }

  /// Wraps what an answer leads to: it arrives, if it is still waited for.
  template <typename Answer>
  std::function<void(const Answer&)> Then(void (Instance::*next)(const Answer&)) {
    return [this, life = Life(life_), attempt = attempt_, next](const Answer& answer) {
      if (life.expired()) return;
      SimCaller::Then(attempt, [this, next, answer] { (this->*next)(answer); });
    };
  }
  /// One request to the broker, sent once.
  template <typename R>
  void Ask(const std::string& what, std::function<R(FakeKafka&)> request,
           std::function<void(std::optional<R>)> done) {
    broker().Call<R>(SimBroker::Sender::kLane, what + "(" + app_.id_ + ")", life_, kRequestTimeout,
                     std::move(request), std::move(done));
  }

  // ---- A producer

  void Register() {
    incarnation_ = world_.incarnation();
    Call(
        [&](Coordinator& coordinator) {
          coordinator.RegisterProducer(broker().name(), TransactionalId(app_.id_), app_.protocol_,
                                       Then(&Instance::OnRegistered));
        },
        [this] { Register(); });
  }

  void OnRegistered(const Result<Registered>& answer) {
    if (!answer.ok()) return After(milliseconds(500), [this] { Register(); });
    registration_ = answer->id;
    protocol_ = answer->protocol;
    app_.registered_ = this;
    // A producer that was not closed is what a restart of lockstepd must not leave in use.
    if (Planted(PlantedBug::kProducerKept) && producer_.id >= 0) return NextTxn();
    Initialise();
  }

  void Initialise() {
    const auto timeout = static_cast<std::int32_t>(
        std::chrono::duration_cast<milliseconds>(world_.options().txn_timeout).count());
    broker().Call<ProducerAnswer>(
        SimBroker::Sender::kReliable, "InitProducerId(" + app_.id_ + ")", life_, kRequestTimeout,
        [id = app_.id_, timeout, &broker = broker(), &oracle = world_.oracle()](FakeKafka& kafka) {
          oracle.OnInitProducerId(broker, id);
          return kafka.InitProducerId(id, timeout);
        },
        [this](std::optional<ProducerAnswer> answer) {
          if (!answer || answer->error != KafkaError::kNone) {
            // Once another instance has registered, it could meet that one's decision: see
            // enlisted.md, "What Kafka does not let us promise".
            const bool last = app_.registered_ == this;
            return After(kRetry, [this, last] { last ? Initialise() : Register(); });
          }
          producer_ = answer->producer;
          next_sequence_.clear();
          NextTxn();
        });
  }

  // ---- A transaction

  void NextTxn() {
    txn_ = {};
    if (app_.stopped_ || app_.txns_left_ == 0) {
      done_ = true;
      return;
    }
    --app_.txns_left_;
    After(random().Between(Duration{}, Duration(milliseconds(200))), [this] { Begin(); });
  }

  void Begin() {
    const Duration timeout = seconds(random().Between(1, 30));
    Call(
        [&](Coordinator& coordinator) {
          coordinator.Begin(timeout, app_.id_,
                            [then = Then(&Instance::OnBegun),
                             &oracle = world_.oracle()](const Result<TxnView>& view) {
                              if (view.ok()) oracle.OnBegan(view->id);
                              then(view);
                            });
        },
        [this] { Begin(); });
  }

  void OnBegun(const Result<TxnView>& view) {
    if (!view.ok()) return NextTxn();
    txn_.id = view->id;
    AddManagedWork();
  }

  /// Some transactions have a branch of ours beside.
  void AddManagedWork() {
    const auto& brokers = world_.brokers();
    const ClusterName other = brokers.begin()->first == broker().name()
                                  ? std::prev(brokers.end())->first
                                  : brokers.begin()->first;
    Coordinator* coordinator = world_.coordinator();
    if (coordinator == nullptr || random().Chance(0.5)) return Enlist();
    txn::BranchWork work;
    std::vector<std::string> tags{NewTag(other)};
    work.records.push_back({.topic = "t", .partition = random().Between(0, 2), .value = tags[0]});
    coordinator->AddWork(
        txn_.id, other, work, 0, std::nullopt,
        [id = txn_.id, other, tags, &oracle = world_.oracle()](const Status& status) {
          if (status.ok()) oracle.OnAdded(id, other, 0, tags);
        });
    Enlist();
  }

  std::string NewTag(const ClusterName& cluster) {
    return txn_.id.get() + "/" + cluster.get() + "/" + std::to_string(++app_.tags_);
  }

  void Enlist() {
    std::optional<coordinator::ToldProducer> told;
    if (random().Chance(0.5)) told = {ProducerId(producer_.id), ProducerEpoch(producer_.epoch)};
    Call(
        [&](Coordinator& coordinator) {
          coordinator.Enlist(txn_.id, registration_, told, Then(&Instance::OnEnlisted));
        },
        [this] { Enlist(); });
  }

  void OnEnlisted(const Status& status) {
    if (status.ok()) return Write();
    if (status.error().code == Code::kFenced) return Register();
    if (status.error().code == Code::kUnavailable) {
      return After(milliseconds(200), [this] { Enlist(); });
    }
    NextTxn();  // It is over, or never was.
  }

  void Write() {
    const int partitions = random().Between(0, 2);
    for (int i = 0; i < partitions; ++i) {
      const txn::TopicPartition partition{"t", random().Between(0, 2)};
      txn_.values[partition].push_back(NewTag(broker().name()));
    }
    if (random().Chance(0.3)) txn_.group_tag = NewTag(broker().name());
    WriteNext();
  }

  /// One partition after the other, then the group's offsets.
  void WriteNext() {
    for (const auto& [partition, values] : txn_.values) {
      if (!txn_.work.partitions.contains(partition)) return WriteTo(partition);
    }
    if (!txn_.group_tag.empty() && txn_.work.group_ids.empty()) return WriteOffsets();
    Written();
  }

  void WriteTo(const txn::TopicPartition& partition) {
    if (tv2()) return Produce(partition);
    Ask<KafkaError>(
        "AddPartitionsToTxn",
        [id = app_.id_, producer = producer_, partition](FakeKafka& kafka) {
          return kafka.AddPartitionsToTxn(id, producer, {partition});
        },
        [this, partition](std::optional<KafkaError> error) {
          if (Failed(error, [this] { WriteNext(); })) return;
          Produce(partition);
        });
  }

  void Produce(const txn::TopicPartition& partition) {
    const auto& values = txn_.values.at(partition);
    Ask<Appended>(
        "Produce",
        [id = app_.id_, producer = producer_, partition, sequence = next_sequence_[partition],
         values, implicit = tv2()](FakeKafka& kafka) {
          return kafka.Produce({id, producer, partition, sequence, values, implicit});
        },
        [this, partition, count = values.size()](const std::optional<Appended>& appended) {
          const auto error = appended ? std::optional(appended->error) : std::nullopt;
          if (Failed(error, [this] { WriteNext(); })) return;
          next_sequence_[partition] += static_cast<std::int32_t>(count);
          const bool tells = random().Chance(0.7);
          txn_.work.partitions[partition] =
              tells ? appended->base_offset + static_cast<std::int64_t>(count) - 1 : -1;
          WriteNext();
        });
  }

  void WriteOffsets() {
    const std::string group = "group-of-" + app_.id_;
    Ask<KafkaError>(
        "AddOffsetsToTxn",
        [id = app_.id_, producer = producer_, group](FakeKafka& kafka) {
          return kafka.AddOffsetsToTxn(id, producer, group);
        },
        [this, group](std::optional<KafkaError> error) {
          if (Failed(error, [this] { WriteNext(); })) return;
          CommitOffsets(group);
        });
  }

  void CommitOffsets(const std::string& group) {
    txn::GroupOffsets offsets{.group_id = group, .standalone = true};
    offsets.offsets.push_back(
        {.partition = {"source", 0}, .offset = app_.tags_, .metadata = txn_.group_tag});
    Ask<KafkaError>(
        "TxnOffsetCommit",
        [id = app_.id_, producer = producer_, offsets](FakeKafka& kafka) {
          return kafka.TxnOffsetCommit({id, producer, offsets});
        },
        [this, group](std::optional<KafkaError> error) {
          if (Failed(error, [this] { WriteNext(); })) return;
          txn_.work.group_ids.insert(group);
          WriteNext();
        });
  }

  /// An error spoils the transaction; so does no answer, and the producer with it.
  bool Failed(std::optional<KafkaError> error, const std::function<void()>& again) {
    if (error == KafkaError::kNone) return false;
    if (error && AsksForPatience(*error)) {
      After(kRetry, again);
      return true;
    }
    producer_spoiled_ = true;
    Abort();
    return true;
  }

  void Written() {
    std::vector<std::string> tags;
    for (const auto& [partition, values] : txn_.values) {
      tags.insert(tags.end(), values.begin(), values.end());
    }
    if (!txn_.group_tag.empty()) tags.push_back(txn_.group_tag);
    world_.oracle().OnWritten(txn_.id, broker().name(), tags);
    txn_.work.read_only = tags.empty();
    const int choice = random().Between(0, 99);
    if (choice < 8) {
      Die();
      return app_.StartInstance();
    }
    if (choice < 16) app_.StartInstance();  // And this one goes on.
    if (choice < 30) return Abort();
    Commit();
  }

  // ---- Its end

  void Commit() {
    coordinator::CommitOptions options;
    options.enlisted[registration_] = txn_.work;
    if (random().Chance(0.3)) {
      options.max_wait = random().Between(Duration{}, Duration(seconds(2)));
    }
    Call([&](Coordinator& coordinator) { coordinator.Commit(txn_.id, options, Answer()); },
         [this] {
           if (Planted(PlantedBug::kEndsUnanswered)) return EndOwn(false);
           Commit();
         });
    if (random().Chance(0.05)) {
      Die();
      app_.StartInstance();
    }
  }

  void Abort() {
    Call([&](Coordinator& coordinator) { coordinator.Abort(txn_.id, Answer()); },
         [this] { Abort(); });
  }

  coordinator::Callback<Result<TxnView>> Answer() {
    return [id = txn_.id, then = Then(&Instance::OnAnswer),
            &oracle = world_.oracle()](const Result<TxnView>& view) {
      oracle.OnAnswer(id, view);
      then(view);
    };
  }

  void OnAnswer(const Result<TxnView>& view) {
    if (!view.ok()) {
      // Its outcome is no longer kept: nothing may be ended that it may have decided.
      if (view.error().code == Code::kNotFound) return Register();
      return After(milliseconds(500), [this] { Commit(); });
    }
    for (const coordinator::BranchView& branch : view->branches) {
      producer_spoiled_ |= branch.reinit_required && !app_.careless_;
    }
    switch (view->state) {
      case GlobalTxnState::kCommitted:
        return EndOwn(true);
      case GlobalTxnState::kAborted:
        return EndOwn(false);
      case GlobalTxnState::kHeuristic:
        return Register();
      default:
        return After(random().Between(Duration(milliseconds(50)), Duration(seconds(2))),
                     [this] { Commit(); });
    }
  }

  /// What the application's library does after the answer.
  void EndOwn(bool commit) {
    if (txn_.work.partitions.empty() && txn_.work.group_ids.empty()) return EndedOwn();
    const int version = tv2() ? 5 : 1;
    Ask<ProducerAnswer>(
        std::string("EndTxn of the client, ") + (commit ? "commit" : "abort"),
        [id = app_.id_, producer = producer_, version, commit](FakeKafka& kafka) {
          return kafka.EndTxn(version, id, producer, commit);
        },
        [this](std::optional<ProducerAnswer> answer) {
          const bool ok = answer && answer->error == KafkaError::kNone;
          if (ok && tv2()) producer_ = answer->producer;
          producer_spoiled_ |= !ok && !Planted(PlantedBug::kUncertainEndIgnored);
          EndedOwn();
        });
  }

  void EndedOwn() {
    const bool restarted = world_.incarnation() != incarnation_;
    if (std::exchange(producer_spoiled_, false) || restarted) return Register();
    NextTxn();
  }

  struct Txn {
    GlobalTxnId id;
    std::map<txn::TopicPartition, std::vector<std::string>> values;
    std::string group_tag;
    EnlistedWork work;  // What is acknowledged.
  };

  SimApp& app_;
  bool done_ = false;
  std::string registration_;
  std::uint64_t incarnation_ = 0;  // Of lockstepd, when it registered.
  txn::EndTxnProtocol protocol_ = txn::EndTxnProtocol::kTv1;
  Producer producer_;
  bool producer_spoiled_ = false;
  std::map<txn::TopicPartition, std::int32_t> next_sequence_;
  Txn txn_;
};

SimApp::SimApp(World& world, int number)
    : world_(world),
      id_("app-" + std::to_string(number)),
      broker_(SomeBroker(world)),
      protocol_(world.random().Chance(0.5) ? txn::EndTxnProtocol::kTv1 : txn::EndTxnProtocol::kTv2),
      careless_(world.random().Chance(0.3)),
      txns_left_(world.options().txns) {}

SimApp::~SimApp() = default;

void SimApp::Start() { StartInstance(); }

void SimApp::StartInstance() {
  instances_.push_back(std::make_shared<Instance>(*this));
  instances_.back()->Start();
}

bool SimApp::done() const {
  return std::ranges::all_of(instances_, [](const auto& instance) { return instance->done(); });
}

}  // namespace lockstep::sim
