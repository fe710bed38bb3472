#include <iostream>

#include "cli/lockstepctl.h"

int main(int argc, char** argv) {
  return lockstep::cli::RunLockstepctl(argc, argv, std::cin, std::cout, std::cerr);
}
