#pragma once

#include <set>

#include "base/time.h"
#include "coordinator/ports.h"
#include "wire/client.h"

/// Open transactions of lanes of other decision logs, as wire requests: what coordinator::Cluster
/// promises of them, for a client that is pinned to the right cluster. Each returns at once and
/// calls back on the wire client's thread. `own` is our log: its ids are never touched here.
namespace lockstep::kafka {

/// At most a thousand: the rest is told as a problem. Those of `except` are none.
void ListOrphans(wire::Client& client, const LogId& own, std::set<TransactionalId> except,
                 Duration timeout, coordinator::Callback<Result<coordinator::OrphanListing>> done);

/// Whether EndOrphan may be called for it: kInvalidArgument if not.
Status CheckOrphanId(const TransactionalId& id, const LogId& own);

void EndOrphan(wire::Client& client, coordinator::Orphan orphan, txn::Direction direction,
               Duration timeout, coordinator::Callback<Result<txn::TxnDescription>> done);

}  // namespace lockstep::kafka
