#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fake_broker.h"
#include "wire/await.h"
#include "wire/client.h"

namespace lockstep::wire {

using namespace std::chrono_literals;  // NOLINT: for tests only
using testing::Await;
using testing::Pending;

/// Far longer than anything here takes: a call that reaches it has failed to end by itself.
constexpr Duration kLong = 30s;
/// Time enough for a call that is meant to run into its deadline to have sent its request.
constexpr Duration kShort = 1s;

/// A client, and fake brokers for it to talk to.
class ClientTest : public ::testing::Test {
 protected:
  /// One for all tests of the program, as lockstepd has one for all clusters.
  static IoThread& io() {
    static IoThread thread;
    return thread;
  }
  static ClientOptions Options(const std::vector<const FakeBroker*>& brokers) {
    ClientOptions options;
    for (const FakeBroker* broker : brokers) options.bootstrap.push_back(broker->address());
    options.backoff_min = 1ms;
    options.backoff_max = 20ms;
    return options;
  }
  static std::unique_ptr<Client> Connect(const FakeBroker& broker) {
    return std::make_unique<Client>(io(), Options({&broker}));
  }

  /// Makes `broker` answer FindCoordinator with `coordinator`.
  static void CoordinatedBy(FakeBroker& broker, const FakeBroker& coordinator) {
    broker.Handle(protocol::ApiKey::kFindCoordinator, [&](const FakeRequest&, protocol::Writer& w) {
      WriteCoordinator(w, coordinator);
      return true;
    });
  }
  static void WriteEndTxn(protocol::Writer& w, ErrorCode error) {
    w.Int32(0);
    w.Error(error);
    if (w.version() >= 5) {
      w.Int64(7);
      w.Int16(4);
    }
    w.NoTags();
  }
  /// Answers EndTxn with these codes, one after the other, the last one for ever.
  static void AnswerEndTxn(FakeBroker& broker, std::vector<ErrorCode> errors) {
    broker.Handle(protocol::ApiKey::kEndTxn,
                  [errors, next = std::size_t{0}](const FakeRequest&, protocol::Writer& w) mutable {
                    WriteEndTxn(w, errors.at(next));
                    if (next + 1 < errors.size()) ++next;
                    return true;
                  });
  }
  static void WriteDescription(protocol::Writer& w, const std::string& id,
                               const std::string& state) {
    w.Int32(0);
    w.ArrayCount(1);
    w.Error(ErrorCode::kNone);
    w.String(id);
    w.String(state);
    w.Int32(60'000);
    w.Int64(1'700'000'000'000);
    w.Int64(7);
    w.Int16(3);
    w.ArrayCount(0);
    w.NoTags();
    w.NoTags();
  }
  static void AnswerDescribe(FakeBroker& broker) {
    broker.Handle(protocol::ApiKey::kDescribeTransactions,
                  [](const FakeRequest& request, protocol::Writer& w) {
                    protocol::Reader r = request.Read();
                    WriteDescription(w, r.Array([&] { return r.String(); }).at(0), "Ongoing");
                    return true;
                  });
  }

  static EndTxnRequest CommitOf(const std::string& id,
                                txn::EndTxnProtocol protocol = txn::EndTxnProtocol::kTv1) {
    return {TransactionalId(id), ProducerId(7), ProducerEpoch(3), txn::Direction::kCommit,
            protocol};
  }
  static Pending<EndTxnAnswer> StartEndTxn(Client& client, const EndTxnRequest& request,
                                           Duration timeout = kLong,
                                           Attempts attempts = Attempts::kUntilDeadline) {
    return Pending<EndTxnAnswer>(
        [&](auto done) { client.EndTxn(request, attempts, timeout, std::move(done)); });
  }
  static Pending<txn::TxnDescription> StartDescribe(Client& client, const std::string& id,
                                                    Duration timeout = kLong) {
    return Pending<txn::TxnDescription>([&](auto done) {
      client.DescribeTransaction(TransactionalId(id), timeout, std::move(done));
    });
  }
};

}  // namespace lockstep::wire
