#include "gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace lockstep::testing {
namespace {

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

int Number(const std::string& bytes, std::size_t at, std::size_t size) {
  int number = 0;
  for (std::size_t i = 0; i < size; ++i) {
    number = number << 8 | static_cast<unsigned char>(bytes.at(at + i));
  }
  return number;
}

bool ReadAll(int socket, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket, data, size, 0);
    if (got <= 0) return false;
    data += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// A frame with its length before it, as both directions send them.
std::optional<std::string> ReadFrame(int socket) {
  std::string frame(4, '\0');
  if (!ReadAll(socket, frame.data(), 4)) return std::nullopt;
  const auto size = static_cast<std::size_t>(Number(frame, 0, 4));
  frame.resize(4 + size);
  if (!ReadAll(socket, frame.data() + 4, size)) return std::nullopt;
  return frame;
}

bool WriteAll(int socket, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t put = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (put <= 0) return false;
    sent += static_cast<std::size_t>(put);
  }
  return true;
}

}  // namespace

struct Gate::Connection {
  int client = -1;
  int broker = -1;
  std::mutex mutex;
  std::set<int> lost_answers;  // Correlation ids. Guarded by mutex.

  ~Connection() {
    ::close(client);
    ::close(broker);
  }
  void Cut() const {
    ::shutdown(client, SHUT_RDWR);
    ::shutdown(broker, SHUT_RDWR);
  }
};

Gate::Gate() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, raw, size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, raw, &size) != 0) {
    throw std::runtime_error("cannot listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

Gate::~Gate() {
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  for (const auto& connection : connections_) connection->Cut();
  for (std::thread& pump : pumps_) pump.join();
}

void Gate::Accept() {
  for (;;) {
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    const auto connection = std::make_shared<Connection>();
    connection->client = client;
    connection->broker = ConnectToBroker();
    if (connection->broker < 0) continue;
    const int on = 1;
    for (const int socket : {connection->client, connection->broker}) {
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    pumps_.emplace_back([this, connection] { PumpRequests(connection); });
    pumps_.emplace_back([this, connection] { PumpAnswers(connection); });
  }
}

int Gate::ConnectToBroker() const {
  const int broker = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(upstream_);
  if (::connect(broker, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return broker;
  ::close(broker);
  return -1;
}

void Gate::PumpRequests(const std::shared_ptr<Connection>& connection) {
  while (const auto frame = ReadFrame(connection->client)) {
    // Length, API key, version, correlation id, client.id: the same in every request.
    const auto api_key = static_cast<std::int16_t>(Number(*frame, 4, 2));
    const auto name_size = static_cast<std::int16_t>(Number(*frame, 12, 2));
    const std::string client = frame->substr(14, std::max<std::int16_t>(name_size, 0));
    Loss loss{};
    if (Take(api_key, client, loss)) {
      if (loss == Loss::kHold) Hold(*frame);
      if (loss != Loss::kAnswer) break;
      const std::lock_guard lock(connection->mutex);
      connection->lost_answers.insert(Number(*frame, 8, 4));
    }
    if (!WriteAll(connection->broker, *frame)) break;
  }
  connection->Cut();
}

void Gate::PumpAnswers(const std::shared_ptr<Connection>& connection) {
  while (const auto frame = ReadFrame(connection->broker)) {
    {
      const std::lock_guard lock(connection->mutex);
      if (connection->lost_answers.count(Number(*frame, 4, 4)) > 0) break;
    }
    if (!WriteAll(connection->client, *frame)) break;
  }
  connection->Cut();
}

bool Gate::Take(std::int16_t api_key, const std::string& client, Loss& loss) {
  const std::lock_guard lock(mutex_);
  for (Rule& rule : rules_) {
    if (rule.count == 0 || rule.api_key != api_key || client.rfind(rule.client, 0) != 0) continue;
    --rule.count;
    loss = rule.loss;
    return true;
  }
  return false;
}

void Gate::Lose(Loss loss, std::int16_t api_key, std::string client, int count) {
  const std::lock_guard lock(mutex_);
  rules_.push_back({loss, api_key, std::move(client), count});
}

void Gate::Hold(std::string frame) {
  std::unique_lock lock(mutex_);
  held_.push_back(std::move(frame));
  changed_.wait(lock, [this, cuts = cuts_] { return closed_ || cuts_ > cuts; });
}

std::size_t Gate::held() {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

void Gate::Cut() {
  const std::lock_guard lock(mutex_);
  ++cuts_;
  changed_.notify_all();
}

std::vector<Gate::Delivered> Gate::Deliver() {
  std::vector<std::string> frames;
  {
    const std::lock_guard lock(mutex_);
    frames.swap(held_);
  }
  std::vector<Delivered> delivered;
  for (const std::string& frame : frames) {
    const int broker = ConnectToBroker();
    std::optional<std::string> answer;
    if (broker >= 0 && WriteAll(broker, frame)) answer = ReadFrame(broker);
    ::close(broker);
    if (!answer) throw std::runtime_error("what was held got no answer");
    delivered.push_back({static_cast<std::int16_t>(Number(frame, 6, 2)), answer->substr(4)});
  }
  return delivered;
}

int Gate::StillToLose() {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (const Rule& rule : rules_) count += rule.count;
  return count;
}

void Gate::Forget() {
  const std::lock_guard lock(mutex_);
  rules_.clear();
}

}  // namespace lockstep::testing
