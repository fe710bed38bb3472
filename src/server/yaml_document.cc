#include "server/yaml_document.h"

#include <yaml-cpp/eventhandler.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

namespace lockstep::server {
namespace {

// A configuration is small; what is larger is another kind of file.
constexpr std::size_t kMaxFileBytes = 1 << 20;

/// Where the documents of a file begin. YAML::LoadAll would load them, but never ends, and takes
/// all memory, where one begins with a comma: it finds an empty one before it, again and again.
class DocumentMarks : public YAML::EventHandler {
 public:
  const std::vector<YAML::Mark>& starts() const { return starts_; }

  void OnDocumentStart(const YAML::Mark& mark) override { starts_.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::vector<YAML::Mark> starts_;
};

ConfigMistake Mistake(int line, std::string message) { return {line, "", std::move(message)}; }

}  // namespace

int LineOf(const YAML::Node& node) { return node.Mark().line + 1; }

std::variant<YAML::Node, ConfigMistake> LoadDocument(const std::string& yaml) {
  try {
    DocumentMarks documents;
    std::istringstream text(yaml);
    YAML::Parser parser(text);
    while (documents.starts().size() < 2 && parser.HandleNextDocument(documents)) {
    }
    const std::vector<YAML::Mark>& starts = documents.starts();
    if (starts.empty()) return Mistake(0, "the file is empty");
    if (starts.size() > 1) {
      const bool nothing_between = starts[0].pos == starts[1].pos;
      return Mistake(starts[1].line + 1, nothing_between ? "not YAML: nothing may begin like this"
                                                         : "a second YAML document; expected one");
    }
    return YAML::Load(yaml);
  } catch (const YAML::Exception& problem) {
    return Mistake(problem.mark.line + 1, "not YAML: " + problem.msg);
  }
}

std::variant<std::string, ConfigMistake> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  // A folder opens, and cannot be read.
  if (!file.is_open() || file.bad()) {
    return Mistake(0, "cannot be read: " + std::string(std::strerror(errno)));
  }
  if (text.size() > kMaxFileBytes) return Mistake(0, "larger than 1 MiB: not a configuration");
  return text;
}

}  // namespace lockstep::server
