#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
      "  transaction_records: 4\n  client_buffer_bytes: 3MiB\n"
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
  EXPECT_EQ(config.transaction_records, 4u);
  EXPECT_EQ(config.client_buffer_bytes, 3u << 20);
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
                            " | " + (setting.live ? "at once" : "restart") + " | " + setting.help +
                            " |";
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
  ExpectMistake(
      With("lisen: x\n"), 8, "lisen",
      "allowed here: admin_listen, allow_data_dir_on, audit_log, clusters, data_dir, limits");
  ExpectMistake(With("limits:\n  bytes: 1\n"), 9, "limits.bytes", "allowed here: batch_bytes");
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
  ExpectMistake(With("limits:\n  transaction_bytes: 512MiB\n  client_buffer_bytes: 512MiB\n"), 9,
                "limits.transaction_bytes", "limits.buffer_bytes");
  ExpectMistake(With("limits:\n  client_buffer_bytes: 1MiB\n"), 9, "limits.transaction_bytes",
                "limits.client_buffer_bytes: 16MiB > 1MiB");
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
  ExpectMistake("a: 1\n---\nb: 2\n", 2, "", "second YAML document");
  ExpectMistake(With("? [a]\n: 1\n"), 8, "", "plain text");
}

/// yaml-cpp's LoadAll never ends on these.
TEST(Config, AFileThatBeginsWithACommaIsRefused) {
  ExpectMistake(",", 1, "", "not YAML");
  ExpectMistake("\n, a: b\n", 2, "", "not YAML");
}

TEST(Config, AFileThatCannotBeReadSaysWhy) {
  auto result = LoadConfig("/nowhere/lockstepd.yaml");
  const auto& mistakes = std::get<std::vector<ConfigMistake>>(result);
  ASSERT_EQ(mistakes.size(), 1u);
  EXPECT_EQ(ToString(mistakes[0], "f.yaml"), "f.yaml: cannot be read: No such file or directory");
  EXPECT_EQ(ToString(ConfigMistake{3, "listen", "is odd"}, "f.yaml"), "f.yaml:3: listen: is odd");
}

std::vector<std::string> Names(const std::vector<ClusterConfig>& clusters) {
  std::vector<std::string> names;
  for (const ClusterConfig& cluster : clusters) names.push_back(cluster.name.get());
  return names;
}

TEST(Config, WhatANewFileChangesIsSorted) {
  const Config running = Good(With("log_level: info\nretention: {time: 7d}\n"));
  const ConfigChange none = Compare(running, running);
  EXPECT_TRUE(none.live.empty() && none.restart.empty() && none.added.empty() &&
              none.removed.empty());
  // Clusters are known by their names, wherever they stand.
  const Config fresh = Good(
      "listen: 127.0.0.1:9\ndata_dir: /data\nlog_level: debug\n"
      "limits: {buffer_bytes: 300MiB, message_bytes: 5MiB}\n"
      "clusters:\n  - name: north\n    bootstrap_servers: d:4\n"
      "  - name: west\n    bootstrap_servers: c:3\n    lanes: {min: 2}\n"
      "    librdkafka: {linger.ms: 5}\n");
  const ConfigChange change = Compare(running, fresh);
  EXPECT_THAT(change.live, testing::ElementsAre("limits.buffer_bytes", "log_level"));
  EXPECT_THAT(change.restart, testing::ElementsAre("limits.message_bytes", "listen",
                                                   "retention.time", "lanes.min of cluster 'west'",
                                                   "librdkafka.linger.ms of cluster 'west'"));
  EXPECT_THAT(Names(change.added), testing::ElementsAre("north"));
  EXPECT_THAT(change.removed, testing::ElementsAre(ClusterName("east")));
}

