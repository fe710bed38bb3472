#include "server/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing::Not;

std::shared_ptr<Policy> Parsed(const std::string& yaml) {
  const PolicyResult read = ParsePolicy(yaml);
  if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&read)) {
    for (const auto& mistake : *mistakes) ADD_FAILURE() << ToString(mistake, "policy");
    return std::make_shared<Policy>(std::vector<Principal>());
  }
  return std::get<std::shared_ptr<Policy>>(read);
}

/// Its one mistake, as it is printed.
std::string MistakeIn(const std::string& yaml) {
  const PolicyResult read = ParsePolicy(yaml);
  const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&read);
  if (mistakes == nullptr) return "none";
  EXPECT_EQ(mistakes->size(), 1U) << yaml;
  return ToString(mistakes->front(), "policy");
}

const std::string kPayments =
    "principals:\n"
    "  - name: payments\n"
    "    certificates: ['uri:spiffe://example.org/payments', dns:payments.example.org]\n"
    "    open_transactions: 5\n"
    "    transaction_timeout: 1m\n"
    "    allow:\n"
    "      - clusters: [east]\n"
    "        topics: [orders, pay-*]\n"
    "        groups: ['*']\n"
    "        transactional_ids: [payments-*]\n"
    "      - clusters: [west]\n"
    "        topics: [audit]\n";

TEST(Policy, AllowsWhatARuleNamesAndNothingElse) {
  const auto policy = Parsed(kPayments);
  const PrincipalPtr payments = policy->Find("payments");
  ASSERT_NE(payments, nullptr);
  EXPECT_TRUE(payments->MayUse("east"));
  EXPECT_FALSE(payments->MayUse("north"));
  EXPECT_TRUE(payments->MayWrite("east", "orders"));
  EXPECT_FALSE(payments->MayWrite("east", "orders2")) << "a literal is no prefix";
  EXPECT_TRUE(payments->MayWrite("east", "pay-1"));
  EXPECT_FALSE(payments->MayWrite("east", "pay"));
  // A rule's clusters go with its own names only.
  EXPECT_FALSE(payments->MayWrite("west", "orders"));
  EXPECT_FALSE(payments->MayWrite("east", "audit"));
  EXPECT_TRUE(payments->MayWrite("west", "audit"));
  EXPECT_TRUE(payments->MayCommitOffsets("east", "any"));
  EXPECT_FALSE(payments->MayCommitOffsets("west", "any"));
  EXPECT_TRUE(payments->MayEnlist("east", "payments-1"));
  EXPECT_FALSE(payments->MayEnlist("east", "payment-1"));
  EXPECT_EQ(payments->open_transactions, 5U);
  EXPECT_EQ(payments->transaction_timeout, std::chrono::minutes(1));
  EXPECT_EQ(payments->role, Role::kClient);
}

TEST(Policy, FindsWhoCallsByCertificateOrToken) {
  const auto policy = Parsed(kPayments + "  - name: ops\n    role: operator\n    tokens: [sha256:" +
                             HashToken("secret") + "]\n");
  EXPECT_EQ(policy->OfCertificate("uri:spiffe://example.org/payments")->name, "payments");
  EXPECT_EQ(policy->OfCertificate("uri:spiffe://example.org/payment"), nullptr);
  EXPECT_EQ(policy->OfCertificate("dns:spiffe://example.org/payments"), nullptr)
      << "of another kind";
  EXPECT_EQ(policy->OfToken("secret")->name, "ops");
  EXPECT_EQ(policy->OfToken("Secret"), nullptr);
  EXPECT_EQ(policy->OfToken(""), nullptr);
  EXPECT_EQ(policy->OfToken(HashToken("secret")), nullptr) << "the hash is not the token";
}

