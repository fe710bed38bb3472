// `lockstepctl check` on secured brokers: before any lockstepd runs.

#include <nlohmann/json.hpp>
#include <sstream>

#include "fixture.h"

namespace lockstep {
namespace {

using testing::AclEntry;
using testing::AclOperation;
using testing::AclResource;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckTest : public SecuredTest {
 protected:
  /// A configuration for `checked`, who logs in to b by a token.
  std::string Config(const std::string& more = "") const {
    return Write(
        "lockstepd.yaml",
        "data_dir: " + folder_ +
            "/data\nclusters:\n  - name: b\n    bootstrap_servers: " + B().bootstrap("SASL_SSL") +
            "\n    security_protocol: SASL_SSL\n    tls: {ca_file: " + B().SecurityFile("ca.crt") +
            "}\n    sasl: {mechanism: OAUTHBEARER, token_file: " +
            Write("token", Token(std::chrono::hours(1), "checked")) + "}\n" + more);
  }
  testing::Ran Check(const std::string& config, std::vector<std::string> words = {}) const {
    words.insert(words.begin(), {LOCKSTEPCTL_BINARY, "check", "--config", config});
    return testing::RunProgram(words);
  }
  /// What every test here asks for.
  static std::vector<std::string> Wanted() {
    return {"--topic", "b:t-check", "--group", "b:g-check"};
  }
  static std::vector<AclEntry> All() {
    std::vector<AclEntry> all = DocumentedAcls("User:checked");
    for (AclEntry& entry : all) {
      if (entry.resource == AclResource::kTopic) entry.name = "t-check";
    }
    const std::string me = "User:checked";
    all.push_back({me, AclOperation::kRead, AclResource::kGroup, "g-check"});
    all.push_back({me, AclOperation::kDescribe, AclResource::kTopic, "__consumer_offsets"});
    all.push_back({me, AclOperation::kRead, AclResource::kTopic, "__consumer_offsets"});
    // Not needed, but for what only check looks at.
    all.push_back({me, AclOperation::kDescribe, AclResource::kTopic, "__transaction_state"});
    all.push_back({me, AclOperation::kDescribe, AclResource::kCluster, "kafka-cluster"});
    return all;
  }
  /// One row a line: level and subject.
  static std::vector<std::string> NotGreen(const std::string& json) {
    std::vector<std::string> rows;
    const auto parsed = nlohmann::json::parse(json);
    for (const auto& section : parsed.at("sections")) {
      for (const auto& finding : section.at("findings")) {
        const auto level = finding.at("level").get<std::string>();
        if (level != "green") rows.push_back(level + " " + finding.at("what").get<std::string>());
      }
    }
    return rows;
  }
  static std::string FixOf(const std::string& json, const std::string& what) {
    const auto parsed = nlohmann::json::parse(json);
    for (const auto& section : parsed.at("sections")) {
      for (const auto& finding : section.at("findings")) {
        if (finding.at("what") == what) return finding.at("fix");
      }
    }
    return "no line of " + what;
  }
};

// Each right that is missing is named, alone, with the line that grants it; and Kafka's own tool
// takes that line.
TEST_F(CheckTest, NamesTheMissingAcl) {
  NewTopic("check");
  const std::string config = Config();
  struct Case {
    AclOperation operation;
    AclResource resource;
    std::string name, what, fix;
  };
  const std::string id_fix = "--transactional-id lockstep- --resource-pattern-type prefixed";
  const std::vector<Case> cases = {
      {AclOperation::kWrite, AclResource::kTransactionalId, "lockstep-*",
       "red ACL TransactionalId lockstep-*", id_fix + " --operation Write"},
      {AclOperation::kWrite, AclResource::kTopic, "t-check", "red ACL Topic t-check",
       "--topic 't-check' --operation Write"},
      {AclOperation::kRead, AclResource::kTopic, "t-check", "red ACL Topic t-check",
       "--topic 't-check' --operation Read"},
      {AclOperation::kRead, AclResource::kGroup, "g-check", "red ACL Group g-check",
       "--group 'g-check' --operation Read"},
      {AclOperation::kRead, AclResource::kTopic, "__consumer_offsets",
       "red ACL Topic __consumer_offsets", "--topic '__consumer_offsets' --operation Read"},
      {AclOperation::kDescribeConfigs, AclResource::kCluster, "kafka-cluster",
       "yellow transaction.max.timeout.ms", "--cluster --operation DescribeConfigs"},
  };
  std::vector<std::string> json = Wanted();
  json.insert(json.end(), {"--output", "json"});
  for (const Case& each : cases) {
    ForbidAll(B(), "User:checked");
    std::vector<AclEntry> others = All();
    std::erase_if(others, [&](const AclEntry& entry) {
      return entry.operation == each.operation && entry.resource == each.resource &&
             entry.name == each.name;
    });
    ASSERT_EQ(others.size(), All().size() - 1);
    Allow(B(), others);
    const testing::Ran ran = Check(config, json);
    SCOPED_TRACE(each.what + ": " + ran.out);
    EXPECT_THAT(NotGreen(ran.out), ::testing::Contains(each.what));
    const std::string subject = each.what.substr(each.what.find(' ') + 1);
    EXPECT_THAT(FixOf(ran.out, subject),
                AllOf(HasSubstr("kafka-acls --bootstrap-server localhost:"),
                      HasSubstr("--allow-principal 'User:checked'"), HasSubstr(each.fix)));
    EXPECT_EQ(ran.exit_code, each.what.starts_with("red") ? 1 : 0);
  }

  // Nothing at all is allowed; then all that was told is pasted.
  ForbidAll(B(), "User:checked");
  const testing::Ran nothing = Check(config, Wanted());
  EXPECT_EQ(nothing.exit_code, 1);
  std::istringstream lines(nothing.out);
  std::vector<std::string> pasted;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("kafka-acls --bootstrap-server ");
    if (at != std::string::npos) pasted.push_back(line.substr(at));
  }
  EXPECT_GE(pasted.size(), 6U) << nothing.out;
  Allow(B(), All());
  EXPECT_EQ(Check(config, Wanted()).exit_code, 0);
  ForbidAll(B(), "User:checked");
  std::vector<std::string> words;
  std::istringstream line(pasted.at(0));
  for (std::string word; line >> word;) {
    std::erase(word, '\'');
    words.push_back(word);
  }
  words.erase(words.begin(), words.begin() + 3);
  words.insert(words.begin(), {"--bootstrap-server", "{bootstrap}"});
  EXPECT_THAT(B().Tool("org.apache.kafka.tools.AclCommand", words), HasSubstr("User:checked"));
  EXPECT_THAT(Check(config, Wanted()).out, Not(HasSubstr(pasted.at(0))));
}

TEST_F(CheckTest, TellsWhatStandsInTheWay) {
  ForbidAll(B(), "User:checked");
  Allow(B(), All());
  const std::string config = Config(
      "    transaction_timeout: 1h\n  - {name: away, bootstrap_servers: '127.0.0.1:1'}\n"
      "  - {name: login, bootstrap_servers: '" +
      B().bootstrap("SSL") +
      "', security_protocol: SSL, tls: {ca_file: " + B().SecurityFile("other-ca.crt") + "}}\n");
  const testing::Ran ran = Check(config, {"--timeout", "3s"});
  EXPECT_EQ(ran.exit_code, 1);
  // Kafka's default maximum is 15 minutes.
  EXPECT_THAT(ran.out, HasSubstr("15m; transaction_timeout is 1h"));
  EXPECT_THAT(ran.out, HasSubstr("lower transaction_timeout to 15m, or raise "
                                 "transaction.max.timeout.ms on every broker"));
  EXPECT_THAT(ran.out, HasSubstr("Kafka 4.4"));
  EXPECT_THAT(ran.out, HasSubstr("replication 1, transaction.state.log.min.isr 1"));
  EXPECT_THAT(ran.out, HasSubstr("green   disk sync"));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("red +reachability"));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("red +authentication +broker localhost"));
  EXPECT_THAT(ran.out, HasSubstr("tls.ca_file must hold the CA"));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("green +clock +the controller's is [0-9]+ ms"));
  EXPECT_THAT(ran.out, Not(HasSubstr("canary-")));

  EXPECT_THAT(Check(config, {"--topic", "nowhere:t"}).out,
              HasSubstr("expected CLUSTER:NAME with a cluster of the file, got nowhere:t"));
  const testing::Ran bad = Check(Write("bad.yaml", "data_dir: x\n"));
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, HasSubstr("bad.yaml:1: data_dir: must be an absolute path"));
}

}  // namespace
}  // namespace lockstep