TEST(Config, WhatIsTakenUpIsWhatRuns) {
  const Config running = Good(With("limits: {open_transactions: 7, record_bytes: 2KiB}\n"));
  const Config fresh = Good(
      "listen: 127.0.0.1:9\ndata_dir: /other\n"
      "limits: {open_transactions: 8, message_bytes: 5MiB}\ntimeouts: {prepare: 1s}\n"
      "clusters:\n  - name: north\n    bootstrap_servers: d:4\n");
  const Config taken = TakeUp(running, fresh);
  EXPECT_EQ(taken.open_transactions, 8u);
  EXPECT_EQ(taken.record_bytes, 1u << 20) << "not given any more: the default";
  EXPECT_EQ(taken.prepare_timeout, std::chrono::seconds(1));
  EXPECT_EQ(taken.message_bytes, 4u << 20);
  EXPECT_EQ(taken.data_dir, "/data");
  EXPECT_EQ(ToString(taken.listen), "127.0.0.1:0");
  EXPECT_THAT(Names(taken.clusters), testing::ElementsAre("east", "west", "north"));
  // What needs a restart still does when the same file is read again.
  const ConfigChange again = Compare(taken, fresh);
  EXPECT_THAT(again.live, testing::IsEmpty());
  EXPECT_THAT(again.restart, testing::ElementsAre("data_dir", "limits.message_bytes", "listen"));
  EXPECT_THAT(Names(again.added), testing::IsEmpty());
  EXPECT_EQ(again.removed.size(), 2u);
}

TEST(Config, EveryLimitAndTimeoutSaysWhetherItIsLive) {
  std::vector<std::string> live;
  for (const SettingInfo& setting : AllSettings()) {
    if (setting.live) live.push_back(setting.key);
  }
  EXPECT_THAT(live, testing::UnorderedElementsAre(
                        "log_level", "limits.open_transactions", "limits.transaction_timeout",
                        "limits.transaction_bytes", "limits.transaction_records",
                        "limits.batch_transactions", "limits.batch_bytes",
                        "limits.client_buffer_bytes", "limits.buffer_bytes", "limits.record_bytes",
                        "limits.concurrent_calls", "timeouts.prepare", "timeouts.shutdown"));
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

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Something that a hurried hand might leave as a value; quoted, so that it stays one.
std::string WrongValue(std::mt19937& random) {
  static const std::vector<std::string> kWrong = {
      "",    "0",    "-1",   "1",       "30",    "10 MiB", "10MB", "1e9",    "99999999999999999999",
      "1ms", "400d", "9TiB", "1048577", "0x10",  "true",   "null", "~",      "[]",
      "/",   "a:b",  "a b",  "h:1,g:2", "INFO",  "auto",   "ram",  "1MiB",   "2000GiB",
      "5m5", "m",    "::1",  "h:0",     "h:1:2", "*",      "&x",   "{a: 1}", "h:65536"};
  if (random() % 4 != 0) return kWrong[random() % kWrong.size()];
  std::string value;
  for (std::size_t i = random() % 20; i > 0; --i) {
    const char c = static_cast<char>(' ' + random() % 95);
    if (c != '\'') value.push_back(c);
  }
  return value;
}

// A wrong value is told with its own line; or, where two settings do not go together, by its name.
TEST(Config, AWrongValueIsFoundInItsLine) {
  const std::vector<std::string> good = LinesOf(DefaultConfigText());
  std::mt19937 random(20250601);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::string> lines = good;
    const std::size_t at = random() % lines.size();
    const auto colon = lines[at].find(": ");
    if (lines[at].find('#') != std::string::npos || colon == std::string::npos) continue;
    lines[at].replace(colon, std::string::npos, ": '" + WrongValue(random) + "'");
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const auto result = ParseConfig(text);
    const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&result);
    if (mistakes == nullptr) continue;
    ++refused;
    const auto key_at = lines[at].find_first_not_of(" -");
    const std::string key = lines[at].substr(key_at, colon - key_at);
    EXPECT_TRUE(std::ranges::any_of(*mistakes,
                                    [&](const ConfigMistake& mistake) {
                                      return mistake.line == static_cast<int>(at) + 1 ||
                                             mistake.message.find(key) != std::string::npos;
                                    }))
        << lines[at] << " in line " << at + 1 << ": " << ToString(mistakes->front(), "config");
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace lockstep::server
