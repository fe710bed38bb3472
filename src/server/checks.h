#pragma once

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

/// What the checks of all requests share.
namespace lockstep::server {

constexpr std::int64_t kYear9999Seconds = 253'402'300'799;  ///< Protobuf's last second.

/// kInvalidArgument; the message begins with the field.
inline Error Invalid(std::string_view field, std::string_view problem) {
  return MakeError(Code::kInvalidArgument, std::string(field) + ": " + std::string(problem));
}

/// Within what google.protobuf.Timestamp allows, and not before 1970.
inline bool IsTime(const google::protobuf::Timestamp& time) {
  return time.seconds() >= 0 && time.seconds() <= kYear9999Seconds && time.nanos() >= 0 &&
         time.nanos() < 1'000'000'000;
}

}  // namespace lockstep::server
