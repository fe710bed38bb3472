#pragma once

#include <lockstep/v1/coordinator.pb.h>
#include <lockstep/v1/txn.pb.h>

#include <chrono>

#include "lockstep/client.h"

/// Between the public types and the API's messages. Pure.
namespace lockstep::client {

google::protobuf::Duration ToProto(std::chrono::milliseconds duration);
v1::CommitWait ToProto(Wait wait);
void FillRecord(Record record, v1::Record& out);
void FillOffsets(const GroupOffsets& offsets, v1::SendOffsetsRequest& out);

WallTime FromProto(const google::protobuf::Timestamp& time);
/// kInternal where the server says what this client does not know.
Result<TxnInfo> FromProto(const v1::Transaction& txn);
/// The same; of CommitResponse and AbortResponse.
template <typename Response>
Result<TxnResult> ResultOf(const Response& response);

}  // namespace lockstep::client
