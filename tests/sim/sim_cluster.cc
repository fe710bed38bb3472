#include "sim_cluster.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/planted.h"
#include "sim_participant.h"

namespace lockstep::sim {
namespace {

using coordinator::Callback;
using coordinator::ClusterState;
using fake_kafka::KafkaError;
using fake_kafka::Producer;
using fake_kafka::ProducerAnswer;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kRequestTimeout{1'000};
constexpr milliseconds kRetry{20};

std::int32_t Milliseconds(Duration duration) {
  return static_cast<std::int32_t>(std::chrono::duration_cast<milliseconds>(duration).count());
}

Error NoAnswer() {
  return MakeError(Code::kDeadlineExceeded, "no answer in time", Effect::kUnknown);
}

Error Refused(KafkaError error) {
  return MakeError(Code::kUnavailable, Name(error), Effect::kUnknown);
}

txn::EndTxnAnswer::Kind KindOf(KafkaError error) {
  using Kind = txn::EndTxnAnswer::Kind;
  switch (error) {
    case KafkaError::kNone:
      return Kind::kDone;
    case KafkaError::kInvalidTxnState:
      return Kind::kInvalidState;
    case KafkaError::kInvalidProducerEpoch:
    case KafkaError::kProducerFenced:
    case KafkaError::kInvalidProducerIdMapping:
      return Kind::kFenced;
    default:
      return Kind::kUncertain;
  }
}

Error OtherCluster() {
  return MakeError(Code::kFailedPrecondition, "another Kafka cluster answers");
}

}  // namespace

SimCluster::SimCluster(World world, SimBroker& broker)
    : world_(std::move(world)), broker_(broker) {}

bool SimCluster::ChecksMarkers() const {
  const bool told = !kafka_cluster_id_.get().empty();
  if (!told) return !Planted(PlantedBug::kMarkersUncheckedAtFirst);
  return broker_.may_lose_markers();
}

coordinator::ClusterStatus SimCluster::status() const {
  return {.state = state_,
          .kafka_cluster_id = kafka_cluster_id_,
          .problem = "",
          .check_markers = ChecksMarkers(),
          .transaction_version = world_.options.transaction_version,
          .lanes_max = world_.options.lanes,
          .lanes_idle = static_cast<int>(idle_.size())};
}

// ---- Joining -----------------------------------------------------------------------------------

void SimCluster::Start(std::vector<TransactionalId> pending,
                       coordinator::Callback<std::string> /*superseded*/) {
  for (const TransactionalId& id : pending) pending_.insert(id.get());
  Connect();
}

void SimCluster::Connect() {
  broker_.Call<std::string>(
      SimBroker::Sender::kWire, "GetFacts", life_, kRequestTimeout,
      [](FakeKafka& kafka) { return kafka.cluster_id(); },
      [this](std::optional<std::string> cluster_id) {
        if (cluster_id) return Identified(*cluster_id);
        world_.scheduler.After(world_.random.Between(milliseconds(10), seconds(1)), life_,
                               [this] { Connect(); });
      });
}

void SimCluster::Identified(const std::string& cluster_id) {
  kafka_cluster_id_ = KafkaClusterId(cluster_id);
  const auto bound = world_.log.Binding(name());
  if (bound && *bound != kafka_cluster_id_) {
    state_ = ClusterState::kMismatch;
    return;
  }
  if (bound) return ListEarlier();
  world_.log.StoreBinding(name(), kafka_cluster_id_, [this](const Status& status) {
    if (!status.ok()) return world_.on_log_failed();
    ListEarlier();
  });
}

void SimCluster::ListEarlier() {
  using Listing = std::vector<fake_kafka::ListedTransaction>;
  broker_.Call<Listing>(
      SimBroker::Sender::kWire, "ListTransactions", life_, kRequestTimeout,
      [](FakeKafka& kafka) { return kafka.ListTransactions(); },
      [this](const std::optional<Listing>& listing) {
        if (!listing) {
          world_.scheduler.After(kRetry, life_, [this] { ListEarlier(); });
          return;
        }
        std::vector<std::string> ids;
        for (const auto& listed : *listing) {
          const std::uint64_t incarnation = IncarnationOf(listed.transactional_id);
          if (incarnation == 0) continue;
          if (incarnation >= world_.log.recovered().incarnation.get()) {
            state_ = ClusterState::kRefused;
            return;
          }
          const bool is_pending = pending_.contains(listed.transactional_id);
          if (is_pending && !Planted(PlantedBug::kInitBeforeResolve)) continue;
          ids.push_back(listed.transactional_id);
        }
        FenceEarlier(ids);
      });
}

void SimCluster::FenceEarlier(const std::vector<std::string>& ids) {
  if (ids.empty() || Planted(PlantedBug::kFenceForgotten)) return OpenLanes();
  auto left = std::make_shared<std::size_t>(ids.size());
  for (const std::string& id : ids) {
    Fence(id, [this, left] {
      if (--*left == 0) OpenLanes();
    });
  }
}

void SimCluster::FencePending(TransactionalId id) {
  Fence(id.get(), [] {});
}

/// As every request, it may arrive when this process is gone.
std::function<ProducerAnswer(FakeKafka&)> SimCluster::InitRequest(const std::string& id) const {
  return [id, timeout = Milliseconds(world_.options.txn_timeout), &broker = broker_,
          &oracle = world_.oracle](FakeKafka& kafka) {
    oracle.OnInitProducerId(broker, id);
    return kafka.InitProducerId(id, timeout);
  };
}

void SimCluster::Fence(const std::string& id, std::function<void()> done) {
  broker_.Call<ProducerAnswer>(
      SimBroker::Sender::kWire, "InitProducerId(" + id + ") as a fence", life_, kRequestTimeout,
      InitRequest(id), [this, id, done = std::move(done)](std::optional<ProducerAnswer> answer) {
        if (answer && answer->error == KafkaError::kNone) return done();
        world_.scheduler.After(kRetry, life_, [this, id, done] { Fence(id, done); });
      });
}

std::string SimCluster::LaneId(int slot) const {
  const auto& recovered = world_.log.recovered();
  return "lockstep-" + recovered.log_id.get() + "-" + std::to_string(recovered.incarnation.get()) +
         "-" + name().get() + "-" + std::to_string(slot);
}

std::uint64_t SimCluster::IncarnationOf(const std::string& id) const {
  const std::string prefix = "lockstep-" + world_.log.recovered().log_id.get() + "-";
  if (!id.starts_with(prefix)) return 0;
  return std::strtoull(id.c_str() + prefix.size(), nullptr, 10);
}

// ---- Lanes -------------------------------------------------------------------------------------

void SimCluster::OpenLanes() {
  state_ = ClusterState::kReady;
  for (int i = 0; i < world_.options.lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->id = LaneId(next_slot_++);
    Initialise(lanes_.back().get());
  }
}

void SimCluster::Initialise(Lane* lane) {
  broker_.Call<ProducerAnswer>(
      SimBroker::Sender::kLane, "InitProducerId(" + lane->id + ")", life_, kRequestTimeout,
      InitRequest(lane->id), [this, lane](std::optional<ProducerAnswer> answer) {
        if (answer && answer->error == KafkaError::kNone) {
          lane->producer = answer->producer;
          lane->next_sequence.clear();
          lane->clean = true;
          lane->aborted = false;
          return Pool(lane);
        }
        if (!answer && !Planted(PlantedBug::kInitReusesId)) {
          RetireId(lane);  // It may arrive at any time, and end whatever it finds.
        }
        world_.scheduler.After(kRetry, life_, [this, lane] { Initialise(lane); });
      });
}

void SimCluster::Pool(Lane* lane) {
  if (waiting_.empty()) {
    idle_.push_back(lane);
    return;
  }
  SimParticipant* participant = waiting_.front();
  waiting_.pop_front();
  participant->TakeLane(lane);
}

void SimCluster::WantLane(SimParticipant* participant) {
  if (idle_.empty()) {
    waiting_.push_back(participant);
    return;
  }
  Lane* lane = idle_.front();
  idle_.pop_front();
  participant->TakeLane(lane);
}

void SimCluster::NoLongerWantsLane(SimParticipant* participant) {
  std::erase(waiting_, participant);
}

void SimCluster::ReturnLane(Lane* lane) {
  // An ABORT marker may have been left out (KAFKA-20734): the next COMMIT marker of the same
  // producer id would commit what was aborted. No new epoch helps, only another producer id.
  if (lane->aborted && broker_.may_lose_markers() && !Planted(PlantedBug::kAbortedIdReused)) {
    RetireId(lane);
    return Initialise(lane);
  }
  lane->aborted = false;
  if (lane->clean) return Pool(lane);
  Initialise(lane);
}

/// Nothing will be begun on this id any more. What is open on it is aborted all the same.
void SimCluster::RetireId(Lane* lane) {
  Fence(std::exchange(lane->id, LaneId(next_slot_++)), [] {});
}

std::unique_ptr<coordinator::Participant> SimCluster::NewParticipant() {
  return std::make_unique<SimParticipant>(*this);
}

// ---- By name -----------------------------------------------------------------------------------

void SimCluster::DescribeId(const std::string& id, Life caller,
                            std::function<void(std::optional<txn::TxnDescription>)> done) {
  broker_.Call<txn::TxnDescription>(
      SimBroker::Sender::kWire, "Describe(" + id + ")", std::move(caller), kRequestTimeout,
      [id](FakeKafka& kafka) { return kafka.DescribeTransaction(id); }, std::move(done));
}

// Bound is enough: what an earlier start decided is resolved while this one is still joining.
bool SimCluster::MayAsk(const txn::ParticipantName& participant) const {
  const auto bound = world_.log.Binding(name());
  return bound && *bound == participant.kafka_cluster_id;
}

void SimCluster::Describe(const txn::ParticipantName& name,
                          Callback<Result<txn::TxnDescription>> done) {
  if (!MayAsk(name)) {
    world_.scheduler.After(milliseconds(1), life_, [done] { done(OtherCluster()); });
    return;
  }
  DescribeId(name.transactional_id.get(), life_,
             [done](const std::optional<txn::TxnDescription>& description) {
               if (!description) return done(NoAnswer());
               done(*description);
             });
}

void SimCluster::EndTxn(const txn::ParticipantName& name, txn::Direction direction,
                        Callback<txn::EndTxnAnswer> done) {
  if (!MayAsk(name)) {
    world_.scheduler.After(milliseconds(1), life_,
                           [done] { done({.problem = OtherCluster().message}); });
    return;
  }
  const std::string id = name.transactional_id.get();
  Touch(id);
  const Producer producer{name.producer_id.get(), name.producer_epoch.get()};
  const bool commit = direction == txn::Direction::kCommit;
  const bool tv2 =
      name.protocol == txn::EndTxnProtocol::kTv2 || Planted(PlantedBug::kEndVersionsMixed);
  const int version = tv2 ? 5 : 4;
  // It is sent once (wire::Attempts::kOnce), so one that was answered does not come again. A lane
  // stands even that; a client's TV1 producer, which goes on under the same epoch, could not.
  const auto sender = IncarnationOf(id) > 0 ? SimBroker::Sender::kWire : SimBroker::Sender::kLane;
  broker_.Call<ProducerAnswer>(
      sender, "EndTxn(" + id + ") v" + std::to_string(version) + (commit ? " commit" : " abort"),
      life_, kRequestTimeout,
      [id, producer, commit, version](FakeKafka& kafka) {
        return kafka.EndTxn(version, id, producer, commit);
      },
      [done, producer, version](std::optional<ProducerAnswer> answer) {
        if (!answer) return done({.problem = NoAnswer().message});
        const Producer now = version < 5 ? producer : answer->producer;
        done({KindOf(answer->error), ProducerId(now.id), ProducerEpoch(now.epoch),
              Name(answer->error)});
      });
}

void SimCluster::LogEnds(std::vector<txn::TopicPartition> partitions,
                         Callback<Result<std::vector<txn::Evidence>>> done) {
  using Ends = std::vector<txn::Evidence>;
  broker_.Call<Ends>(
      SimBroker::Sender::kWire, "ListOffsets (ends)", life_, kRequestTimeout,
      [partitions = std::move(partitions)](FakeKafka& kafka) {
        Ends ends;
        for (const txn::TopicPartition& partition : partitions) {
          ends.push_back({partition, kafka.Partition(partition)->high_watermark()});
        }
        return ends;
      },
      [done](std::optional<Ends> ends) {
        if (!ends) return done(NoAnswer());
        done(*ends);
      });
}

void SimCluster::KnowsGroup(std::string, Callback<Result<bool>> done) {
  broker_.Call<bool>(
      SimBroker::Sender::kWire, "DescribeGroups", life_, kRequestTimeout,
      [](FakeKafka&) { return true; },
      [done](std::optional<bool> knows) {
        if (!knows) return done(NoAnswer());
        done(*knows);
      });
}

void SimCluster::ReadMarkers(const txn::PreparedParticipant& participant,
                             Callback<Result<std::vector<txn::MarkerFound>>> done) {
  using Found = std::vector<txn::MarkerFound>;
  broker_.Call<Found>(
      SimBroker::Sender::kWire, "Fetch (markers)", life_, kRequestTimeout,
      [participant](FakeKafka& kafka) {
        Found found;
        for (const txn::Evidence& evidence : participant.evidence) {
          found.push_back(kafka.FindMarker(evidence.partition, participant.name.producer_id.get(),
                                           evidence.offset));
        }
        return found;
      },
      [done](std::optional<Found> found) {
        if (!found) return done(NoAnswer());
        done(*found);
      });
}

void SimCluster::CheckMarkers(const txn::PreparedParticipant& participant,
                              Callback<Result<std::vector<txn::TopicPartition>>> done) {
  using Hanging = std::vector<txn::TopicPartition>;
  broker_.Call<Hanging>(
      SimBroker::Sender::kWire, "ListOffsets (markers)", life_, kRequestTimeout,
      [participant](FakeKafka& kafka) {
        Hanging hanging;
        for (const txn::Evidence& evidence : participant.evidence) {
          const auto* log = kafka.Partition(evidence.partition);
          if (log->last_stable_offset() <= evidence.offset) hanging.push_back(evidence.partition);
        }
        return hanging;
      },
      [done](std::optional<Hanging> hanging) {
        if (!hanging) return done(NoAnswer());
        done(*hanging);
      });
}

/// A lane of ours that a request from outside may meet at any time is not clean (M4).
void SimCluster::Touch(const std::string& id) {
  for (const auto& lane : lanes_) {
    if (lane->id == id) lane->clean = false;
  }
}

void SimCluster::RepairMarkers(const txn::PreparedParticipant& participant,
                               std::vector<txn::TopicPartition> partitions, Callback<Status> done) {
  Touch(participant.name.transactional_id.get());
  const Producer producer{participant.name.producer_id.get(),
                          participant.name.producer_epoch.get()};
  broker_.Call<KafkaError>(
      SimBroker::Sender::kWire, "WriteTxnMarkers", life_, kRequestTimeout,
      [producer, partitions = std::move(partitions)](FakeKafka& kafka) {
        for (const txn::TopicPartition& partition : partitions) {
          const KafkaError error =
              kafka.WriteTxnMarkers(producer, kafka.coordinator_epoch(), true, partition);
          if (error != KafkaError::kNone) return error;
        }
        return KafkaError::kNone;
      },
      [done](std::optional<KafkaError> error) {
        if (!error) return done(NoAnswer());
        if (*error != KafkaError::kNone) return done(Refused(*error));
        done({});
      });
}

void SimCluster::ListOrphans(Callback<Result<coordinator::OrphanListing>>) { std::abort(); }

void SimCluster::EndOrphan(coordinator::Orphan, txn::Direction,
                           Callback<Result<txn::TxnDescription>>) {
  std::abort();
}

}  // namespace lockstep::sim
