#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fakes.h"
#include "lockstep/client.h"
#include "relay.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/thread_executor.h"

namespace lockstep::client {

/// One life of a server: the real one, over fakes.
struct Node {
  Node(const server::Config& with, std::uint64_t incarnation,
       std::vector<txn::Decision> recovered = {})
      : config(with) {
    log.SetIncarnation(incarnation);
    for (auto& decision : recovered) log.Recover(std::move(decision));
    EXPECT_TRUE(daemon.Listen().ok());
    EXPECT_TRUE(daemon.Serve().ok());
  }
  ~Node() { daemon.Stop(Duration::zero()); }

  std::optional<txn::Decision> DecisionOn(const std::string& id) {
    return *log.Find(GlobalTxnId(id));
  }

  const server::Config config;
  server::SystemClock clock;
  server::ThreadExecutor executor;
  server::FakeLog log{executor};
  server::FakeCluster east{"east", executor};
  server::FakeCluster west{"west", executor};
  server::Daemon daemon{config,   log,   {&east, &west},
                        executor, clock, [](const lockstep::Error&) {}};
};

/// The client, a relay that loses what the test says, and the server behind it.
class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    config_ = std::get<server::Config>(
        server::ParseConfig("data_dir: /nowhere\nlisten: 127.0.0.1:0\n"
                            "clusters: [{name: east, bootstrap_servers: 'h:1'}, {name: west, "
                            "bootstrap_servers: 'h:2'}]"));
  }

  /// With config_ and options_ as they are now.
  void Start() {
    node_ = std::make_unique<Node>(config_, 1);
    relay_.LeadTo(node_->daemon.port());
    options_.server = "127.0.0.1:" + std::to_string(relay_.port());
    client_ = std::make_unique<Client>(options_);
  }
  /// The server dies, whoever waits is cut off, and another one comes up with what was logged.
  void Restart(std::vector<txn::Decision> recovered) {
    relay_.Cut();
    node_->daemon.Drain([] {});  // Calls that nobody waits for any more would keep it from ending.
    node_.reset();
    node_ = std::make_unique<Node>(config_, 2, std::move(recovered));
    relay_.LeadTo(node_->daemon.port());
  }

  Transaction Begin() {
    auto begun = client_->Begin({.txn_timeout = std::chrono::seconds(60), .label = "test"});
    EXPECT_TRUE(begun.ok()) << ToString(begun.error());
    return *std::move(begun);
  }
  Transaction BeginWithWork() {
    Transaction txn = Begin();
    EXPECT_TRUE(txn.Produce("east", {.topic = "orders", .value = "v"}).ok());
    EXPECT_TRUE(txn.Produce("west", {.topic = "orders", .value = "v"}).ok());
    return txn;
  }
  TxnState StateOf(const std::string& id) {
    const auto info = client_->GetTxn(id);
    EXPECT_TRUE(info.ok()) << ToString(info.error());
    return info->state;
  }

  server::Config config_;
  std::unique_ptr<Node> node_;
  Relay relay_;
  ClientOptions options_{.call_timeout = std::chrono::seconds(20)};
  std::unique_ptr<Client> client_;
};

}  // namespace lockstep::client
