// FakeKafka against the contract that real brokers are held to in real_contract_test.cc.

#include <gtest/gtest.h>

#include <iostream>

#include "fake_broker.h"
#include "suite.h"

namespace lockstep::contract {
namespace {

class FakeContract : public ::testing::TestWithParam<int> {};

TEST_P(FakeContract, Holds) {
  FakeBroker broker(static_cast<std::int16_t>(GetParam()));
  Report report;
  CheckEndTxnTable(broker, report);
  CheckBehaviour(broker, report);
  for (const std::string& line : report.Contradictions(broker.name())) ADD_FAILURE() << line;
  EXPECT_GT(report.CountFor(broker.name()), 100u);
}

INSTANTIATE_TEST_SUITE_P(TransactionVersions, FakeContract, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace lockstep::contract
