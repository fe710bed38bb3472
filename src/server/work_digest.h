#pragma once

#include <lockstep/v1/coordinator.pb.h>

#include <string>

namespace lockstep::server {

/// SHA-256 over the work of an Execute: what tells a repeated call from another one under the same
/// key. Over the messages as this server would send them, each after its length in eight bytes, so
/// that it does not depend on how the client's library wrote them. It is logged with the key:
/// should a later server write the messages in another way, a repeated call is refused as
/// KEY_REUSED, and never run twice.
std::string DigestOf(const google::protobuf::RepeatedPtrField<v1::Work>& work);

}  // namespace lockstep::server
