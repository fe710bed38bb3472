// The modes that a thread carries: one transaction at a time, call by call.

#include <grpcpp/grpcpp.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>

#include "bench/mode.h"
#include "client/credentials.h"
#include "lockstep/client.h"
#include "lockstep/rdkafka.h"

namespace lockstep::bench {
namespace {

client::ClientOptions ClientOptionsOf(const Options& options) {
  return {.server = options.server, .security = options.security, .call_timeout = options.timeout};
}

client::Record RecordOf(const Work& work, int number) {
  return {.topic = work.topic,
          .value = std::string(work.bytes, 'x'),
          .partition = number % work.partitions};
}

template <typename T>
std::string Text(const client::Result<T>& failed) {
  return client::ToString(failed.error());
}

/// Tells how it ended. `begun`: when Commit was called.
void RecordEnd(const client::Result<client::TxnResult>& result, TimePoint due, TimePoint begun,
               Recorder& recorder) {
  if (!result.ok()) return recorder.Failed(Text(result));
  if (result->outcome == client::Outcome::kCommitted) {
    return recorder.Committed(due, Clock::now() - begun);
  }
  recorder.Failed(std::string(client::Name(result->outcome)) + " " + result->abort.reason + " " +
                  result->abort.message);
}

/// Begin, add the work, Commit: what the modes here share.
class ClientMode : public Mode {
 public:
  explicit ClientMode(const Options& options)
      : options_(options), client_(ClientOptionsOf(options)) {}

  void Run(Tickets& tickets, Recorder& recorder) override {
    RunThreads(threads(), tickets, [&](int, TimePoint due) { RunOne(due, recorder); });
  }

 protected:
  virtual int threads() const { return options_.threads; }
  virtual client::Status Add(client::Transaction& txn, int number) = 0;

  const Options options_;
  client::Client client_;

 private:
  void RunOne(TimePoint due, Recorder& recorder) {
    auto txn = client_.Begin({.txn_timeout = options_.timeout});
    if (!txn.ok()) return recorder.Failed(Text(txn));
    if (const auto added = Add(*txn, next_++); !added.ok()) {
      return recorder.Failed(client::ToString(added.error()));
    }
    const TimePoint begun = Clock::now();
    RecordEnd(txn->Commit(), due, begun, recorder);
  }

  std::atomic<int> next_{0};
};

class Managed final : public ClientMode {
 public:
  using ClientMode::ClientMode;

 private:
  client::Status Add(client::Transaction& txn, int number) override {
    const auto count = static_cast<std::size_t>(options_.work.records);
    const std::vector<client::Record> records(count, RecordOf(options_.work, number));
    for (const Cluster& cluster : options_.work.clusters) {
      if (const auto added = txn.ProduceAll(cluster.name, records); !added.ok()) return added;
    }
    return {};
  }
};

/// ProduceStream is not in the C++ client, so its stub is called. The clusters take turns, message
/// by message; gRPC's flow control holds the thread back.
class Large final : public ClientMode {
 public:
  explicit Large(const Options& options)
      : ClientMode(options),
        stub_(v1::Coordinator::NewStub(client::ChannelTo(options.server, options.security))) {}

 private:
  static constexpr std::size_t kMessageBytes = 256 * 1024;

  int threads() const override { return options_.large_threads; }

  client::Status Add(client::Transaction& txn, int number) override {
    const Work& work = options_.work;
    const int fit = static_cast<int>(std::max<std::size_t>(1, kMessageBytes / (work.bytes + 32)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options_.timeout);
    v1::ProduceStreamResponse response;
    const auto stream = stub_->ProduceStream(&context, &response);
    std::uint64_t sequence = 0;
    bool open = true;
    for (int sent = 0; open && sent < work.large_records; sent += fit) {
      v1::ProduceStreamRequest message = Message(std::min(fit, work.large_records - sent), number);
      for (const Cluster& cluster : work.clusters) {
        message.set_txn_id(txn.id());
        message.set_cluster(cluster.name);
        message.set_sequence(sequence++);
        open = open && stream->Write(message);
      }
    }
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    if (status.ok()) return {};
    return client::Error{.message = "ProduceStream: " + status.error_message()};
  }

  v1::ProduceStreamRequest Message(int records, int number) const {
    v1::ProduceStreamRequest message;
    for (int i = 0; i < records; ++i) {
      v1::Record& record = *message.add_records();
      record.set_topic(options_.work.topic);
      record.set_partition(number % options_.work.partitions);
      record.set_value(std::string(options_.work.bytes, 'x'));
    }
    return message;
  }

  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

/// A thread has a producer on each cluster.
class Enlisted final : public Mode {
 public:
  explicit Enlisted(const Options& options) : options_(options), client_(ClientOptionsOf(options)) {
    rd_kafka_conf_destroy(Conf(""));  // A setting that is wrong is told here, not in Run.
    const std::string run = std::to_string(Clock::now().time_since_epoch().count());
    for (int i = 0; i < options.threads; ++i) {
      auto& producers = producers_.emplace_back();
      for (const Cluster& cluster : options.work.clusters) {
        producers.push_back(std::make_unique<rdkafka::Producer>(rdkafka::ProducerOptions{
            .cluster = cluster.name,
            .transactional_id = "bench-" + run + "-enlisted-" + std::to_string(i),
            .conf = [this, bootstrap = cluster.bootstrap] { return Conf(bootstrap); }}));
      }
    }
  }

  void Run(Tickets& tickets, Recorder& recorder) override {
    RunThreads(options_.threads, tickets,
               [&](int thread, TimePoint due) { RunOne(thread, due, recorder); });
  }

 private:
  rd_kafka_conf_t* Conf(const std::string& bootstrap) const {
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    const auto set = [conf](const std::string& key, const std::string& value) {
      char why[512];
      if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), why, sizeof why) !=
          RD_KAFKA_CONF_OK) {
        throw std::runtime_error("librdkafka: " + std::string(why));
      }
    };
    set("bootstrap.servers", bootstrap);
    set("linger.ms", "0");
    for (const auto& [key, value] : options_.librdkafka) set(key, value);
    return conf;
  }

  void RunOne(int thread, TimePoint due, Recorder& recorder) {
    std::vector<rdkafka::Producer*> producers;
    for (const auto& each : producers_[static_cast<std::size_t>(thread)]) {
      producers.push_back(each.get());
    }
    auto txn = rdkafka::Transaction::Begin(client_, producers, {.txn_timeout = options_.timeout});
    if (!txn.ok()) return recorder.Failed(Text(txn));
    const client::Record record = RecordOf(options_.work, next_++);
    for (rdkafka::Producer* producer : producers) {
      for (int i = 0; i < options_.work.records; ++i) {
        if (const auto produced = producer->Produce(record); !produced.ok()) {
          return recorder.Failed(client::ToString(produced.error()));
        }
      }
    }
    const TimePoint begun = Clock::now();
    RecordEnd(txn->Commit(), due, begun, recorder);
  }

  const Options options_;
  client::Client client_;
  std::vector<std::vector<std::unique_ptr<rdkafka::Producer>>> producers_;
  std::atomic<int> next_{0};
};

}  // namespace

std::unique_ptr<Mode> MakeManaged(const Options& options) {
  return std::make_unique<Managed>(options);
}
std::unique_ptr<Mode> MakeLarge(const Options& options) { return std::make_unique<Large>(options); }
std::unique_ptr<Mode> MakeEnlisted(const Options& options) {
  return std::make_unique<Enlisted>(options);
}

}  // namespace lockstep::bench
