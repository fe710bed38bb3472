#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "coordinator/ports.h"

namespace lockstep::coordinator {

/// Finds where consumer groups live that `named` has fenced: asks every cluster, all at once, for
/// `limit` at most. Tells, in words for people, each group that `named` does not know and another
/// one does: "group 'g' lives on cluster 'b'". Empty where none is, or where that was not answered
/// in time. The clusters outlive it. On the executor.
void LocateGroups(Executor& executor, const std::map<ClusterName, Cluster*>& clusters,
                  const ClusterName& named, const std::vector<std::string>& groups, Duration limit,
                  Callback<std::string> done);

}  // namespace lockstep::coordinator
