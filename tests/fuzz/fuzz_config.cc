// The configuration file.

#include "fuzz.h"
#include "server/config.h"

namespace lockstep::server {
namespace {

using fuzz::Require;

void Check(const Config& config) {
  Require(!config.clusters.empty(), "a configuration has clusters");
  Require(!config.data_dir.empty(), "a configuration has a data folder");
  for (const ClusterConfig& cluster : config.clusters) {
    Require(cluster.lanes_min <= cluster.lanes_max, "lanes.min is not above lanes.max");
    Require(!cluster.name.get().empty(), "a cluster has a name");
  }
  Require(config.max_transaction_timeout > Duration::zero(), "a timeout is positive");
  const ConfigChange change = Compare(config, config);
  Require(change.live.empty() && change.restart.empty() && change.added.empty() &&
              change.removed.empty(),
          "a file does not differ from itself");
  const Config taken = TakeUp(config, config);
  Require(taken.given == config.given && taken.clusters.size() == config.clusters.size(),
          "to take up the same file changes nothing");
}

void Check(const std::vector<ConfigMistake>& mistakes) {
  Require(!mistakes.empty(), "what is refused has a mistake");
  for (const ConfigMistake& mistake : mistakes) {
    Require(mistake.line >= 0 && !mistake.message.empty(), "a mistake says where, and what");
    (void)ToString(mistake, "lockstep.yaml");
  }
}

}  // namespace
}  // namespace lockstep::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::server;
  const std::string yaml(reinterpret_cast<const char*>(data), size);
  std::visit([](const auto& result) { Check(result); }, ParseConfig(yaml));
  return 0;
}
