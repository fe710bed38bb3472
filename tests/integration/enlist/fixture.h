#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "gate.h"
#include "kafka_reader.h"
#include "lockstepd.h"
#include "own_producer.h"
#include "txn/resolve.h"
#include "wire/protocol/codec.h"

namespace lockstep::testing {

using Values = std::vector<std::string>;

inline constexpr char kTopic[] = "orders";  ///< Two partitions, on both clusters.

/// A lockstepd with two clusters, a and b, and producers of the application's own on them.
///
/// All tests of the program have the same brokers: a is behind a gate. LOCKSTEP_A and LOCKSTEP_B
/// say which: "4.4.0" or, with the cluster's transaction.version, "4.4.0:1".
class EnlistTest : public ::testing::Test {
 protected:
  EnlistTest();

  static const std::string& Bootstrap(const std::string& cluster);
  static int TransactionVersion(const std::string& cluster);
  /// The network before cluster a.
  static Gate& gate();
  /// lockstepd's next request of this kind to cluster a is held by the gate.
  static void HoldNext(wire::protocol::ApiKey api_key);
  void AwaitHeld();

  void Serve(const std::vector<std::string>& failpoints = {});

  /// A producer of this test's own id on the cluster. Lives as long as the test.
  OwnProducer& Make(const std::string& cluster, std::chrono::milliseconds timeout,
                    v1::ProducerProtocol protocol = v1::PRODUCER_PROTOCOL_TV1);
  OwnProducer& Make(const std::string& cluster) { return Make(cluster, std::chrono::minutes(1)); }
  OwnProducer& Started(const std::string& cluster);

  /// This test's values are its own on the shared topic.
  std::string Value(const std::string& text) const { return name_ + " " + text; }

  std::string Begin() { return TestTxn(daemon_.coordinator()).id(); }
  void Write(OwnProducer& producer, const std::string& text) const;
  void EnlistAndWrite(OwnProducer& producer, const std::string& txn, const std::string& text);
  void EnlistAndWrite(const std::vector<OwnProducer*>& producers, const std::string& txn,
                      const std::string& text);

  /// Until the log's files show that so many producers are enlisted in it: a crash within the 50 ms
  /// before may forget that, and leaves the branch to Kafka's time-out.
  void AwaitStored(const std::string& txn, int producers);

  static v1::CommitRequest CommitOf(const std::string& txn,
                                    const std::vector<OwnProducer*>& producers);
  grpc::Status TryCommit(const v1::CommitRequest& request, v1::CommitResponse* response);
  grpc::Status TryCommit(const std::string& txn, const std::vector<OwnProducer*>& producers,
                         v1::CommitResponse* response) {
    return TryCommit(CommitOf(txn, producers), response);
  }
  v1::CommitResponse Commit(const std::string& txn, const std::vector<OwnProducer*>& producers);
  v1::AbortResponse Abort(const std::string& txn);
  v1::TxnState StateOf(const std::string& txn);
  void AwaitState(const std::string& txn, v1::TxnState state);

  Values Visible(const std::string& cluster, Open open) const;
  void ExpectVisible(const Values& on_a, const Values& on_b,
                     Open open = Open::kAwaitTheirEnd) const;
  void ExpectOnBoth(const Values& values, Open open = Open::kAwaitTheirEnd) const {
    ExpectVisible(values, values, open);
  }

  static txn::TxnDescription Describe(const OwnProducer& producer, const std::string& cluster);
  void AwaitState(const OwnProducer& producer, const std::string& cluster,
                  txn::KafkaTxnState state);
  /// Its enlistments on both clusters have left lockstepd's memory: a kill loses none any more.
  void AwaitEnlistmentsWritten(const std::string& txn);

  /// A transaction over both, from start to end, that the next ones need not care about.
  void ExpectOneCommits(OwnProducer& a, OwnProducer& b, const std::string& text);
  void ExpectFenced(OwnProducer& producer);

  const std::string name_;
  Lockstepd daemon_;
  std::list<OwnProducer> producers_;
};

}  // namespace lockstep::testing