TEST(Policy, HashesAsSha256sumDoes) {
  EXPECT_EQ(HashToken("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Policy, NamesEachMistakeWithItsLine) {
  EXPECT_THAT(MistakeIn(""), HasSubstr("empty"));
  EXPECT_THAT(MistakeIn("principal: []\n"), HasSubstr("policy:1: principal: unknown; allowed here: "
                                                      "principals"));
  const std::string head = "principals:\n  - name: a\n    certificates: [dns:a]\n";
  EXPECT_THAT(MistakeIn(head + "    role: admin\n"),
              HasSubstr("policy:4: principals[0].role: must be client, observer or operator"));
  EXPECT_THAT(MistakeIn(head + "    role: client\n    role: operator\n"), HasSubstr("given twice"));
  EXPECT_THAT(MistakeIn(head + "    open_transactions: 0\n"), HasSubstr("must be from 1"));
  EXPECT_THAT(MistakeIn(head + "    transaction_timeout: 10\n"), HasSubstr("expected a duration"));
  EXPECT_THAT(MistakeIn(head + "    allow: [{topics: [x]}]\n"),
              HasSubstr("principals[0].allow[0].clusters: is required"));
  EXPECT_THAT(MistakeIn(head + "    allow: [{clusters: [a*b]}]\n"),
              HasSubstr("only stand at the end"));
  EXPECT_THAT(MistakeIn(head + "    allow: [{clusters: east}]\n"), HasSubstr("expected a list"));
  EXPECT_THAT(MistakeIn("principals:\n  - name: a b\n    certificates: [dns:a]\n"),
              HasSubstr("principals[0].name: must be 1 to 64"));
  EXPECT_THAT(MistakeIn("principals:\n  - certificates: [dns:a]\n"),
              HasSubstr("name: is required"));
  EXPECT_THAT(MistakeIn("principals:\n  - name: a\n"), HasSubstr("needs certificates or tokens"));
  EXPECT_THAT(MistakeIn("principals:\n  - name: a\n    certificates: [a.example.org]\n"
                        "    tokens: [sha256:" +
                        HashToken("x") + "]\n"),
              HasSubstr("expected uri:, dns: or subject:"));
}

TEST(Policy, RefusesOneIdentityForTwo) {
  EXPECT_THAT(MistakeIn("principals:\n  - {name: a, certificates: [dns:x]}\n"
                        "  - {name: b, certificates: [dns:x]}\n"),
              HasSubstr("policy:3: principals[1].certificates: the same certificate as "
                        "principals[0].certificates"));
  EXPECT_THAT(MistakeIn("principals:\n  - {name: a, certificates: [dns:x]}\n"
                        "  - {name: a, certificates: [dns:y]}\n"),
              HasSubstr("the same name as"));
}

TEST(Policy, ShowsNoTokenThatWasPastedByMistake) {
  const std::string mistake = MistakeIn(
      "principals:\n  - {name: a, certificates: [dns:a], "
      "tokens: [CANARY-token]}\n");
  EXPECT_THAT(mistake, HasSubstr("sha256:"));
  EXPECT_THAT(mistake, Not(HasSubstr("CANARY")));
}

TEST(Usage, BoundsWhatIsUnderWay) {
  Usage usage;
  EXPECT_TRUE(usage.Enter(2));
  EXPECT_TRUE(usage.Enter(2));
  EXPECT_FALSE(usage.Enter(2));
  usage.Leave();
  EXPECT_TRUE(usage.Enter(2));
}

TEST(Usage, BoundsTheRate) {
  Usage usage;
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  EXPECT_TRUE(usage.Take(2, now));
  EXPECT_TRUE(usage.Take(2, now));
  EXPECT_FALSE(usage.Take(2, now));
  now += std::chrono::milliseconds(500);
  EXPECT_TRUE(usage.Take(2, now));
  EXPECT_FALSE(usage.Take(2, now));
  now += std::chrono::hours(1);
  EXPECT_TRUE(usage.Take(2, now));
  EXPECT_TRUE(usage.Take(2, now));
  EXPECT_FALSE(usage.Take(2, now)) << "what was not used is not saved up beyond a second";
}

TEST(Policy, KeepsCountAcrossAChange) {
  const auto before = Parsed(kPayments);
  ASSERT_TRUE(before->Find("payments")->usage->Enter(1));
  const auto after = Parsed(kPayments);
  after->TakeOverUsage(*before);
  EXPECT_FALSE(after->Find("payments")->usage->Enter(1));
}

}  // namespace
}  // namespace lockstep::server
