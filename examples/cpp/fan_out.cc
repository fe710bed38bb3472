// Copies `events` of one cluster to `events-copy` on a primary and on a disaster-recovery cluster,
// each with a producer of its own: each event is on both, or on neither, exactly once, and the
// offsets go along. The source is the primary; its offsets travel with the primary's producer.
//   fan_out HOST:PORT PRIMARY PRIMARY_BOOTSTRAP DR DR_BOOTSTRAP
// One instance; several need a group.instance.id and transactional ids each.
#include <lockstep/rdkafka.h>

#include <iostream>

#include "consumer.h"

namespace ls = lockstep::client;
namespace lr = lockstep::rdkafka;

/// One batch, once: an error where it was not.
ls::Status FanOut(ls::Client& client, lr::Producer& primary, lr::Producer& dr, rd_kafka_t* consumer,
                  const lr::Batch& events) {
  auto txn = lr::Transaction::Begin(client, {&primary, &dr}, {.label = "fan-out"});
  if (!txn) return txn.error();
  for (const lr::Message& event : events.messages) {
    const ls::Record copy{.topic = "events-copy", .key = KeyOf(*event), .value = ValueOf(*event)};
    for (lr::Producer* producer : {&primary, &dr}) {
      if (auto produced = producer->Produce(copy); !produced) return produced;
    }
  }
  auto offsets = lr::OffsetsOf(consumer, events);
  if (!offsets) return offsets.error();
  if (auto sent = primary.SendOffsets(*offsets); !sent) return sent;
  return UntilKnown([&] { return txn->Commit(); });
}

int main(int argc, char** argv) {
  if (argc != 6) return std::cerr << "usage: see the source\n", 2;
  ls::Client client({.server = argv[1]});
  const auto consumer = NewConsumer(argv[3], "fan-out", "events");
  const auto producer = [](const std::string& cluster, const std::string& bootstrap) {
    return lr::ProducerOptions{
        .cluster = cluster, .transactional_id = "fan-out-0", .conf = [bootstrap] {
          return NewConf({{"bootstrap.servers", bootstrap}});
        }};
  };
  lr::Producer primary(producer(argv[2], argv[3]));
  lr::Producer dr(producer(argv[4], argv[5]));
  for (;;) {
    const lr::Batch events = lr::Poll(consumer.get(), 100, std::chrono::milliseconds(500));
    if (events.messages.empty()) continue;
    const auto done = FanOut(client, primary, dr, consumer.get(), events);
    if (done) {
      std::cout << events.messages.size() << " events" << std::endl;
    } else {
      std::cout << "again: " << ls::ToString(done.error()) << std::endl;
      GoBack(consumer.get(), events);
    }
  }
}
