#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep::server {

struct HttpAnswer {
  int status = 0;  ///< 0: none came, the connection was closed.
  std::string head;
  std::string body;
};

/// Sends one request to 127.0.0.1 and reads until the server closes. Blocking.
HttpAnswer HttpAsk(std::uint16_t port, const std::string& method, const std::string& path);
inline HttpAnswer HttpGet(std::uint16_t port, const std::string& path) {
  return HttpAsk(port, "GET", path);
}

/// A page of Prometheus's text format: the value of each "name{label="x"}".
std::map<std::string, double> ParseMetrics(const std::string& page);

}  // namespace lockstep::server
