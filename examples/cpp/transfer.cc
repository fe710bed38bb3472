// A sharded write path. Accounts live on several clusters, by their number, and a transfer writes
// to the shards of both: the payer's debit and the payee's credit, or neither.
//   transfer HOST:PORT SHARD...     SHARD: a cluster of lockstepd's configuration
// Requests come on its input, a line each: ID MADE_AT PAYER PAYEE AMOUNT, and each is answered on
// its output: ID OUTCOME. MADE_AT, in milliseconds since 1970, is when the caller made up the ID. A
// caller that is not answered, or not with COMMITTED, asks again with the same line: under one ID
// money moves once, whoever crashes meanwhile.
#include <lockstep/client.h>

#include <iostream>
#include <string>
#include <vector>

namespace ls = lockstep::client;

struct Request {
  std::string id;
  long made_at;
  unsigned long payer, payee;
  long amount;
};
std::istream& operator>>(std::istream& in, Request& request) {
  return in >> request.id >> request.made_at >> request.payer >> request.payee >> request.amount;
}

ls::Result<ls::Executed> Transfer(ls::Client& client, const std::vector<std::string>& shards,
                                  const Request& request) {
  const auto posting = [&](unsigned long account, long amount) {
    return ls::Work{.cluster = shards[account % shards.size()],
                    .records = {{.topic = "ledger",
                                 .key = std::to_string(account),
                                 .value = request.id + " " + std::to_string(amount)}}};
  };
  const ls::WallTime made_at{std::chrono::milliseconds(request.made_at)};
  const ls::ExecuteOptions options{.label = "transfer", .key = ls::ExecuteKey{request.id, made_at}};
  return client.Execute(
      {posting(request.payer, -request.amount), posting(request.payee, request.amount)}, options);
}

int main(int argc, char** argv) {
  if (argc < 3) return std::cerr << "usage: see the source\n", 2;
  ls::Client client({.server = argv[1]});
  const std::vector<std::string> shards(argv + 2, argv + argc);
  for (Request request; std::cin >> request;) {
    const auto done = Transfer(client, shards, request);
    std::cout << request.id << " ";
    if (done) {
      std::cout << ls::Name(done->result.outcome) << " " << done->result.abort.message << std::endl;
    } else {
      std::cout << "FAILED " << ls::ToString(done.error()) << std::endl;
    }
  }
}
