#include "kafka/cluster.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "base/units.h"
#include "kafka/compatibility.h"
#include "kafka/lane_id.h"
#include "kafka/orphans.h"
#include "kafka/participant.h"
#include "kafka/resolution_calls.h"

namespace lockstep::kafka {
namespace {

using coordinator::ClusterState;

constexpr std::chrono::milliseconds kLongestByDefault = std::chrono::minutes(15);
constexpr Duration kRetryJoin = std::chrono::seconds(1);
// Reading a partition's tail for a marker can take many fetches.
constexpr Duration kMarkerTime = std::chrono::seconds(30);

wire::ClientOptions WireOptions(const ClusterConfig& config,
                                std::shared_ptr<std::atomic<std::uint64_t>> requests_sent) {
  wire::ClientOptions options;
  options.requests_sent = std::move(requests_sent);
  options.bootstrap = config.bootstrap_servers;
  options.security = config.security;
  return options;
}

/// What an operator must mend before trying again makes sense.
bool IsRefusal(Code code) {
  return code == Code::kPermissionDenied || code == Code::kInvalidArgument ||
         code == Code::kUnimplemented || code == Code::kFailedPrecondition;
}

}  // namespace

// ---- Life ---------------------------------------------------------------------------------------

std::shared_ptr<KafkaCluster> KafkaCluster::Create(ClusterConfig config, const Ports& ports) {
  std::shared_ptr<KafkaCluster> cluster(new KafkaCluster(std::move(config), ports));
  cluster->MakeParts();
  return cluster;
}

KafkaCluster::KafkaCluster(ClusterConfig config, const Ports& ports)
    : config_(std::move(config)),
      ports_(ports),
      log_id_(ports.log.recovered().log_id),
      incarnation_(ports.log.recovered().incarnation),
      wire_(ports.io, WireOptions(config_, requests_sent_)),
      topics_(wire_),
      log_bridge_(config_.name),
      next_slot_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

void KafkaCluster::MakeParts() {
  fencer_ = std::make_shared<Fencer>(config_.name, wire_, ports_.executor, config_.request_timeout,
                                     [this] { OnFenceProgress(); });
  pool_ = std::make_shared<LanePool>(
      LanePool::Limits{config_.lanes_min, config_.lanes_max, config_.max_waiting}, ports_.executor,
      ports_.clock, [this] { Publish(); });
}

KafkaCluster::~KafkaCluster() { pool_->Stop(); }

void KafkaCluster::Start(std::vector<TransactionalId> pending,
                         coordinator::Callback<std::string> superseded) {
  superseded_ = std::move(superseded);
  pending_.insert(pending.begin(), pending.end());
  bound_ = ports_.log.Binding(config_.name);
  // From the first request on no other cluster is talked to: what is in doubt is resolved at once,
  // without waiting for the rest of the joining.
  if (bound_) wire_.PinClusterId(*bound_);
  Probe();
}

void KafkaCluster::FencePending(TransactionalId id) {
  pending_.erase(id);
  // A lane of the log that ours was restored from: never ours to initialise. It may live.
  if (const auto lane = ParseLaneId(id); lane && lane->log != log_id_) return;
  fencer_->Fence(std::move(id));
}

std::unique_ptr<coordinator::Participant> KafkaCluster::NewParticipant() {
  const std::weak_ptr<KafkaCluster> weak = weak_from_this();
  return std::make_unique<ManagedParticipant>(
      pool_, ports_.executor,
      [weak]() -> std::optional<txn::Refusal> {
        const auto self = weak.lock();
        return self != nullptr ? self->Refusing() : std::nullopt;
      },
      [weak] {
        const auto self = weak.lock();
        return self != nullptr ? self->WaitedInVain() : txn::Refusal{};
      });
}

template <typename T>
std::function<void(T)> KafkaCluster::OnExecutor(void (KafkaCluster::*then)(const T&)) {
  return [weak = weak_from_this(), &executor = ports_.executor, then](T answer) {
    executor.Post([weak, then, answer = std::move(answer)] {
      if (const auto self = weak.lock()) (self.get()->*then)(answer);
    });
  };
}

// ---- Joining, and looking after -----------------------------------------------------------------

void KafkaCluster::Probe() {
  wire_.GetFacts(config_.request_timeout, OnExecutor(&KafkaCluster::OnFacts));
}

void KafkaCluster::OnFacts(const Result<wire::ClusterFacts>& facts) {
  if (!facts.ok()) return Failed("", facts.error());
  // Once true, for good: the broker that completed something may be gone by now.
  may_have_lost_markers_ |= facts->may_lose_markers;
  check_markers_ = may_have_lost_markers_;
  transaction_version_ = facts->transaction_version;
  if (const auto problem = ScramProblem(config_, *facts)) return Refuse(*problem);
  Identify(facts->cluster_id);
}

void KafkaCluster::Identify(const KafkaClusterId& id) {
  if (bound_ && *bound_ != id) {
    return Again(ClusterState::kMismatch,
                 "the brokers at its address are Kafka cluster " + id.get() +
                     "; this log knows it as " + bound_->get() +
                     ". Point bootstrap_servers at the right cluster; for a new cluster, use a new "
                     "name");
  }
  if (!claimed_) {
    if (const auto other = ports_.registry.Claim(id, config_.name)) {
      return Refuse("clusters '" + other->get() + "' and '" + config_.name.get() +
                    "' are one Kafka cluster (" + id.get() + "): configure it once");
    }
    claimed_ = true;
  }
  if (!bound_) return Bind(id);
  if (serving_) return Serve();
  AskTimeout();
}

void KafkaCluster::Bind(const KafkaClusterId& id) {
  ports_.log.StoreBinding(config_.name, id,
                          [weak = weak_from_this(), &executor = ports_.executor, id,
                           on_log_failed = ports_.on_log_failed](Status stored) {
                            if (!stored.ok()) return on_log_failed(stored.error());
                            executor.Post([weak, id] {
                              const auto self = weak.lock();
                              if (self == nullptr) return;
                              spdlog::info("cluster {}: is Kafka cluster {} from now on",
                                           self->config_.name.get(), id.get());
                              self->bound_ = id;
                              self->wire_.PinClusterId(id);
                              self->AskTimeout();
                            });
                          });
}

void KafkaCluster::AskTimeout() {
  wire_.GetTransactionMaxTimeout(config_.request_timeout, OnExecutor(&KafkaCluster::OnTimeout));
}

void KafkaCluster::OnTimeout(const Result<std::chrono::milliseconds>& maximum) {
  const bool may_not_ask = !maximum.ok() && maximum.error().code == Code::kPermissionDenied;
  if (!maximum.ok() && !may_not_ask) return Failed("", maximum.error());
  // Without the right to ask: the brokers' default, and init_transactions tells if that is too
  // much.
  const auto limit = may_not_ask ? kLongestByDefault : *maximum;
  const auto wanted = config_.transaction_timeout.value_or(std::min(limit, kLongestByDefault));
  if (wanted > limit && !may_not_ask) {
    return Refuse("transaction_timeout is " + FormatDuration(wanted) +
                  ", but the brokers' transaction.max.timeout.ms is " + FormatDuration(limit) +
                  ": lower the one or raise the other");
  }
  transaction_timeout_ = wanted;
  ListOlderLanes();
}

void KafkaCluster::ListOlderLanes() {
  wire_.ListTransactions({{}, LanePrefix(log_id_)}, config_.request_timeout,
                         OnExecutor(&KafkaCluster::OnListed));
}

void KafkaCluster::OnListed(const Result<wire::TransactionListing>& listing) {
  if (!listing.ok()) return Failed("", listing.error());
  if (!listing->failures.empty()) {
    const wire::BrokerFailure& failure = listing->failures.front();
    return Failed("listing transactions on broker " + std::to_string(failure.broker.node_id) + ": ",
                  failure.error);
  }
  std::vector<TransactionalId> older;
  for (const wire::ListedTransaction& listed : listing->transactions) {
    const auto lane = ParseLaneId(listed.transactional_id);
    if (!lane || lane->log != log_id_) continue;
    if (lane->incarnation >= incarnation_) {
      return OnSuperseded(listed.transactional_id, *lane);
    }
    // Empty: nothing was written, or it is fenced already.
    const bool open = listed.state != txn::KafkaTxnState::kEmpty;
    const bool pending = pending_.count(listed.transactional_id) > 0;
    if (open && (!pending || Planted(PlantedBug::kInitBeforeResolve))) {
      older.push_back(listed.transactional_id);
    }
  }
  listed_ = true;
  if (Planted(PlantedBug::kFenceForgotten)) older.clear();
  for (TransactionalId& id : older) fencer_->Fence(std::move(id));
  fencer_->Open(transaction_timeout_);
  OnFenceProgress();
}

void KafkaCluster::OnSuperseded(const TransactionalId& id, const LaneId& lane) {
  const std::string why = "the data folder is older than what cluster '" + config_.name.get() +
                          "' holds: lane " + id.get() + " was opened by start " +
                          std::to_string(lane.incarnation.get()) +
                          " of this log, and this is start " + std::to_string(incarnation_.get()) +
                          ". It is a copy, or was restored: start with the newest data folder; if "
                          "that is lost, with an "
                          "empty one";
  Refuse(why);
  superseded_(why);
}

void KafkaCluster::OnFenceProgress() {
  Publish();
  // Each is tried once before we serve; one that cannot be fenced must not keep the others waiting.
  if (listed_ && !serving_ && fencer_->tried_all()) Serve();
}

void KafkaCluster::Serve() {
  if (!serving_) {
    serving_ = true;
    env_.emplace(LaneEnv{
        config_, *bound_, transaction_timeout_, wire_, topics_, ports_.clock, log_bridge_,
        [slots = next_slot_, log = log_id_, incarnation = incarnation_, name = config_.name] {
          return Format({log, incarnation, name, slots->fetch_add(1)});
        },
        check_markers_, *requests_sent_});
    spdlog::info("cluster {}: transaction timeout {}", config_.name.get(),
                 FormatDuration(transaction_timeout_));
  }
  pool_->Open(*env_);
  pool_->RenewAged();
  Again(ClusterState::kReady, {});
}

void KafkaCluster::Again(ClusterState state, std::string problem) {
  state_ = state;
  problem_ = std::move(problem);
  if (state == ClusterState::kRefused) {
    pool_->Rest();
  } else if (state != ClusterState::kReady) {
    pool_->Close();
  }
  Publish();
  // Soon also after a refusal: the wire client sees to it that the brokers are spared.
  const bool soon = state == ClusterState::kConnecting || state == ClusterState::kUnreachable ||
                    state == ClusterState::kRefused;
  ports_.executor.PostAfter(
      soon ? std::min(kRetryJoin, config_.probe_interval) : config_.probe_interval,
      [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Probe();
      });
}

void KafkaCluster::Failed(const std::string& what, const Error& error) {
  if (IsRefusal(error.code)) return Refuse(what + error.message);
  Again(serving_ ? ClusterState::kUnreachable : ClusterState::kConnecting, what + ToString(error));
}

void KafkaCluster::Refuse(std::string problem) {
  Again(ClusterState::kRefused, std::move(problem));
}

// ---- Status -------------------------------------------------------------------------------------

ClusterState KafkaCluster::StateNow(std::string& problem) const {
  problem = problem_;
  if (state_ != ClusterState::kReady) return state_;
  const LanePool::Census& census = pool_->census();
  problem = census.trouble ? "lanes: " + ToString(*census.trouble) : fencer_->problem();
  if (census.idle + census.busy > 0) return ClusterState::kReady;
  if (!census.trouble) return served_before_ ? ClusterState::kReady : ClusterState::kConnecting;
  // Not for kFailedPrecondition: of another Kafka cluster the next look tells.
  if (census.trouble->code != Code::kFailedPrecondition && IsRefusal(census.trouble->code)) {
    return ClusterState::kRefused;
  }
  return served_before_ ? ClusterState::kUnreachable : ClusterState::kConnecting;
}

void KafkaCluster::Publish() {
  coordinator::ClusterStatus now;
  now.state = StateNow(now.problem);
  const LanePool::Census& census = pool_->census();
  served_before_ = served_before_ || census.idle + census.busy > 0;
  if (bound_) now.kafka_cluster_id = *bound_;
  now.check_markers = check_markers_;
  now.transaction_version = transaction_version_;
  now.lanes_max = config_.lanes_max;
  now.lanes_idle = census.idle;
  now.lanes_busy = census.busy;
  now.lanes_renewing = census.renewing;
  const std::lock_guard lock(mutex_);
  if (now.state != status_.state || now.problem != status_.problem) {
    const auto level = now.problem.empty() ? spdlog::level::info : spdlog::level::warn;
    spdlog::log(level, "cluster {}: {}{}{}", config_.name.get(), coordinator::Name(now.state),
                now.problem.empty() ? "" : ": ", now.problem);
  }
  status_ = std::move(now);
}

coordinator::ClusterStatus KafkaCluster::status() const {
  const std::lock_guard lock(mutex_);
  coordinator::ClusterStatus now = status_;
  now.kafka_requests = requests_sent_->load();
  return now;
}

std::optional<txn::Refusal> KafkaCluster::Refusing() const {
  const coordinator::ClusterStatus now = status();
  if (now.state == ClusterState::kMismatch) {
    return txn::Refusal{txn::AbortReason::kClusterMismatch, config_.name, now.problem, false};
  }
  if (now.state == ClusterState::kRefused) {
    return txn::Refusal{txn::AbortReason::kClusterUnavailable, config_.name, now.problem, false};
  }
  return std::nullopt;  // Away for now: it may be back before the time is up.
}

txn::Refusal KafkaCluster::WaitedInVain() const {
  const coordinator::ClusterStatus now = status();
  const std::string why =
      now.state == ClusterState::kReady
          ? "all lanes are in use (" + std::to_string(config_.lanes_max) + " at most)"
          : std::string(coordinator::Name(now.state)) + ": " + now.problem;
  return {txn::AbortReason::kClusterUnavailable, config_.name, "no lane became free: " + why, true};
}

// ---- Resolution by name -------------------------------------------------------------------------

Status KafkaCluster::MayAsk(const txn::ParticipantName& name) const {
  if (Status reached = Reached(); !reached.ok()) return reached;
  if (name.kafka_cluster_id == *bound_) return {};
  return MakeError(Code::kFailedPrecondition,
                   "cluster '" + config_.name.get() + "' is Kafka cluster " + bound_->get() +
                       "; the transaction is on " + name.kafka_cluster_id.get());
}

template <typename T>
void KafkaCluster::Answer(const coordinator::Callback<T>& done, T answer) {
  ports_.executor.Post([done, answer = std::move(answer)] { done(answer); });
}

void KafkaCluster::Describe(const txn::ParticipantName& name,
                            coordinator::Callback<Result<txn::TxnDescription>> done) {
  if (Status may = MayAsk(name); !may.ok()) {
    return Answer<Result<txn::TxnDescription>>(done, may.error());
  }
  wire_.DescribeTransaction(name.transactional_id, config_.request_timeout, std::move(done));
}

void KafkaCluster::EndTxn(const txn::ParticipantName& name, txn::Direction direction,
                          coordinator::Callback<txn::EndTxnAnswer> done) {
  if (Status may = MayAsk(name); !may.ok()) {
    return Answer<txn::EndTxnAnswer>(done, {.problem = may.error().message});
  }
  pool_->Touch(name.transactional_id);
  kafka::EndTxn(wire_, name, direction, config_.request_timeout, std::move(done));
}

void KafkaCluster::LogEnds(std::vector<txn::TopicPartition> partitions,
                           coordinator::Callback<Result<std::vector<txn::Evidence>>> done) {
  using Ends = Result<std::vector<txn::Evidence>>;
  if (Status reached = Reached(); !reached.ok()) return Answer<Ends>(done, reached.error());
  kafka::LogEnds(wire_, std::move(partitions), config_.request_timeout, std::move(done));
}

void KafkaCluster::KnowsGroup(std::string group_id, coordinator::Callback<Result<bool>> done) {
  if (Status reached = Reached(); !reached.ok()) return Answer<Result<bool>>(done, reached.error());
  wire_.DescribeGroup(std::move(group_id), config_.request_timeout,
                      [done = std::move(done)](const Result<wire::GroupFacts>& facts) {
                        if (!facts.ok()) return done(facts.error());
                        done(facts->exists);
                      });
}

void KafkaCluster::ReadMarkers(const txn::PreparedParticipant& participant,
                               coordinator::Callback<Result<std::vector<txn::MarkerFound>>> done) {
  using Answers = Result<std::vector<txn::MarkerFound>>;
  if (Status may = MayAsk(participant.name); !may.ok()) return Answer<Answers>(done, may.error());
  if (participant.evidence.empty()) return Answer<Answers>(done, std::vector<txn::MarkerFound>{});
  kafka::ReadMarkers(wire_, participant, kMarkerTime, std::move(done));
}

void KafkaCluster::CheckMarkers(
    const txn::PreparedParticipant& participant,
    coordinator::Callback<Result<std::vector<txn::TopicPartition>>> done) {
  using Answers = Result<std::vector<txn::TopicPartition>>;
  if (Status may = MayAsk(participant.name); !may.ok()) return Answer<Answers>(done, may.error());
  if (participant.evidence.empty())
    return Answer<Answers>(done, std::vector<txn::TopicPartition>{});
  kafka::CheckMarkers(wire_, participant, config_.request_timeout, std::move(done));
}

void KafkaCluster::RepairMarkers(const txn::PreparedParticipant& participant,
                                 std::vector<txn::TopicPartition> partitions,
                                 coordinator::Callback<Status> done) {
  if (Status may = MayAsk(participant.name); !may.ok()) return Answer(done, may);
  // A late copy of it would commit whatever the lane then writes under the same epoch.
  pool_->Touch(participant.name.transactional_id);
  kafka::RepairMarkers(wire_, participant, partitions, config_.request_timeout, std::move(done));
}

// ---- Orphans ------------------------------------------------------------------------------------

Status KafkaCluster::Reached() const {
  if (bound_) return {};
  return MakeError(Code::kUnavailable, "cluster '" + config_.name.get() + "' was not reached yet");
}

void KafkaCluster::ListOrphans(coordinator::Callback<Result<coordinator::OrphanListing>> done) {
  if (Status reached = Reached(); !reached.ok()) {
    return Answer<Result<coordinator::OrphanListing>>(done, reached.error());
  }
  // What is in doubt here is looked after, although it may be of the log that ours was restored
  // from.
  kafka::ListOrphans(wire_, log_id_, pending_, config_.request_timeout, std::move(done));
}

void KafkaCluster::EndOrphan(coordinator::Orphan orphan, txn::Direction direction,
                             coordinator::Callback<Result<txn::TxnDescription>> done) {
  if (Status reached = Reached(); !reached.ok()) {
    return Answer<Result<txn::TxnDescription>>(done, reached.error());
  }
  if (Status may = CheckOrphanId(orphan.transactional_id, log_id_); !may.ok()) {
    return Answer<Result<txn::TxnDescription>>(done, may.error());
  }
  if (pending_.contains(orphan.transactional_id)) {
    return Answer<Result<txn::TxnDescription>>(
        done, MakeError(Code::kInvalidArgument,
                        orphan.transactional_id.get() +
                            " is in doubt on this server, which looks after it itself"));
  }
  kafka::EndOrphan(wire_, std::move(orphan), direction, config_.request_timeout, std::move(done));
}

}  // namespace lockstep::kafka
