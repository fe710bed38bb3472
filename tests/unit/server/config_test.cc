#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace lockstep::server {
namespace {

using testing::HasSubstr;

// Line 1 is `listen`, 2 `data_dir`, 3 `clusters`.
constexpr const char* kGood =
    "listen: 127.0.0.1:0\n"
    "data_dir: /data\n"
    "clusters:\n"
    "  - name: east\n"
    "    bootstrap_servers: a:1,b:2\n"
    "  - name: west\n"
    "    bootstrap_servers: c:3\n";

Config Good(const std::string& yaml) {
  auto result = ParseConfig(yaml);
  if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&result)) {
    for (const auto& mistake : *mistakes) ADD_FAILURE() << ToString(mistake, "config");
    return {};
  }
  return std::get<Config>(std::move(result));
}

std::vector<ConfigMistake> Bad(const std::string& yaml) {
  auto result = ParseConfig(yaml);
  if (std::holds_alternative<Config>(result)) {
    ADD_FAILURE() << "accepted:\n" << yaml;
    return {};
  }
  return std::get<std::vector<ConfigMistake>>(std::move(result));
}

/// Exactly one mistake, in that line, under that key, with that text in it.
void ExpectMistake(const std::string& yaml, int line, const std::string& key,
                   const std::string& text) {
  const auto mistakes = Bad(yaml);
  ASSERT_EQ(mistakes.size(), 1u) << yaml
                                 << (mistakes.empty() ? "" : ToString(mistakes[1], "second"));
  EXPECT_EQ(mistakes[0].line, line) << ToString(mistakes[0], yaml);
  EXPECT_EQ(mistakes[0].key, key);
  EXPECT_THAT(mistakes[0].message, HasSubstr(text));
}

std::string With(const std::string& lines) { return kGood + lines; }

