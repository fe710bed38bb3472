#pragma once

#include <string>
#include <vector>

#include "client/connection.h"

/// Commit and Abort by id: what Client and Transaction share.
namespace lockstep::client {

/// As Transaction::CommitAsync.
void StartCommit(Connection& connection, const std::string& txn_id, Wait wait, Timeout timeout,
                 CommitCallback done);
/// As Transaction::Commit.
Result<TxnResult> CommitById(Connection& connection, const std::string& txn_id, Wait wait,
                             Timeout timeout);
/// As Transaction::CommitEnlisted.
Result<TxnResult> CommitEnlistedById(Connection& connection, const std::string& txn_id,
                                     const std::vector<EnlistedWork>& enlisted, Timeout timeout);
/// Abort, without waiting. `insist_on_end`: kCommitting is asked again, and an error in the end.
void StartAbort(Connection& connection, const std::string& txn_id, Timeout timeout,
                CommitCallback done, bool insist_on_end = false);
/// As Transaction::Abort.
Result<TxnResult> AbortById(Connection& connection, const std::string& txn_id, Timeout timeout,
                            bool insist_on_end = false);

}  // namespace lockstep::client
