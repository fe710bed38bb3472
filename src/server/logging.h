#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>

namespace lockstep::server {

/// A line as text: "2026-11-30T05:40:34.215Z I message", and the trace, if the line has one
/// (TraceScope): " trace_id=... span_id=...".
std::unique_ptr<spdlog::formatter> TextFormat();
/// A line as one JSON object: {"time": "...Z", "level": "info", "message": "..."}, and trace_id and
/// span_id, if the line has a trace. What is not UTF-8 in a message is replaced, so every line
/// parses.
std::unique_ptr<spdlog::formatter> JsonFormat();

/// The process's log, on stderr: `level` and `format` ("text", "json") as in the configuration.
void SetUpLogging(const std::string& level, const std::string& format);

}  // namespace lockstep::server
