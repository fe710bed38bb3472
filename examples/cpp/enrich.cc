// Consumes `orders` on one cluster and produces them, enriched, to `enriched` on another, with a
// producer of its own. The offsets there and the records here commit together, so each order is
// enriched exactly once, whatever crashes.
//   enrich HOST:PORT SOURCE SOURCE_BOOTSTRAP TARGET TARGET_BOOTSTRAP
// One instance; several need a group.instance.id and a transactional_id each.
#include <lockstep/rdkafka.h>

#include <iostream>

#include "consumer.h"

namespace ls = lockstep::client;
namespace lr = lockstep::rdkafka;

/// One batch, once: an error where it was not.
ls::Status Enrich(ls::Client& client, lr::Producer& target, const std::string& source,
                  rd_kafka_t* consumer, const lr::Batch& orders) {
  auto txn = lr::Transaction::Begin(client, {&target}, {.label = "enrich"});
  if (!txn) return txn.error();
  for (const lr::Message& order : orders.messages) {
    const ls::Record record{.topic = "enriched",
                            .key = KeyOf(*order),
                            .value = ValueOf(*order).value_or("") + " enriched"};
    if (auto produced = target.Produce(record); !produced) return produced;
  }
  auto offsets = lr::OffsetsOf(consumer, orders);
  if (!offsets) return offsets.error();
  if (auto sent = txn->SendOffsets(source, *offsets); !sent) return sent;
  return UntilKnown([&] { return txn->Commit(); });
}

int main(int argc, char** argv) {
  if (argc != 6) return std::cerr << "usage: see the source\n", 2;
  ls::Client client({.server = argv[1]});
  const auto consumer = NewConsumer(argv[3], "enrich", "orders");
  lr::Producer target({.cluster = argv[4], .transactional_id = "enrich-0", .conf = [argv] {
                         return NewConf({{"bootstrap.servers", argv[5]}});
                       }});
  for (;;) {
    const lr::Batch orders = lr::Poll(consumer.get(), 100, std::chrono::milliseconds(500));
    if (orders.messages.empty()) continue;
    const auto done = Enrich(client, target, argv[2], consumer.get(), orders);
    if (done) {
      std::cout << orders.messages.size() << " orders" << std::endl;
    } else {
      std::cout << "again: " << ls::ToString(done.error()) << std::endl;
      GoBack(consumer.get(), orders);
    }
  }
}