TEST(Config, TheShortestFileGetsTheDefaults) {
  const Config config = Good("data_dir: /data\nclusters: [{name: a, bootstrap_servers: 'h:1'}]\n");
  EXPECT_EQ(ToString(config.listen), "127.0.0.1:7420");
  EXPECT_EQ(config.log_level, "info");
  EXPECT_EQ(config.open_transactions, 10'000u);
  EXPECT_EQ(config.buffer_bytes, 256u << 20);
  EXPECT_EQ(config.prepare_timeout, std::chrono::seconds(30));
  ASSERT_EQ(config.clusters.size(), 1u);
  EXPECT_EQ(config.clusters[0].lanes_min, 4u);
  EXPECT_FALSE(config.clusters[0].transaction_timeout.has_value());
}

TEST(Config, EverySettingIsRead) {
  const Config config = Good(
      "listen: '[::1]:9'\ndata_dir: /d\nlog_level: debug\n"
      "limits:\n  open_transactions: 5\n  transaction_timeout: 1h\n  transaction_bytes: 1MiB\n"
      "  buffer_bytes: 2MiB\n  record_bytes: 64KiB\n  message_bytes: 128KiB\n"
      "  concurrent_calls: 6\n"
      "timeouts: {prepare: 7s, deadline_margin: 8s, shutdown: 0s}\n"
      "retention: {time: 1d, bytes: 9MiB}\n"
      "clusters:\n  - name: a\n    bootstrap_servers: h:1\n    lanes: {min: 2, max: 3}\n"
      "    transaction_timeout: 20s\n    librdkafka: {linger.ms: 5, compression.codec: lz4}\n");
  EXPECT_EQ(config.listen.host, "::1");
  EXPECT_EQ(config.listen.port, 9);
  EXPECT_EQ(ToString(config.listen), "[::1]:9");
  EXPECT_EQ(config.data_dir, "/d");
  EXPECT_EQ(config.log_level, "debug");
  EXPECT_EQ(config.open_transactions, 5u);
  EXPECT_EQ(config.max_transaction_timeout, std::chrono::hours(1));
  EXPECT_EQ(config.transaction_bytes, 1u << 20);
  EXPECT_EQ(config.buffer_bytes, 2u << 20);
  EXPECT_EQ(config.record_bytes, 64u << 10);
  EXPECT_EQ(config.message_bytes, 128u << 10);
  EXPECT_EQ(config.concurrent_calls, 6u);
  EXPECT_EQ(config.prepare_timeout, std::chrono::seconds(7));
  EXPECT_EQ(config.deadline_margin, std::chrono::seconds(8));
  EXPECT_EQ(config.shutdown_timeout, Duration(0));
  EXPECT_EQ(config.retention_time, std::chrono::hours(24));
  EXPECT_EQ(config.retention_bytes, 9u << 20);
  const ClusterConfig& cluster = config.clusters.at(0);
  EXPECT_EQ(cluster.lanes_min, 2u);
  EXPECT_EQ(cluster.lanes_max, 3u);
  EXPECT_EQ(cluster.transaction_timeout, std::chrono::seconds(20));
  EXPECT_EQ(cluster.librdkafka.at("linger.ms"), "5");
  EXPECT_EQ(cluster.librdkafka.at("compression.codec"), "lz4");
}

TEST(Config, ThePrintedDefaultsAreAConfiguration) {
  const Config printed = Good(DefaultConfigText());
  EXPECT_EQ(printed.clusters.size(), 1u);
  for (const SettingInfo& setting : AllSettings()) {
    const std::string name = setting.key.substr(setting.key.rfind('.') + 1);
    EXPECT_THAT(DefaultConfigText(), HasSubstr(name + ":"));
  }
}

TEST(Config, TheDocumentationHasEverySetting) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/configuration.md");
  ASSERT_TRUE(file);
  std::ostringstream text;
  text << file.rdbuf();
  for (const SettingInfo& setting : AllSettings()) {
    const std::string row = "| `" + setting.key + "` | " + setting.type + " | " +
                            (setting.fallback.empty() ? "required" : "`" + setting.fallback + "`") +
                            " | " + setting.help + " |";
    EXPECT_THAT(text.str(), HasSubstr(row));
  }
}

TEST(Config, TheSampleInDeployIsAConfiguration) {
  auto result = LoadConfig(LOCKSTEP_SOURCE_DIR "/deploy/lockstepd.yaml");
  if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&result)) {
    for (const auto& mistake : *mistakes) ADD_FAILURE() << ToString(mistake, "sample");
  }
}

TEST(Config, EachMistakeHasItsLineAndSaysWhatIsAllowed) {
  ExpectMistake(With("lisen: x\n"), 8, "lisen",
                "allowed here: allow_data_dir_on, clusters, data_dir, limits, listen");
  ExpectMistake(With("limits:\n  bytes: 1\n"), 9, "limits.bytes", "allowed here: buffer_bytes");
  ExpectMistake(With("limits.record_bytes: 1MiB\n"), 8, "limits.record_bytes", "unknown");
  ExpectMistake(With("limits: 7\n"), 8, "limits", "expected a map");
  ExpectMistake(With("limits: {record_bytes: 12}\n"), 8, "limits.record_bytes", "16MiB");
  ExpectMistake(With("limits: {record_bytes: 1B}\n"), 8, "limits.record_bytes", "from 1KiB");
  ExpectMistake(With("limits: {open_transactions: 0}\n"), 8, "limits.open_transactions", "from 1");
  ExpectMistake(With("limits: {open_transactions: ten}\n"), 8, "limits.open_transactions", "'ten'");
  ExpectMistake(With("timeouts:\n  prepare: 30\n"), 9, "timeouts.prepare", "30s");
  ExpectMistake(With("timeouts:\n  prepare: 20m\n"), 9, "timeouts.prepare", "to 15m");
  ExpectMistake(With("timeouts:\n  prepare: [1s]\n"), 9, "timeouts.prepare", "expected a value");
  ExpectMistake(With("log_level: loud\n"), 8, "log_level", "trace, debug, info");
  ExpectMistake(With("log_level:\n"), 8, "log_level", "expected a value");
  ExpectMistake(With("data_dir: /other\n"), 8, "data_dir", "first in line 2");
  ExpectMistake(With("  - east\n"), 8, "clusters[2]", "expected a map");
  ExpectMistake(With("    lanes: {min: 9, max: 3}\n"), 8, "clusters[1].lanes.min", "9 > 3");
  ExpectMistake(With("    transaction_timeout: 1s\n"), 8, "clusters[1].transaction_timeout",
                "from 10s");
  ExpectMistake(With("    librdkafka: 3\n"), 8, "clusters[1].librdkafka", "expected a map");
  ExpectMistake(With("    brokers: 3\n"), 8, "clusters[1].brokers",
                "allowed here: bootstrap_servers, lanes, librdkafka, name");
}

