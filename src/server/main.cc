#include "server/command_line.h"
#include "server/lockstepd.h"

/// jemalloc's settings: see its manual. What a peak took goes back to the kernel within seconds,
/// from every thread's heap; glibc's malloc keeps what one small block holds.
extern "C" const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:2000,muzzy_decay_ms:0";

int main(int argc, char** argv) {
  const auto parsed = lockstep::server::ParseCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  return lockstep::server::RunLockstepd(std::get<lockstep::server::CommandLine>(parsed));
}
