#include "server/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "server/traces.h"

namespace lockstep::server {
namespace {

/// The time by spdlog's own pattern, the rest as JSON.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
    const auto level = spdlog::level::to_string_view(message.level);
    nlohmann::ordered_json object;
    object["time"] = std::string(time.data(), time.size());
    object["level"] = std::string(level.data(), level.size());
    object["message"] = std::string(message.payload.data(), message.payload.size());
    if (const auto& trace = TraceScope::current()) {
      object["trace_id"] = trace->trace_id;
      object["span_id"] = trace->span_id;
    }
    const std::string text =
        object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%eZ", spdlog::pattern_time_type::utc, ""};
};

/// " trace_id=... span_id=...", if the line belongs to a trace.
class TraceFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&,
              spdlog::memory_buf_t& line) override {
    const auto& trace = TraceScope::current();
    if (!trace) return;
    const std::string text = " trace_id=" + trace->trace_id + " span_id=" + trace->span_id;
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<TraceFlag>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> TextFormat() {
  auto format = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  format->add_flag<TraceFlag>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L %v%*");
  return format;
}

std::unique_ptr<spdlog::formatter> JsonFormat() { return std::make_unique<JsonFormatter>(); }

void SetUpLogging(const std::string& level, const std::string& format) {
  auto logger = std::make_shared<spdlog::logger>("lockstepd",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(format == "json" ? JsonFormat() : TextFormat());
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace lockstep::server
