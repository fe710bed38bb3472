#include "http_get.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <sstream>

namespace lockstep::server {

namespace asio = boost::asio;

HttpAnswer HttpAsk(std::uint16_t port, const std::string& method, const std::string& path) {
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  socket.connect({asio::ip::address_v4::loopback(), port});
  asio::write(socket, asio::buffer(method + " " + path +
                                   " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
  std::string all;
  boost::system::error_code end;
  asio::read(socket, asio::dynamic_buffer(all), end);
  HttpAnswer answer;
  const auto split = all.find("\r\n\r\n");
  if (split == std::string::npos) return answer;
  answer.head = all.substr(0, split);
  answer.body = all.substr(split + 4);
  answer.status = std::stoi(answer.head.substr(answer.head.find(' ') + 1));
  return answer;
}

std::map<std::string, double> ParseMetrics(const std::string& page) {
  std::map<std::string, double> values;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto space = line.rfind(' ');
    values[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return values;
}

}  // namespace lockstep::server
