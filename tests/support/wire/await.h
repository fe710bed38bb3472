#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>

#include "wire/client.h"

namespace lockstep::testing {

/// A call of wire::Client under way: its result can be waited for, once, and must come.
template <typename T>
class Pending {
 public:
  /// `start` gets the callback.
  template <typename Start>
  explicit Pending(Start start) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    future_ = promise->get_future();
    start([promise](Result<T> result) { promise->set_value(std::move(result)); });
  }

  Result<T> Get() {
    if (future_.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
      throw std::runtime_error("a call of wire::Client never ended");
    }
    return future_.get();
  }
  bool ready() const {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  std::future<Result<T>> future_;
};

/// Starts a call and waits: `Await<ClusterFacts>([&](auto done) { client.GetFacts(5s, done); })`.
template <typename T, typename Start>
Result<T> Await(Start start) {
  return Pending<T>(std::move(start)).Get();
}

}  // namespace lockstep::testing
