#pragma once

#include <lockstep/v1/coordinator.pb.h>
#include <lockstep/v1/txn.pb.h>

#include <chrono>

#include "lockstep/client.h"

/// Between the public types and the API's messages. Pure.
namespace lockstep::client {

google::protobuf::Duration ToProto(std::chrono::milliseconds duration);
google::protobuf::Timestamp ToProto(WallTime time);  ///< In milliseconds.
v1::CommitWait ToProto(Wait wait);
void FillRecord(Record record, v1::Record& out);
/// Of SendOffsetsRequest and OffsetsWork.
template <typename Message>
void FillOffsets(const GroupOffsets& offsets, Message& out);
void FillEnlisted(const EnlistedWork& work, v1::EnlistedWork& out);
v1::TxnState ToProto(TxnState state);

WallTime FromProto(const google::protobuf::Timestamp& time);
/// kInternal where the server says what this client does not know.
Result<TxnInfo> FromProto(const v1::Transaction& txn);
/// The same; of CommitResponse, AbortResponse and ExecuteResponse.
template <typename Response>
Result<TxnResult> ResultOf(const Response& response);

}  // namespace lockstep::client
