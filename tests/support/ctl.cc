#include "ctl.h"

#include <sstream>

#include "cli/lockstepctl.h"

namespace lockstep::testing {

CtlRan RunCtl(std::vector<std::string> words, const std::string& input) {
  words.insert(words.begin(), "lockstepctl");
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const int code = cli::RunLockstepctl(static_cast<int>(argv.size()), argv.data(), in, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace lockstep::testing
