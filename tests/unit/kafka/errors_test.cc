#include "kafka/errors.h"

#include <gtest/gtest.h>

namespace lockstep::kafka {
namespace {

using txn::AbortReason;

std::vector<rd_kafka_resp_err_t> AllCodes() {
  const rd_kafka_err_desc* descriptions = nullptr;
  std::size_t count = 0;
  rd_kafka_get_err_descs(&descriptions, &count);
  std::vector<rd_kafka_resp_err_t> codes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto code = descriptions[i].code;
    const bool gap = descriptions[i].name == nullptr;
    if (gap || code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR__BEGIN ||
        code == RD_KAFKA_RESP_ERR__END || code == RD_KAFKA_RESP_ERR_END_ALL) {
      continue;
    }
    codes.push_back(code);
  }
  return codes;
}

TEST(ErrorsTest, EveryCodeOfThisLibrdkafkaIsListed) {
  ASSERT_GT(AllCodes().size(), 150u);
  for (const auto code : AllCodes()) {
    EXPECT_TRUE(IsListed(code)) << code << " " << rd_kafka_err2name(code);
  }
}

TEST(ErrorsTest, EveryCodeHasFactsThatAgreeWithEachOther) {
  for (const auto code : AllCodes()) {
    SCOPED_TRACE(rd_kafka_err2name(code));
    const ErrorFacts facts = FactsOf(code);
    EXPECT_NE(facts.reason, AbortReason::kNone);
    // A refusal that names a mistake of the caller's is not mended by trying again.
    const bool callers = facts.reason == AbortReason::kUnknownTopic ||
                         facts.reason == AbortReason::kUnknownPartition ||
                         facts.reason == AbortReason::kRecordTooLarge ||
                         facts.reason == AbortReason::kInvalidRecord ||
                         facts.reason == AbortReason::kNotAuthorized ||
                         facts.reason == AbortReason::kGroupFenced;
    EXPECT_FALSE(callers && facts.retriable);
    EXPECT_FALSE(callers && facts.effect == Effect::kUnknown);
    // Never "applied": librdkafka calls what happened a success.
    EXPECT_NE(facts.effect, Effect::kApplied);
    if (facts.reason == AbortReason::kProducerFenced) {
      EXPECT_EQ(facts.damage, Damage::kProducer);
    }
  }
}

TEST(ErrorsTest, ACodeOfTheFutureIsTakenWithCare) {
  for (const int code : {-137, 999}) {
    const auto error = static_cast<rd_kafka_resp_err_t>(code);
    EXPECT_FALSE(IsListed(error));
    const ErrorFacts facts = FactsOf(error);
    EXPECT_EQ(facts.effect, Effect::kUnknown);
    EXPECT_EQ(facts.damage, Damage::kProducer);
    EXPECT_FALSE(facts.retriable);
  }
}

TEST(ErrorsTest, WhatNoBrokerAnsweredIsUnknown) {
  for (const auto code : {RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR__TIMED_OUT,
                          RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RD_KAFKA_RESP_ERR__PURGE_INFLIGHT,
                          RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_NOT_COORDINATOR}) {
    EXPECT_EQ(FactsOf(code).effect, Effect::kUnknown) << rd_kafka_err2name(code);
    EXPECT_TRUE(FactsOf(code).retriable) << rd_kafka_err2name(code);
  }
}

struct Expected {
  rd_kafka_resp_err_t code;
  AbortReason reason;
  Damage damage;
};

TEST(ErrorsTest, ReasonsThatClientsSee) {
  for (const Expected& expected : std::initializer_list<Expected>{
           {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, AbortReason::kRecordTooLarge,
            Damage::kTransaction},
           {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, AbortReason::kUnknownTopic,
            Damage::kTransaction},
           {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, AbortReason::kUnknownPartition,
            Damage::kTransaction},
           {RD_KAFKA_RESP_ERR_INVALID_RECORD, AbortReason::kInvalidRecord, Damage::kTransaction},
           {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, AbortReason::kNotAuthorized,
            Damage::kTransaction},
           {RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AbortReason::kNotAuthorized,
            Damage::kProducer},
           {RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, AbortReason::kGroupFenced, Damage::kTransaction},
           {RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID, AbortReason::kGroupFenced, Damage::kTransaction},
           {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, AbortReason::kGroupFenced, Damage::kTransaction},
           {RD_KAFKA_RESP_ERR__FENCED, AbortReason::kProducerFenced, Damage::kProducer},
           {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, AbortReason::kProducerFenced, Damage::kProducer},
           {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING, AbortReason::kProducerFenced,
            Damage::kProducer},
           {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, AbortReason::kClusterUnavailable,
            Damage::kTransaction},
           {RD_KAFKA_RESP_ERR__QUEUE_FULL, AbortReason::kClusterUnavailable, Damage::kCall},
       }) {
    const ErrorFacts facts = FactsOf(expected.code);
    EXPECT_EQ(facts.reason, expected.reason) << rd_kafka_err2name(expected.code);
    EXPECT_EQ(facts.damage, expected.damage) << rd_kafka_err2name(expected.code);
  }
}

}  // namespace
}  // namespace lockstep::kafka
