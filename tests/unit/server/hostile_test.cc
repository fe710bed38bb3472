#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "security_fixture.h"

/// Clients that mean harm: a well-behaved one's calls go on meanwhile, and what they took comes
/// back.
namespace lockstep::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A TCP connection that says what it is told to.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawClient() { close(fd_); }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void Say(const std::string& bytes) const {
    (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Reads and throws away until the server has closed it.
  bool ClosedWithin(milliseconds limit) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    std::array<char, 4096> bytes{};
    while (std::chrono::steady_clock::now() < end) {
      pollfd poll_fd{fd_, POLLIN, 0};
      if (poll(&poll_fd, 1, 100) <= 0) continue;
      const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    }
    return false;
  }

 private:
  int fd_;
  bool connected_ = false;
};

class HostileTest : public SecurityFixture {
 protected:
  HostileTest() { config_.handshake_timeout = seconds(2); }

  /// Whole transactions of somebody else's, each within a time that only a hindered server needs.
  void ExpectServiceGoesOn() {
    Become("alice");
    for (int i = 0; i < 5; ++i) {
      const std::string id = BeginWithWork();
      v1::CommitResponse response;
      const auto status = Commit(id, &response, v1::COMMIT_WAIT_COMPLETE, seconds(10));
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response.outcome(), v1::OUTCOME_COMMITTED);
    }
  }
};

TEST_F(HostileTest, HalfOpenTlsIsClosedAndCostsNobody) {
  Serve();
  std::vector<RawClient> half_open;
  for (int i = 0; i < 300; ++i) {
    half_open.emplace_back(daemon_->port());
    ASSERT_TRUE(half_open.back().connected());
    // Of each third: nothing, the head of a ClientHello, and of an alert.
    if (i % 3 == 1)
      half_open.back().Say(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
    if (i % 3 == 2) half_open.back().Say(std::string("\x15\x03", 2));
  }
  ExpectServiceGoesOn();
  for (const RawClient& client : half_open) EXPECT_TRUE(client.ClosedWithin(seconds(20)));
}

TEST_F(HostileTest, GarbageIsClosedAndCostsNobody) {
  Serve();
  std::string noise(64 * 1024, '\0');
  unsigned int state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1'103'515'245 + 12'345) >> 16);
  std::vector<RawClient> clients;
  for (const std::string& words :
       {noise, std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\xff\xff") + noise,
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + noise}) {
    for (int i = 0; i < 20; ++i) {
      clients.emplace_back(daemon_->port());
      clients.back().Say(words);
    }
  }
  ExpectServiceGoesOn();
  for (const RawClient& client : clients) EXPECT_TRUE(client.ClosedWithin(seconds(20)));
}

