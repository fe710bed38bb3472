#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lockstep/rdkafka.h"
#include "rdkafka/failure.h"

namespace lockstep::rdkafka {

/// One rd_kafka_t under one registration, and what it has written in the transaction of now. One
/// thread. Destroying it ends nothing: what is open stays open, and what is not sent never is.
class Instance {
 public:
  /// Registers and initialises: aborts what the id has left undecided. `options` outlives it.
  static client::Result<std::unique_ptr<Instance>> Create(client::Client& client,
                                                          const ProducerOptions& options,
                                                          const Deadline& deadline);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const client::Registration& registration() const { return registration_; }
  rd_kafka_t* handle() const { return handle_; }

  /// Local: no broker hears of it.
  client::Status BeginTransaction();
  client::Status Produce(const client::Record& record, const Deadline& deadline);
  client::Status SendOffsets(const client::GroupOffsets& offsets, const Deadline& deadline);

  /// Waits for every delivery report. OK: all that was produced is acknowledged.
  client::Status Flush(const Deadline& deadline);
  /// The transaction is to be aborted: waits for what is queued or on its way, so that nothing
  /// arrives after the end. False: something may.
  bool Quiesce(const Deadline& deadline);
  /// After a Flush that was OK.
  client::EnlistedWork Work() const;

  /// The producer's own end, after the same one of the global transaction: a retry, for the broker.
  /// False: not known to have succeeded, so that this instance must not be used any more. Blocks
  /// for some seconds at most.
  bool End(bool commit);

 private:
  explicit Instance(const ProducerOptions& options) : options_(options) {}
  client::Status Make();
  client::Result<rd_kafka_topic_t*> Warm(const std::string& topic, const Deadline& deadline);
  static void OnReport(rd_kafka_t* handle, const rd_kafka_message_t* message, void* opaque);
  void Count(const rd_kafka_message_t& message);
  std::string Called(const std::string& call) const;

  const ProducerOptions& options_;
  client::Registration registration_;
  rd_kafka_t* handle_ = nullptr;
  std::map<std::string, rd_kafka_topic_t*> topics_;  // Those whose metadata are here.

  // Of the transaction of now.
  std::int64_t unreported_ = 0;
  std::map<std::pair<std::string, std::int32_t>, std::int64_t> acknowledged_;  // Highest offsets.
  std::set<std::string> groups_;
  std::optional<client::Error> failure_;  // It must not commit.
};

}  // namespace lockstep::rdkafka
