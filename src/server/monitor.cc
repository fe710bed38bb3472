#include "server/monitor.h"

#include <string>
#include <utility>

#include "server/metrics.h"

namespace lockstep::server {
namespace {

constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kIndex =
    "lockstepd\n\n/metrics  for Prometheus\n/livez    is the process alive\n"
    "/readyz   does it take transactions\n";

/// Why it is not ready; empty: it is.
std::string WhyNotReady(const Api& api, const coordinator::Reading& reading) {
  if (!api.open) return "starting";
  if (api.draining) return "stopping: no new transactions";
  if (api.drained) return "drained by an operator: no new transactions";
  if (reading.recovering > 0 && reading.recovery < Monitor::kRecoveryPatience) {
    return "recovering: " + std::to_string(reading.recovering) + " of " +
           std::to_string(reading.recovered) + " decisions found in doubt are not settled";
  }
  return "";
}

HttpResponse Unready(const std::string& why) {
  return {.status = 503, .body = "not ready: " + why + "\n"};
}

}  // namespace

Result<std::unique_ptr<Monitor>> Monitor::Listen(const ListenAddress& address,
                                                 const coordinator::Clock& clock) {
  std::unique_ptr<Monitor> monitor(new Monitor(clock));
  auto server = HttpServer::Listen(
      address, [self = monitor.get()](const HttpRequest& request, HttpServer::Respond respond) {
        self->Handle(request, respond);
      });
  if (!server.ok()) return server.error();
  monitor->server_ = *std::move(server);
  return monitor;
}

void Monitor::Set(const Api* api) {
  const std::lock_guard lock(mutex_);
  api_ = api;
}

void Monitor::Handle(const HttpRequest& request, const HttpServer::Respond& respond) {
  const std::string& path = request.path;
  if (path == "/") return respond([] { return HttpResponse{.body = kIndex}; });
  if (path != "/metrics" && path != "/livez" && path != "/readyz") {
    return respond([] {
      return HttpResponse{.status = 404, .body = "there is /metrics, /livez and /readyz\n"};
    });
  }
  const std::lock_guard lock(mutex_);
  if (api_ == nullptr) {
    return respond([this, path] { return Render(path, {}); });
  }
  // Who does not come back from this is not alive.
  api_->coordinator.Read([this, path, respond](coordinator::Reading reading) {
    respond([this, path, reading = std::move(reading)] { return Render(path, reading); });
  });
}

HttpResponse Monitor::Render(const std::string& path, const coordinator::Reading& reading) {
  if (path == "/livez") return {.body = "alive\n"};
  const std::lock_guard lock(mutex_);
  const bool metrics = path == "/metrics";
  if (api_ == nullptr) {
    if (metrics) return {.content_type = kMetricsType, .body = MetricsPage()};
    return Unready("the decision log is being opened");
  }
  const std::string why = WhyNotReady(*api_, reading);
  if (metrics) {
    return {.content_type = kMetricsType,
            .body = MetricsPage(*api_, reading, why.empty(), clock_.WallNow())};
  }
  return why.empty() ? HttpResponse{.body = "ready\n"} : Unready(why);
}

}  // namespace lockstep::server
