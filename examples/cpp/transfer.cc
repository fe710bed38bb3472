// One record on each of two clusters, or on neither.
//   transfer HOST:PORT CLUSTER_A CLUSTER_B TOPIC
#include <lockstep/client.h>

#include <iostream>

namespace ls = lockstep::client;

int main(int argc, char** argv) {
  if (argc != 5) return std::cerr << "usage: transfer HOST:PORT CLUSTER_A CLUSTER_B TOPIC\n", 2;
  ls::Client client({.server = argv[1]});

  auto txn = client.Begin({.label = "transfer"});
  if (!txn) return std::cerr << ls::ToString(txn.error()) << "\n", 1;
  for (const char* cluster : {argv[2], argv[3]}) {
    const ls::Record record{.topic = argv[4], .key = "42", .value = "ten apples"};
    if (const ls::Status added = txn->Produce(cluster, record); !added) {
      return std::cerr << ls::ToString(added.error()) << "\n", 1;  // Leaving the scope aborts it.
    }
  }
  auto ended = txn->Commit();
  while (!ended && ended.error().effect == ls::Effect::kUnknown) ended = txn->Commit();
  if (!ended) return std::cerr << ls::ToString(ended.error()) << "\n", 1;

  std::cout << txn->id() << " " << ls::Name(ended->outcome) << " " << ended->abort.message << "\n";
  return ended->outcome == ls::Outcome::kCommitted ? 0 : 1;
}
