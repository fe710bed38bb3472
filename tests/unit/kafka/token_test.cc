#include "kafka/token.h"

#include <gtest/gtest.h>

namespace lockstep::kafka {
namespace {

using std::chrono::seconds;
using Time = std::chrono::system_clock::time_point;

const Time kNow{seconds(1'700'000'000)};

// {"alg":"none"} . {"sub":"me","exp":1700000030} and others: base64url without padding.
constexpr const char* kThirtySeconds =
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSIsImV4cCI6MTcwMDAwMDAzMH0.";
constexpr const char* kExpired = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSIsImV4cCI6MTY5OTk5OTk5OX0.";
constexpr const char* kNextYear = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSIsImV4cCI6MTczMTUzNjAwMH0.";

TEST(TokenTest, IsAskedForAgainWhenItExpires) {
  const TokenFacts facts = FactsOfToken(kThirtySeconds, kNow);
  EXPECT_EQ(facts.subject, "me");
  EXPECT_EQ(facts.use_until, kNow + seconds(30));
  EXPECT_EQ(facts.expires, kNow + seconds(30));
}

TEST(TokenTest, IsAskedForAgainWithinAMinute) {
  EXPECT_EQ(FactsOfToken(kNextYear, kNow).use_until, kNow + seconds(60));
  EXPECT_EQ(FactsOfToken(kNextYear, kNow).expires, kNow + seconds(31'536'000));
  EXPECT_FALSE(FactsOfToken("opaque", kNow).expires.has_value());
}

// librdkafka takes no token of the past; the broker is to say that it is one.
TEST(TokenTest, AnExpiredOneIsGivenAllTheSame) {
  EXPECT_EQ(FactsOfToken(kExpired, kNow).use_until, kNow + seconds(1));
}

TEST(TokenTest, AnythingMayStandThere) {
  for (const char* token :
       {"", "opaque", "a.b", "..", "a.bnVsbA.c", "a.W10.c", "a.eyJzdWIiOjEsImV4cCI6IngifQ.c",
        "a.eyJleHAiOjFlOTk5fQ.c", "a.eyJleHAiOi0xZTMwMH0.c", "a.\xFF\xFE.c"}) {
    const TokenFacts facts = FactsOfToken(token, kNow);
    EXPECT_EQ(facts.subject, "lockstep") << token;
    EXPECT_GE(facts.use_until, kNow + seconds(1)) << token;
    EXPECT_LE(facts.use_until, kNow + seconds(60)) << token;
  }
}

}  // namespace
}  // namespace lockstep::kafka