/// The same where no TLS is in the way: HTTP/2 itself gets the garbage.
TEST_F(HostileTest, GarbageFramesCostNobody) {
  config_.tls = {};
  config_.policy_file.clear();
  Serve();
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\x04\0\0\0\0\0", 9);
  const auto frame = [](char type, char flags, std::size_t length, const std::string& payload) {
    std::string head = {static_cast<char>(length >> 16),
                        static_cast<char>(length >> 8),
                        static_cast<char>(length),
                        type,
                        flags,
                        0,
                        0,
                        0,
                        1};
    return head + payload;
  };
  std::vector<RawClient> clients;
  const auto say = [&](const std::string& words) {
    clients.emplace_back(daemon_->port());
    clients.back().Say(preface + settings + words);
  };
  say(frame(0, 0, 10, "0123456789"));                      // DATA of no stream.
  say(frame(1, 4, 0xff'ffff, std::string(1000, '\xff')));  // HEADERS larger than a frame may be.
  say(frame(1, 4, 20, std::string(20, '\xff')));           // HPACK that means nothing.
  say(frame(1, 0, 5, std::string(5, '\x82')));             // HEADERS that never end ...
  say(frame(9, 4, 5, std::string(5, '\x82')));             // ... CONTINUATION of nothing.
  say(frame(6, 0, 7, "1234567"));                          // PING of a wrong size.
  say(frame(8, 0, 4, std::string(4, '\0')));               // WINDOW_UPDATE by nothing.
  say(frame(4, 0, 5, "12345"));                            // SETTINGS of a wrong size.
  const auto well = grpc::CreateChannel("127.0.0.1:" + std::to_string(daemon_->port()),
                                        grpc::InsecureChannelCredentials());
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(CallAny(well, "/lockstep.v1.Coordinator/GetServerInfo", "").ok());
  }
}

TEST_F(HostileTest, OversizedHeadersAreRefused) {
  Serve();
  const auto alice = ConnectAs("alice");
  const auto status = CallAny(alice, "/lockstep.v1.Coordinator/GetServerInfo", "",
                              "Bearer " + std::string(64 * 1024, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  const auto name = CallAny(alice, "/" + std::string(4000, 'x') + "/y", "");
  EXPECT_EQ(name.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  ExpectServiceGoesOn();
}

TEST_F(HostileTest, OversizedNamesAreRefused) {
  Serve();
  Become("bob");
  const std::string huge(1 << 20, 'x');
  v1::GetTxnRequest get;
  get.set_txn_id(huge);
  v1::GetTxnResponse got;
  ExpectError(Call(*coordinator_, &CoordinatorStub::GetTxn, get, &got),
              grpc::StatusCode::INVALID_ARGUMENT, "INVALID_REQUEST", "txn_id");
  v1::RegisterProducerRequest producer;
  producer.set_cluster("east");
  producer.set_transactional_id(huge);
  producer.set_protocol(v1::PRODUCER_PROTOCOL_TV1);
  v1::RegisterProducerResponse registered;
  const auto status =
      Call(*coordinator_, &CoordinatorStub::RegisterProducer, producer, &registered);
  EXPECT_FALSE(status.ok());
  EXPECT_LT(status.error_message().size(), 2'000U) << "it is not sent back";
  const std::string id = Begin();
  EXPECT_FALSE(Produce(id, huge, 0).ok());
  ExpectServiceGoesOn();
}

/// Streams that nothing is sent on: one principal's count against that one only.
TEST_F(HostileTest, IdleStreamsCostTheirPrincipalOnly) {
  std::string policy = kPolicy;
  const std::string bob = "  - name: bob\n";
  policy.insert(policy.find(bob) + bob.size(), "    concurrent_calls: 1000\n");
  WritePolicy(policy);
  Serve();
  Become("bob");
  struct Stream {
    CallContext context{seconds(60)};
    std::unique_ptr<grpc::ClientReaderWriter<v1::ExecuteStreamRequest, v1::ExecuteStreamResponse>>
        call;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 2'000; ++i) {
    auto stream = std::make_unique<Stream>();
    stream->call = coordinator_->ExecuteStream(&stream->context);
    streams.push_back(std::move(stream));
  }
  // He has his thousand; that further ones are refused tells that all have arrived.
  v1::GetServerInfoResponse info;
  grpc::Status status;
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (status.ok() && std::chrono::steady_clock::now() < end) {
    status = Call(*coordinator_, &CoordinatorStub::GetServerInfo, {}, &info);
  }
  ExpectError(status, grpc::StatusCode::RESOURCE_EXHAUSTED, "LIMIT_REACHED",
              "too many calls of 'bob' under way (the policy allows 1000)");
  ExpectServiceGoesOn();
  for (auto& stream : streams) stream->context.TryCancel();
  for (auto& stream : streams) (void)stream->call->Finish();
  Become("bob");
  while (!(status = Call(*coordinator_, &CoordinatorStub::GetServerInfo, {}, &info)).ok() &&
         std::chrono::steady_clock::now() < end) {
  }
  EXPECT_TRUE(status.ok()) << "what he gives back is his again: " << status.error_message();
}

TEST_F(HostileTest, AnIdleConnectionIsClosed) {
  config_.idle_timeout = milliseconds(300);
  config_.tls = {};
  config_.policy_file.clear();
  Serve();
  RawClient idle(daemon_->port());
  idle.Say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\x04\0\0\0\0\0", 9));
  EXPECT_TRUE(idle.ClosedWithin(seconds(20)));
}

}  // namespace
}  // namespace lockstep::server
