#pragma once

#include <google/protobuf/duration.pb.h>
#include <lockstep/v1/txn.pb.h>

#include <string>

#include "base/result.h"

/// The short forms in which lockstepctl takes records and offsets. Pure.
namespace lockstep::cli {

struct RecordSpec {
  std::string cluster;
  v1::Record record;
};

/// "cluster:topic[:partition[:key]]=value": all before the first '=' is split at ':', so a value
/// may hold anything, and a key any ':'. An empty partition leaves it to the key; without '=' the
/// value is null. Error: kInvalidArgument with the form.
Result<RecordSpec> ParseRecordSpec(const std::string& text);

/// "topic:partition=offset". Error: kInvalidArgument with the form.
Result<v1::Offset> ParseOffsetSpec(const std::string& text);

/// "name=value", or "name" for a null value.
v1::Header ParseHeaderSpec(const std::string& text);

/// "500ms", "30s", "5m", "1h". Error: kInvalidArgument with the form.
Result<google::protobuf::Duration> ParseDurationSpec(const std::string& text);

}  // namespace lockstep::cli
