#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kafka/producer.h"

/// What Lockstep is compared to: two librdkafka producers without atomicity between them, with the
/// best known settings, pooled and warmed.
namespace lockstep::bench {

struct PlainOptions {
  std::string a;  ///< Bootstrap servers.
  std::string b;
  std::string topic = "bench";  ///< On both.
  int producers = 4;            ///< A cluster, in turn.
  std::size_t size = 100;       ///< Bytes a record.
};

/// One cluster's side of the plain pair.
class PlainSide {
 public:
  PlainSide(const std::string& name, const std::string& bootstrap, const PlainOptions& options)
      : log_(ClusterName(name)) {
    kafka::ClusterConfig config{.name = ClusterName(name), .bootstrap_servers = {bootstrap}};
    record_ = {.topic = options.topic, .partition = 0, .value = std::string(options.size, 'x')};
    for (int i = 0; i < options.producers; ++i) {
      auto producer = kafka::Producer::Create(
          config, TransactionalId("plain-" + name + "-" + std::to_string(i)),
          std::chrono::minutes(1), log_, requests_);
      if (!producer.ok()) Fail("create", producer.error().message);
      std::optional<kafka::Failure> failure;
      do {
        failure = (*producer)->InitTransactions(std::chrono::seconds(10));
      } while (failure && failure->retriable);
      Check(failure, "init_transactions");
      Check((*producer)->Warm({{options.topic, {.partitions = 1}}}, std::chrono::seconds(10)),
            "warm");
      producers_.push_back(std::move(*producer));
    }
  }

  void RunOne() {
    kafka::Producer& producer = *producers_[next_++ % producers_.size()];
    Check(producer.BeginTransaction(), "begin");
    Check(producer.Produce(record_, 0), "produce");
    bool delivered = false;
    while (!delivered) {
      producer.TakeReports(std::chrono::seconds(1), [&](const kafka::DeliveryReport& report) {
        Check(report.failure, "delivery");
        delivered = true;
      });
    }
    Check(producer.CommitTransaction(std::chrono::seconds(10)), "commit");
  }

 private:
  [[noreturn]] static void Fail(const char* what, const std::string& message) {
    std::cerr << "plain pair: " << what << ": " << message << "\n";
    std::exit(1);
  }
  static void Check(const std::optional<kafka::Failure>& failure, const char* what) {
    if (failure) Fail(what, failure->message);
  }

  kafka::LogBridge log_;
  std::atomic<std::uint64_t> requests_{0};
  txn::Record record_;
  std::vector<std::unique_ptr<kafka::Producer>> producers_;
  std::size_t next_ = 0;
};

/// Both sides at once, the second on a thread of its own that waits for work. Ends the process
/// where anything fails.
class PlainPair {
 public:
  explicit PlainPair(const PlainOptions& options)
      : a_("a", options.a, options), b_("b", options.b, options), worker_([this] { Work(); }) {}
  ~PlainPair() {
    go_.store(kStop);
    go_.notify_one();
    worker_.join();
  }

  /// One transaction with one record on both. Blocks.
  void RunOne() {
    go_.store(kGo);
    go_.notify_one();
    a_.RunOne();
    go_.wait(kGo);
  }

 private:
  enum Signal { kIdle, kGo, kStop };

  void Work() {
    for (;;) {
      go_.wait(kIdle);
      if (go_.load() == kStop) return;
      b_.RunOne();
      Signal expected = kGo;
      go_.compare_exchange_strong(expected, kIdle);
      go_.notify_one();
    }
  }

  PlainSide a_;
  PlainSide b_;
  std::atomic<Signal> go_{kIdle};
  std::thread worker_;
};

}  // namespace lockstep::bench