TEST(Config, AddressesAreChecked) {
  for (const char* listen : {"7420", ":7420", "host", "host:", "host:70000", "::1:7420", "h:7x"}) {
    ExpectMistake("data_dir: /d\nlisten: '" + std::string(listen) +
                      "'\nclusters: [{name: a, bootstrap_servers: 'h:1'}]\n",
                  2, "listen", "HOST:PORT");
  }
  for (const char* servers : {"", "h", "h:", ":1", "h:0", "h:1,", "h:1, g:2", "h:1,,g:2"}) {
    ExpectMistake("data_dir: /d\nclusters:\n  - name: a\n    bootstrap_servers: '" +
                      std::string(servers) + "'\n",
                  4, "clusters[0].bootstrap_servers", "HOST:PORT");
  }
  ExpectMistake("data_dir: data\nclusters: [{name: a, bootstrap_servers: 'h:1'}]\n", 1, "data_dir",
                "absolute");
}

TEST(Config, WhatIsRequiredIsMissed) {
  ExpectMistake("clusters: [{name: a, bootstrap_servers: 'h:1'}]\n", 1, "data_dir", "required");
  ExpectMistake("data_dir: /d\n", 1, "clusters", "at least one cluster");
  ExpectMistake("data_dir: /d\nclusters: []\n", 2, "clusters", "at least one cluster");
  ExpectMistake("data_dir: /d\nclusters: east\n", 2, "clusters", "at least one cluster");
  ExpectMistake("data_dir: /d\nclusters:\n  - name: a\n", 3, "clusters[0].bootstrap_servers",
                "required");
}

TEST(Config, ClustersHaveNamesAndBrokersOfTheirOwn) {
  ExpectMistake(With("  - name: east\n    bootstrap_servers: d:4\n"), 8, "clusters[2].name",
                "another cluster");
  ExpectMistake(With("  - name: north\n    bootstrap_servers: c:3\n"), 9,
                "clusters[2].bootstrap_servers", "'west'");
  ExpectMistake(With("  - name: a b\n    bootstrap_servers: d:4\n"), 8, "clusters[2].name",
                "letters, digits");
}

TEST(Config, WhatLockstepOwnsOfLibrdkafkaIsRefusedByName) {
  for (const char* key : {"transactional.id", "acks", "enable.idempotence", "bootstrap.servers",
                          "transaction.timeout.ms", "partitioner"}) {
    ExpectMistake(With("    librdkafka:\n      " + std::string(key) + ": x\n"), 9,
                  "clusters[1].librdkafka." + std::string(key), "not yours to set");
  }
  ExpectMistake(With("    librdkafka: {no.such.thing: 1}\n"), 8,
                "clusters[1].librdkafka.no.such.thing", "No such configuration property");
  ExpectMistake(With("    librdkafka: {linger.ms: many}\n"), 8, "clusters[1].librdkafka.linger.ms",
                "Invalid value");
  ExpectMistake(With("    librdkafka: {linger.ms: {a: 1}}\n"), 8,
                "clusters[1].librdkafka.linger.ms", "single value");
}

