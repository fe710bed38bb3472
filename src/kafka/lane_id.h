#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace lockstep::kafka {

/// A lane's transactional.id: `lockstep-<log id>-<incarnation>-<cluster>-<slot>`. Bound to the
/// decision log, so that an instance that lost its disk can never abort what a lost decision
/// committed; and to this start of it, so that no request of a dead process can fence a lane of
/// ours (M20). A slot is given once in an incarnation.
struct LaneId {
  LogId log;
  Incarnation incarnation;
  ClusterName cluster;  ///< The configured name when the lane was made; it may contain '-'.
  std::uint64_t slot = 0;
  friend bool operator==(const LaneId&, const LaneId&) = default;
};

TransactionalId Format(const LaneId& id);
/// Nothing if it is not of this form.
std::optional<LaneId> ParseLaneId(const TransactionalId& id);
/// What all lanes of all decision logs begin with.
inline constexpr std::string_view kLanePrefix = "lockstep-";
/// What all lanes of one decision log begin with.
std::string LanePrefix(const LogId& log);

}  // namespace lockstep::kafka
