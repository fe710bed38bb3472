#pragma once

#include <string>
#include <vector>

namespace lockstep::testing {

struct CtlRan {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// lockstepctl, run within this process: `words` are what follows its name. Blocks until it ends.
CtlRan RunCtl(std::vector<std::string> words, const std::string& input = "");

}  // namespace lockstep::testing
