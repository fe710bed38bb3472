#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/mode.h"
#include "kafka/producer.h"

namespace lockstep::bench {
namespace {

using kafka::Failure;

constexpr std::chrono::seconds kPatience(30);

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos;
       begin = comma + 1, comma = text.find(',', begin)) {
    parts.push_back(text.substr(begin, comma - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// What went wrong, or nothing.
using Problem = std::optional<std::string>;

Problem Told(const char* what, const std::optional<Failure>& failure) {
  if (!failure) return std::nullopt;
  return std::string(what) + ": " + failure->message;
}

/// One cluster's side of the plain pair: some producers, initialised and warmed, in turn. Delivery
/// reports come as events: without them librdkafka waits for deliveries in steps of 10 ms.
class Side {
 public:
  Side(const Cluster& cluster, const Options& options, const std::string& id)
      : cluster_(cluster.name), log_(ClusterName(cluster.name)) {
    const kafka::ClusterConfig config{.name = ClusterName(cluster.name),
                                      .bootstrap_servers = Split(cluster.bootstrap),
                                      .librdkafka = options.librdkafka};
    for (int i = 0; i < options.plain_producers; ++i) {
      auto producer = kafka::Producer::Create(config, TransactionalId(id + "-" + std::to_string(i)),
                                              std::chrono::minutes(1), log_, requests_);
      if (!producer.ok()) throw std::runtime_error("plain pair: " + producer.error().message);
      producers_.push_back(std::move(*producer));
      Check(Init(*producers_.back()));
      Check(Told("the topic's metadata",
                 producers_.back()->Warm(
                     {{options.work.topic, {.partitions = options.work.partitions}}}, kPatience)));
    }
  }

  /// One transaction of `count` copies of the record. Blocks.
  Problem RunOne(const txn::Record& record, int count) {
    kafka::Producer& producer = *producers_[next_++ % producers_.size()];
    Problem problem = Told("begin", producer.BeginTransaction());
    if (!problem) problem = ProduceAll(producer, record, count);
    if (!problem) problem = Told("commit", producer.CommitTransaction(kPatience));
    // For the next one to find it usable; what went wrong is told already.
    if (problem) producer.AbortTransaction(kPatience);
    return problem;
  }

  std::uint64_t Requests() const { return requests_.load(); }

 private:
  static Problem Init(kafka::Producer& producer) {
    const auto until = Clock::now() + kPatience;
    std::optional<Failure> failure;
    do {
      failure = producer.InitTransactions(std::chrono::seconds(5));
    } while (failure && failure->retriable && Clock::now() < until);
    return Told("init_transactions", failure);
  }

  static Problem ProduceAll(kafka::Producer& producer, const txn::Record& record, int count) {
    Problem problem;
    int delivered = 0;
    const auto take = [&](std::chrono::milliseconds wait) {
      producer.TakeReports(wait, [&](const kafka::DeliveryReport& report) {
        ++delivered;
        if (!problem) problem = Told("delivery", report.failure);
      });
    };
    for (int produced = 0; produced < count && !problem;) {
      const auto failure = producer.Produce(record, 0);
      if (!failure) {
        ++produced;
      } else if (failure->code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        take(std::chrono::seconds(1));
      } else {
        problem = Told("produce", failure);
      }
    }
    const auto until = Clock::now() + kPatience;
    while (!problem && delivered < count) {
      if (Clock::now() > until) return "deliveries take too long";
      take(std::chrono::seconds(1));
    }
    return problem;
  }

  void Check(const Problem& problem) const {
    if (problem) throw std::runtime_error("plain pair, cluster " + cluster_ + ": " + *problem);
  }

  const std::string cluster_;
  kafka::LogBridge log_;
  std::atomic<std::uint64_t> requests_{0};
  std::vector<std::unique_ptr<kafka::Producer>> producers_;
  std::size_t next_ = 0;
};

/// A thread that runs a side when it is told to, so that the clusters work at the same time.
class SideThread {
 public:
  explicit SideThread(Side& side) : side_(side), thread_([this] { Work(); }) {}
  ~SideThread() {
    Signal(kStop);
    thread_.join();
  }
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  void Start(const txn::Record& record, int count) {
    record_ = &record;
    count_ = count;
    Signal(kGo);
  }
  Problem Await() {
    state_.wait(kGo);
    return problem_;
  }

 private:
  enum State { kIdle, kGo, kStop };

  void Signal(State state) {
    state_.store(state);
    state_.notify_all();
  }
  void Work() {
    for (;;) {
      state_.wait(kIdle);
      if (state_.load() == kStop) return;
      problem_ = side_.RunOne(*record_, count_);
      Signal(kIdle);
    }
  }

  Side& side_;
  // Handed over by state_.
  const txn::Record* record_ = nullptr;
  int count_ = 0;
  Problem problem_;
  std::atomic<State> state_{kIdle};
  std::thread thread_;
};

/// The sides of one worker.
class Group {
 public:
  Group(const Options& options, const std::string& id) {
    for (const Cluster& cluster : options.work.clusters) {
      sides_.push_back(std::make_unique<Side>(cluster, options, id));
    }
    for (std::size_t i = 1; i < sides_.size(); ++i) {
      threads_.push_back(std::make_unique<SideThread>(*sides_[i]));
    }
  }

  /// One transaction on each cluster, all at once. Blocks.
  Problem RunOne(const txn::Record& record, int count) {
    for (const auto& thread : threads_) thread->Start(record, count);
    Problem problem = sides_.front()->RunOne(record, count);
    for (const auto& thread : threads_) {
      const Problem other = thread->Await();
      if (!problem) problem = other;
    }
    return problem;
  }

  std::uint64_t Requests() const {
    std::uint64_t sent = 0;
    for (const auto& side : sides_) sent += side->Requests();
    return sent;
  }

 private:
  std::vector<std::unique_ptr<Side>> sides_;
  std::vector<std::unique_ptr<SideThread>> threads_;  // Before their sides go.
};

class Plain final : public Mode {
 public:
  Plain(const Options& options, bool large)
      : work_(options.work), records_(large ? work_.large_records : work_.records) {
    // Unlike those of any run before: what that left open is not to be waited for.
    const std::string run = std::to_string(Clock::now().time_since_epoch().count());
    const int threads = large ? options.large_threads : options.threads;
    for (int i = 0; i < threads; ++i) {
      groups_.push_back(std::make_unique<Group>(
          options, "bench-" + run + (large ? "-large-" : "-") + std::to_string(i)));
    }
  }

  void Run(Tickets& tickets, Recorder& recorder) override {
    RunThreads(static_cast<int>(groups_.size()), tickets, [&](int thread, TimePoint due) {
      const txn::Record record{.topic = work_.topic,
                               .partition = next_++ % work_.partitions,
                               .value = std::string(work_.bytes, 'x')};
      const Problem problem = groups_[static_cast<std::size_t>(thread)]->RunOne(record, records_);
      if (problem) return recorder.Failed("plain pair: " + *problem);
      recorder.Committed(due);
    });
  }

  std::uint64_t KafkaRequests() const override {
    std::uint64_t sent = 0;
    for (const auto& group : groups_) sent += group->Requests();
    return sent;
  }

 private:
  const Work work_;
  const int records_;
  std::atomic<int> next_{0};
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace

std::unique_ptr<Mode> MakePlain(const Options& options, bool large) {
  return std::make_unique<Plain>(options, large);
}

}  // namespace lockstep::bench
