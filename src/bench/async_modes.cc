// The modes whose calls are answered where gRPC calls back: one thread begins all transactions.

#include <grpcpp/grpcpp.h>
#include <lockstep/v1/coordinator.grpc.pb.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <utility>

#include "bench/mode.h"
#include "client/credentials.h"
#include "lockstep/client.h"

namespace lockstep::bench {
namespace {

std::unique_ptr<v1::Coordinator::Stub> StubOf(const Options& options) {
  return v1::Coordinator::NewStub(client::ChannelTo(options.server, options.security));
}

/// How many transactions are under way, up to a bound.
class Slots {
 public:
  explicit Slots(int count) : count_(count), free_(count) {}

  void Take() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return free_ > 0; });
    --free_;
  }
  bool TryTake() {
    const std::lock_guard lock(mutex_);
    if (free_ == 0) return false;
    --free_;
    return true;
  }
  void Return(int count = 1) {
    const std::lock_guard lock(mutex_);
    free_ += count;
    freed_.notify_all();  // Under the lock: after it we may be gone.
  }
  void AwaitAll() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return free_ == count_; });
  }

 private:
  const int count_;
  std::mutex mutex_;
  std::condition_variable freed_;
  int free_;  // Guarded by mutex_.
};

/// One asynchronous call a transaction.
class CallMode : public Mode {
 public:
  explicit CallMode(int calls) : calls_(calls) {}

  void Run(Tickets& tickets, Recorder& recorder) override {
    Slots slots(calls_);
    for (;;) {
      slots.Take();
      const auto due = tickets.Take();
      if (!due) break;
      std::this_thread::sleep_until(*due);
      Start([&recorder, &slots, due = *due](const std::string& failure) {
        if (failure.empty()) {
          recorder.Committed(due);
        } else {
          recorder.Failed(failure);
        }
        slots.Return();
      });
    }
    slots.Return();
    slots.AwaitAll();
  }

 protected:
  /// Calls `done` once, on any thread, with what went wrong or nothing.
  virtual void Start(std::function<void(const std::string&)> done) = 0;

 private:
  const int calls_;
};

class Execute final : public CallMode {
 public:
  explicit Execute(const Options& options)
      : CallMode(options.clients),
        options_(options),
        client_({.server = options.server,
                 .security = options.security,
                 .call_timeout = options.timeout}) {}

 private:
  void Start(std::function<void(const std::string&)> done) override {
    const Work& work = options_.work;
    std::vector<client::Work> parts;
    const client::Record record{.topic = work.topic,
                                .value = std::string(work.bytes, 'x'),
                                .partition = next_++ % work.partitions};
    for (const Cluster& cluster : work.clusters) {
      parts.push_back(
          {.cluster = cluster.name, .records = {static_cast<std::size_t>(work.records), record}});
    }
    client_.ExecuteAsync(std::move(parts), {.txn_timeout = options_.timeout},
                         [done = std::move(done)](const client::Result<client::Executed>& result) {
                           done(Problem(result));
                         });
  }

  static std::string Problem(const client::Result<client::Executed>& result) {
    if (!result.ok()) return client::ToString(result.error());
    const client::TxnResult& end = result->result;
    if (end.outcome == client::Outcome::kCommitted) return {};
    return std::string(client::Name(end.outcome)) + " " + end.abort.reason + " " +
           end.abort.message;
  }

  const Options options_;
  client::Client client_;
  int next_ = 0;  // Run's thread only.
};

/// GetTxn of one open transaction.
class Call final : public CallMode {
 public:
  explicit Call(const Options& options)
      : CallMode(options.clients), options_(options), stub_(StubOf(options)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options.timeout);
    v1::BeginGlobalTxnRequest begin;
    begin.mutable_timeout()->set_seconds(1);
    v1::BeginGlobalTxnResponse begun;
    const grpc::Status status = stub_->BeginGlobalTxn(&context, begin, &begun);
    if (!status.ok()) throw std::runtime_error("BeginGlobalTxn: " + status.error_message());
    request_.set_txn_id(begun.txn_id());
  }

 private:
  struct UnderWay {
    grpc::ClientContext context;
    v1::GetTxnResponse response;
  };

  void Start(std::function<void(const std::string&)> done) override {
    const auto call = std::make_shared<UnderWay>();
    call->context.set_deadline(std::chrono::system_clock::now() + options_.timeout);
    stub_->async()->GetTxn(&call->context, &request_, &call->response,
                           [call, done = std::move(done)](const grpc::Status& status) {
                             done(status.ok() ? "" : "GetTxn: " + status.error_message());
                           });
  }

  const Options options_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  v1::GetTxnRequest request_;
};

/// One run of Stream: this thread writes, another one reads.
class StreamRun {
 public:
  StreamRun(v1::Coordinator::Stub& stub, int in_flight, Recorder& recorder)
      : recorder_(recorder),
        slots_(in_flight),
        stream_(stub.ExecuteStream(&context_)),
        reader_([this] { Read(); }) {}

