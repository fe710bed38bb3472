// What the mechanisms say, and whom they believe.
#include "wire/sasl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// RFC 7677, section 3.
constexpr const char* kNonce = "rOprNGfwEbeRWgbNEkqO";
constexpr const char* kServerFirst =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

std::unique_ptr<SaslClient> RfcClient() {
  return MakeScramClient(SaslMechanism::kScramSha256, "user", "pencil", kNonce);
}

std::string Refusal(const Result<std::optional<std::string>>& answer) {
  if (answer.ok()) return "accepted";
  EXPECT_EQ(answer.error().code, Code::kPermissionDenied);
  return answer.error().message;
}

TEST(ScramTest, SpeaksAsTheRfcDoes) {
  const auto client = RfcClient();
  EXPECT_EQ(client->First(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
  const auto last = client->Next(kServerFirst);
  ASSERT_TRUE(last.ok()) << last.error().message;
  EXPECT_EQ(last->value(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
  const auto end = client->Next("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
  ASSERT_TRUE(end.ok()) << end.error().message;
  EXPECT_FALSE(end->has_value());
}

// Whoever answers without knowing the password is not our broker.
TEST(ScramTest, BelievesNoBrokerThatCannotSign) {
  for (const char* last : {"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "v=", "v=AAAA", "",
                           "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl9", "x=1"}) {
    const auto client = RfcClient();
    ASSERT_TRUE(client->Next(kServerFirst).ok());
    EXPECT_THAT(Refusal(client->Next(last)), HasSubstr("does not know the password")) << last;
  }
  const auto client = RfcClient();
  ASSERT_TRUE(client->Next(kServerFirst).ok());
  EXPECT_THAT(Refusal(client->Next("e=other-error")), HasSubstr("other-error"));
}

TEST(ScramTest, RefusesWhatIsNotAnAnswerToItself) {
  const auto next = [](const std::string& challenge) {
    return Refusal(RfcClient()->Next(challenge));
  };
  EXPECT_THAT(next("r=somebodyelse,s=QSXCR+Q6sek8bf92,i=4096"), HasSubstr("another client's"));
  EXPECT_THAT(next(std::string("r=") + kNonce + ",s=QSXCR+Q6sek8bf92,i=4096"),
              HasSubstr("another client's"))
      << "the broker must add to the nonce";
  const std::string start = std::string("r=") + kNonce + "more,";
  EXPECT_THAT(next(start + "s=QSXCR+Q6sek8bf92,i=4095"), HasSubstr("'4095' iterations"));
  EXPECT_THAT(next(start + "s=QSXCR+Q6sek8bf92,i=100001"), HasSubstr("'100001' iterations"));
  EXPECT_THAT(next(start + "s=QSXCR+Q6sek8bf92,i=4096x"), HasSubstr("iterations"));
  for (const char* rest : {"", "s=,i=4096", "s=A,i=4096", "s=====,i=4096", "i=4096",
                           "s=QSXCR+Q6sek8bf92", "m=ext,s=QSXCR+Q6sek8bf92,i=4096"}) {
    EXPECT_THAT(next(start + rest), HasSubstr("malformed")) << rest;
  }
}

TEST(ScramTest, EscapesNames) {
  const auto client = MakeScramClient(SaslMechanism::kScramSha512, "a,b=c", "pw", "n");
  EXPECT_EQ(client->First(), "n,,n=a=2Cb=3Dc,r=n");
}

SaslConfig FromVariable(SaslMechanism mechanism) {
  ::setenv("LOCKSTEP_TEST_SECRET", "pa,ss=\xC3\xA9", 1);
  return {.mechanism = mechanism, .username = "me", .password = {"", "LOCKSTEP_TEST_SECRET"}};
}

TEST(SaslTest, PlainIsOneMessage) {
  const auto client = MakeSaslClient(FromVariable(SaslMechanism::kPlain));
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->First(), std::string("\0me\0pa,ss=\xC3\xA9", 12));
  const auto end = (*client)->Next("");
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}

TEST(SaslTest, EveryScramLogInHasItsOwnNonce) {
  const auto one = MakeSaslClient(FromVariable(SaslMechanism::kScramSha256));
  const auto other = MakeSaslClient(FromVariable(SaslMechanism::kScramSha256));
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE((*one)->First(), (*other)->First());
  EXPECT_THAT((*one)->First(), Not(HasSubstr("pa,ss")));
}

TEST(SaslTest, AMissingSecretIsNamed) {
  SaslConfig config{.mechanism = SaslMechanism::kPlain, .password = {"/no/such/file", ""}};
  auto client = MakeSaslClient(config);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().message, "sasl.password_file: /no/such/file: No such file or directory");
  config.mechanism = SaslMechanism::kOauthbearer;
  config.token_file = "/no/token";
  client = MakeSaslClient(config);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().message, HasSubstr("sasl.token_file: /no/token"));
}

}  // namespace
}  // namespace lockstep::wire
