// The contract, held against real brokers. FakeKafka answers beside them, so that the table that is
// printed at the end shows both.

#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "fake_broker.h"
#include "real_broker.h"
#include "suite.h"

namespace lockstep::contract {
namespace {

struct Version {
  const char* kafka;
  int transaction_version;
};

void PrintTo(const Version& version, std::ostream* out) {
  *out << version.kafka << " TV" << version.transaction_version;
}

class RealContract : public ::testing::TestWithParam<Version> {
 protected:
  static void SetUpTestSuite() {
    for (const std::int16_t transaction_version : {0, 1, 2}) {
      FakeBroker fake(transaction_version);
      CheckEndTxnTable(fake, Report_());
      CheckBehaviour(fake, Report_());
    }
  }
  static void TearDownTestSuite() { std::cout << Report_().Table() << std::endl; }
  static Report& Report_() {
    static Report report;
    return report;
  }
};

TEST_P(RealContract, Holds) {
  RealBroker broker(GetParam().kafka, GetParam().transaction_version);
  CheckEndTxnTable(broker, Report_());
  CheckBehaviour(broker, Report_());
  for (const std::string& line : Report_().Contradictions(broker.name())) ADD_FAILURE() << line;
  EXPECT_GT(Report_().CountFor(broker.name()), 100u);
}

INSTANTIATE_TEST_SUITE_P(Brokers, RealContract,
                         ::testing::Values(Version{"3.9.1", 0}, Version{"4.3.1", 0},
                                           Version{"4.3.1", 1}, Version{"4.3.1", 2},
                                           Version{"4.4.0", 0}, Version{"4.4.0", 1},
                                           Version{"4.4.0", 2}));

}  // namespace
}  // namespace lockstep::contract