  /// Sends transactions as they are due, those of one moment in one message; returns when all are
  /// answered. `fill` adds one to the message and returns its key.
  void Run(Tickets& tickets, int per_message,
           const std::function<std::string(v1::ExecuteStreamRequest&)>& fill) {
    while (!closed_) {
      slots_.Take();
      const auto due = tickets.Take();
      if (!due) break;
      std::this_thread::sleep_until(*due);
      v1::ExecuteStreamRequest message;
      Begin(fill(message), *due);
      while (message.transactions_size() < per_message && slots_.TryTake()) {
        const auto next = tickets.TakeIfDue();
        if (!next) {
          slots_.Return();
          break;
        }
        Begin(fill(message), *next);
      }
      if (!stream_->Write(message)) break;
    }
    stream_->WritesDone();
    reader_.join();
    FailWhatIsLeft();
    const grpc::Status status = stream_->Finish();
    if (!status.ok()) recorder_.Failed("ExecuteStream: " + status.error_message());
  }

 private:
  void Begin(std::string key, TimePoint due) {
    const std::lock_guard lock(mutex_);
    under_way_.emplace(std::move(key), due);
  }

  void Read() {
    v1::ExecuteStreamResponse response;
    while (stream_->Read(&response)) {
      for (const v1::ExecuteAnswer& answer : response.answers()) Take(answer);
      slots_.Return(response.answers_size());
    }
    closed_ = true;
    FailWhatIsLeft();
  }

  void Take(const v1::ExecuteAnswer& answer) {
    std::optional<TimePoint> due;
    {
      const std::lock_guard lock(mutex_);
      const auto found = under_way_.find(answer.key());
      if (found == under_way_.end()) return recorder_.Failed("an answer to no transaction");
      due = found->second;
      under_way_.erase(found);
    }
    if (answer.response().outcome() == v1::OUTCOME_COMMITTED) return recorder_.Committed(*due);
    recorder_.Failed(answer.ShortDebugString());
  }

  /// Nobody will answer: nor is anybody to wait for a slot.
  void FailWhatIsLeft() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      recorder_.Failed("ExecuteStream: the stream ended before the answer");
    }
    slots_.Return(static_cast<int>(under_way_.size()));
    under_way_.clear();
  }

  Recorder& recorder_;
  Slots slots_;
  std::mutex mutex_;
  std::unordered_map<std::string, TimePoint> under_way_;  // By key; guarded by mutex_.
  std::atomic<bool> closed_{false};
  grpc::ClientContext context_;  // Without a deadline: a stream lasts.
  const std::unique_ptr<
      grpc::ClientReaderWriter<v1::ExecuteStreamRequest, v1::ExecuteStreamResponse>>
      stream_;
  std::thread reader_;  // Last: starts when everything else is there.
};

/// One stream a run.
class Stream final : public Mode {
 public:
  explicit Stream(const Options& options)
      : options_(options), key_prefix_(client::NewExecuteKey().name + "-"), stub_(StubOf(options)) {
    const Work& work = options.work;
    for (const Cluster& cluster : work.clusters) {
      v1::ProduceWork& produce = *template_.add_work()->mutable_produce();
      produce.set_cluster(cluster.name);
      for (int i = 0; i < work.records; ++i) {
        v1::Record& record = *produce.add_records();
        record.set_topic(work.topic);
        record.set_value(std::string(work.bytes, 'x'));
      }
    }
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.timeout);
    template_.mutable_timeout()->set_seconds(seconds.count());
  }

  void Run(Tickets& tickets, Recorder& recorder) override {
    StreamRun run(*stub_, options_.in_flight, recorder);
    run.Run(tickets, options_.message, [this](v1::ExecuteStreamRequest& message) {
      return Fill(*message.add_transactions());
    });
  }

 private:
  std::string Fill(v1::ExecuteRequest& request) {
    request = template_;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    request.mutable_key_time()->set_seconds(
        std::chrono::duration_cast<std::chrono::seconds>(now).count());
    request.set_key(key_prefix_ + std::to_string(next_));
    for (v1::Work& work : *request.mutable_work()) {
      for (v1::Record& record : *work.mutable_produce()->mutable_records()) {
        record.set_partition(static_cast<int>(next_ % options_.work.partitions));
      }
    }
    ++next_;
    return request.key();
  }

  const Options options_;
  const std::string key_prefix_;  // Keys are unique for ever.
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  v1::ExecuteRequest template_;
  std::int64_t next_ = 0;  // Run's thread only.
};

}  // namespace

std::unique_ptr<Mode> MakeExecute(const Options& options) {
  return std::make_unique<Execute>(options);
}
std::unique_ptr<Mode> MakeCall(const Options& options) { return std::make_unique<Call>(options); }
std::unique_ptr<Mode> MakeStream(const Options& options) {
  return std::make_unique<Stream>(options);
}

}  // namespace lockstep::bench
