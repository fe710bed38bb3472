#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::testing {

/// A TCP gate before one broker that loses chosen requests, or their answers, or holds requests, as
/// a network can. The broker must advertise the gate's address. Thread-safe.
class Gate {
 public:
  enum class Loss {
    kRequest,  ///< The broker never sees it; the connection is cut.
    kAnswer,   ///< The broker has carried it out and answered; the connection is cut.
    kHold,     ///< The broker sees it at Deliver; the connection is silent until Cut.
  };
  struct Delivered {
    std::int16_t version = 0;  ///< The request's.
    std::string answer;        ///< The broker's, from its correlation id on.
  };

  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  std::uint16_t port() const { return port_; }
  /// Where it leads: 127.0.0.1:`port`. Until then connections are closed at once.
  void LeadTo(std::uint16_t port) { upstream_ = port; }

  /// The next `count` requests with this API key by clients whose client.id begins with `client`.
  void Lose(Loss loss, std::int16_t api_key, std::string client, int count = 1);
  void Forget();  ///< What was to be lost.
  /// How many such requests are still to come.
  int StillToLose();

  std::size_t held();
  void Cut();  ///< Cuts the connections of what is held: those who wait learn of it.
  /// Gives the broker what is held, at last, in a connection of the gate's own. Blocks until it has
  /// answered. Throws std::runtime_error where it does not.
  std::vector<Delivered> Deliver();

 private:
  struct Rule {
    Loss loss = Loss::kRequest;
    std::int16_t api_key = 0;
    std::string client;
    int count = 0;
  };
  struct Connection;

  void Accept();
  void PumpRequests(const std::shared_ptr<Connection>& connection);
  void PumpAnswers(const std::shared_ptr<Connection>& connection);
  int ConnectToBroker() const;
  bool Take(std::int16_t api_key, const std::string& client, Loss& loss);
  void Hold(std::string frame);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<std::uint16_t> upstream_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rule> rules_;
  std::vector<std::string> held_;
  int cuts_ = 0;
  bool closed_ = false;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<std::thread> pumps_;
  std::thread acceptor_;
};

}  // namespace lockstep::testing
