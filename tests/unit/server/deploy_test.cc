// What deploy/ gives people to start from is well formed, and keeps the promises of docs/deploy.md.
#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

#include "server/config.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

std::vector<YAML::Node> Manifests(const std::string& name) {
  return YAML::LoadAllFromFile(std::string(LOCKSTEP_SOURCE_DIR "/deploy/kubernetes/") + name);
}

YAML::Node OfKind(const std::string& name, const std::string& kind) {
  for (const auto& document : Manifests(name)) {
    if (document["kind"].Scalar() == kind) return document;
  }
  ADD_FAILURE() << name << " has no " << kind;
  return {};
}

TEST(Deploy, EveryManifestHoldsAConfigurationOfOurs) {
  for (const char* name : {"statefulset.yaml", "sidecar.yaml"}) {
    const auto result = ParseConfig(OfKind(name, "ConfigMap")["data"]["lockstepd.yaml"].Scalar());
    if (const auto* mistakes = std::get_if<std::vector<ConfigMistake>>(&result)) {
      for (const auto& mistake : *mistakes) ADD_FAILURE() << ToString(mistake, name);
      continue;
    }
    const auto& config = std::get<Config>(result);
    EXPECT_TRUE(config.data_dir.starts_with("/var/lib/lockstep/")) << name;
    EXPECT_EQ(config.allow_data_dir_on, "none") << name;
    const auto spec = OfKind(name, "StatefulSet")["spec"]["template"]["spec"];
    EXPECT_GT(std::chrono::seconds(spec["terminationGracePeriodSeconds"].as<int>()),
              config.shutdown_timeout)
        << name;
  }
}

TEST(Deploy, TheLogIsOnAClaimThatIsKept) {
  for (const char* name : {"statefulset.yaml", "sidecar.yaml"}) {
    const auto set = OfKind(name, "StatefulSet")["spec"];
    const auto pod = set["template"]["spec"];
    const auto lockstepd = pod[pod["initContainers"] ? "initContainers" : "containers"][0];
    ASSERT_EQ(lockstepd["name"].Scalar(), "lockstepd");
    EXPECT_EQ(lockstepd["volumeMounts"][0]["mountPath"].Scalar(), "/var/lib/lockstep");
    EXPECT_EQ(lockstepd["volumeMounts"][0]["name"].Scalar(),
              set["volumeClaimTemplates"][0]["metadata"]["name"].Scalar());
    EXPECT_EQ(set["persistentVolumeClaimRetentionPolicy"]["whenDeleted"].Scalar(), "Retain");
    EXPECT_TRUE(pod["securityContext"]["runAsNonRoot"].as<bool>());
    EXPECT_TRUE(lockstepd["securityContext"]["readOnlyRootFilesystem"].as<bool>());
  }
  EXPECT_EQ(OfKind("statefulset.yaml", "StatefulSet")["spec"]["replicas"].as<int>(), 1);
}

TEST(Deploy, TheUnitDoesNotRestartWhatARestartCannotHelp) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/deploy/systemd/lockstepd.service");
  std::ostringstream unit;
  unit << file.rdbuf();
  EXPECT_THAT(unit.str(), HasSubstr("\nRestartPreventExitStatus=1 3\n"));
  EXPECT_THAT(unit.str(), HasSubstr("\nKillSignal=SIGTERM\n"));
  EXPECT_THAT(unit.str(), HasSubstr("\nNoNewPrivileges=yes\n"));
}

}  // namespace
}  // namespace lockstep::server
