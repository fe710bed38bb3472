#include "cli/record_spec.h"

#include <google/protobuf/util/time_util.h>

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace lockstep::cli {
namespace {

/// Takes the text up to `separator` off the front; all of it if there is none.
std::string_view TakeField(std::string_view& rest, char separator) {
  const auto at = rest.find(separator);
  const std::string_view field = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return field;
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Error Bad(const std::string& text, const char* form) {
  return MakeError(Code::kInvalidArgument, "'" + text + "': expected " + form);
}

}  // namespace

Result<RecordSpec> ParseRecordSpec(const std::string& text) {
  constexpr const char* kForm =
      "cluster:topic[:partition[:key]]=value, such as east:orders=v, east:orders:0=v or "
      "east:orders::k=v; without '=' the value is null";
  RecordSpec spec;
  const auto equals = text.find('=');
  if (equals != std::string::npos) spec.record.set_value(text.substr(equals + 1));
  std::string_view rest = std::string_view(text).substr(0, equals);

  spec.cluster = TakeField(rest, ':');
  spec.record.set_topic(std::string(TakeField(rest, ':')));
  if (spec.cluster.empty() || spec.record.topic().empty()) return Bad(text, kForm);
  const bool has_key = rest.find(':') != std::string_view::npos;
  if (const std::string_view partition = TakeField(rest, ':'); !partition.empty()) {
    const auto number = ParseNumber<std::int32_t>(partition);
    if (!number) return Bad(text, kForm);
    spec.record.set_partition(*number);
  }
  if (has_key) spec.record.set_key(std::string(rest));
  return spec;
}

Result<v1::Offset> ParseOffsetSpec(const std::string& text) {
  std::string_view rest = text;
  v1::Offset offset;
  offset.set_topic(std::string(TakeField(rest, ':')));
  const auto partition = ParseNumber<std::int32_t>(TakeField(rest, '='));
  const auto number = ParseNumber<std::int64_t>(rest);
  if (offset.topic().empty() || !partition || !number) {
    return Bad(text, "topic:partition=offset, such as orders:0=42");
  }
  offset.set_partition(*partition);
  offset.set_offset(*number);
  return offset;
}

v1::Header ParseHeaderSpec(const std::string& text) {
  v1::Header header;
  const auto equals = text.find('=');
  header.set_key(text.substr(0, equals));
  if (equals != std::string::npos) header.set_value(text.substr(equals + 1));
  return header;
}

Result<google::protobuf::Duration> ParseDurationSpec(const std::string& text) {
  const auto unit_at = text.find_first_not_of("0123456789");
  const auto number = ParseNumber<std::int64_t>(std::string_view(text).substr(0, unit_at));
  const std::string unit = unit_at == std::string::npos ? "" : text.substr(unit_at);
  const std::int64_t factor = unit == "ms"  ? 1
                              : unit == "s" ? 1000
                              : unit == "m" ? 60'000
                              : unit == "h" ? 3'600'000
                                            : 0;
  constexpr std::int64_t kMaxMs = std::int64_t{1000} * 3600 * 24 * 365;
  if (!number || factor == 0 || *number > kMaxMs / factor) {
    return Bad(text, "a duration such as 500ms, 30s, 5m or 1h");
  }
  return google::protobuf::util::TimeUtil::MillisecondsToDuration(*number * factor);
}

}  // namespace lockstep::cli
