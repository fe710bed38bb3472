#pragma once

#include <lockstep/v1/error.pb.h>

#include <optional>

#include "base/result.h"

namespace lockstep::server {

/// A request that was refused before the coordinator heard of it.
struct Refused {
  Error error;
  std::optional<v1::Reason> reason;  ///< Where the table's is too coarse.
  bool by_policy = false;            ///< For the audit log, which has not got it yet.
};

}  // namespace lockstep::server
