#pragma once

#include <string>

#include "client/connection.h"

/// Commit and Abort by id: what Client and Transaction share.
namespace lockstep::client {

/// As Transaction::CommitAsync.
void StartCommit(Connection& connection, const std::string& txn_id, Wait wait, Timeout timeout,
                 CommitCallback done);
/// As Transaction::Commit.
Result<TxnResult> CommitById(Connection& connection, const std::string& txn_id, Wait wait,
                             Timeout timeout);
/// Abort, without waiting.
void StartAbort(Connection& connection, const std::string& txn_id, Timeout timeout,
                CommitCallback done);
/// As Transaction::Abort.
Result<TxnResult> AbortById(Connection& connection, const std::string& txn_id, Timeout timeout);

}  // namespace lockstep::client
