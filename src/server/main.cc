#include "server/command_line.h"
#include "server/lockstepd.h"

int main(int argc, char** argv) {
  const auto parsed = lockstep::server::ParseCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  return lockstep::server::RunLockstepd(std::get<lockstep::server::CommandLine>(parsed));
}
