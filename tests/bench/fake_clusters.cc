// Fake clusters for a benchmark that is a process of its own: prints the bootstrap address of each,
// one a line, and serves until its input ends.
//
//   fake_clusters [--clusters 2] [--partitions 1]

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <iostream>
#include <memory>
#include <vector>

#include "fake_cluster.h"

int main(int argc, char** argv) {
  int count = 2;
  int partitions = 1;
  CLI::App app{"Kafka clusters that cost nearly nothing."};
  app.add_option("--clusters", count)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--partitions", partitions, "of every topic")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  boost::asio::io_context io(1);
  std::vector<std::unique_ptr<lockstep::bench::FakeCluster>> clusters;
  for (int i = 0; i < count; ++i) {
    clusters.push_back(std::make_unique<lockstep::bench::FakeCluster>(io, partitions));
    std::cout << clusters.back()->bootstrap() << std::endl;
  }
  boost::asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  std::array<char, 64> ignored;
  input.async_read_some(boost::asio::buffer(ignored),
                        [&io](boost::system::error_code, std::size_t) { io.stop(); });
  io.run();
  return 0;
}