TEST(Config, SettingsMustGoTogether) {
  ExpectMistake(With("limits:\n  record_bytes: 8MiB\n"), 9, "limits.record_bytes",
                "limits.message_bytes: 8MiB > 4MiB");
  ExpectMistake(With("limits:\n  transaction_bytes: 512MiB\n"), 9, "limits.transaction_bytes",
                "limits.buffer_bytes");
  ExpectMistake(With("    transaction_timeout: 15s\n"), 8, "clusters[1].transaction_timeout",
                "twice timeouts.deadline_margin (10s)");
}

TEST(Config, AllMistakesAreToldAtOnceInOrder) {
  const auto mistakes =
      Bad("listen: nowhere\n"
          "data_dir: rel\n"
          "typo: 1\n"
          "clusters:\n"
          "  - name: a\n"
          "    bootstrap_servers: h:1\n"
          "    librdkafka: {acks: 1}\n"
          "limits: {record_bytes: big}\n");
  std::vector<int> lines;
  for (const auto& mistake : mistakes) lines.push_back(mistake.line);
  EXPECT_THAT(lines, testing::ElementsAre(1, 2, 3, 7, 8));
}

TEST(Config, WhatIsNotYamlOrNotOneMapIsRefused) {
  ExpectMistake("a: b: c\n", 1, "", "not YAML");
  ExpectMistake("data_dir: /d\nclusters: [\n", 3, "", "not YAML");
  ExpectMistake("", 0, "", "empty");
  ExpectMistake("- a\n", 1, "", "map");
  ExpectMistake("a: 1\n---\nb: 2\n", 3, "", "second YAML document");
  ExpectMistake(With("? [a]\n: 1\n"), 8, "", "plain text");
}

TEST(Config, AFileThatCannotBeReadSaysWhy) {
  auto result = LoadConfig("/nowhere/lockstepd.yaml");
  const auto& mistakes = std::get<std::vector<ConfigMistake>>(result);
  ASSERT_EQ(mistakes.size(), 1u);
  EXPECT_EQ(ToString(mistakes[0], "f.yaml"), "f.yaml: cannot be read: No such file or directory");
  EXPECT_EQ(ToString(ConfigMistake{3, "listen", "is odd"}, "f.yaml"), "f.yaml:3: listen: is odd");
}

TEST(Config, ChangesBetweenTwoFilesAreNamed) {
  const Config before = Good(With("log_level: info\nretention: {time: 7d}\n"));
  EXPECT_TRUE(ChangedKeys(before, before).empty());
  const Config after =
      Good(With("    lanes: {min: 2}\n    librdkafka: {linger.ms: 5}\nlog_level: debug\n"));
  EXPECT_THAT(ChangedKeys(before, after),
              testing::ElementsAre("clusters[1].lanes.min", "clusters[1].librdkafka.linger.ms",
                                   "log_level", "retention.time"));
}

// Valid files, damaged at random: never a crash, and what is refused has a line.
TEST(Config, MutatedFilesAreRefusedWithALine) {
  const std::string seed_text = DefaultConfigText();
  std::mt19937 random(20240601);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = seed_text;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int edit = 0; edit < edits; ++edit) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + random() % 8);
          break;
        case 1:
          text.insert(at, 1, static_cast<char>(random() % 128));
          break;
        case 2:
          text[at] = "{}[]:,#&*!|>'\"%@` \n\t"[random() % 20];
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
    }
    const auto result = ParseConfig(text);
    const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&result);
    if (mistakes == nullptr) continue;
    ++refused;
    ASSERT_FALSE(mistakes->empty());
    for (const auto& mistake : *mistakes) {
      EXPECT_GT(mistake.line, 0) << ToString(mistake, "mutated") << "\n" << text;
    }
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace lockstep::server
