#include "coordinator/ports.h"

#include <cstdlib>

namespace lockstep::coordinator {

std::string_view Name(ClusterState state) {
  switch (state) {
    case ClusterState::kConnecting:
      return "CONNECTING";
    case ClusterState::kReady:
      return "READY";
    case ClusterState::kUnreachable:
      return "UNREACHABLE";
    case ClusterState::kMismatch:
      return "MISMATCH";
    case ClusterState::kRefused:
      return "REFUSED";
  }
  std::abort();
}

}  // namespace lockstep::coordinator
