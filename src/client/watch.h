#pragma once

#include <functional>
#include <string>

#include "client/connection.h"

namespace lockstep::client {

/// WatchTxn until the outcome is final, across lost connections and restarts of the server. `each`
/// is told every message, and ends it with false. Blocks. Fails once no server has answered for
/// `silence`, or at once with what trying again cannot help.
Status WatchToEnd(Connection& connection, const std::string& txn_id, Timeout silence,
                  const std::function<bool(const v1::WatchTxnResponse&)>& each);

}  // namespace lockstep::client
