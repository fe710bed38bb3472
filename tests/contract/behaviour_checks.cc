#include <algorithm>
#include <string>
#include <utility>

#include "driver.h"
#include "suite.h"

namespace lockstep::contract {
namespace {

using txn::KafkaTxnState;
using txn::MarkerFound;

/// Records under one heading.
class Section {
 public:
  Section(TxnBroker& broker, Report& report, std::string name)
      : broker_(broker), report_(report), name_(std::move(name)) {}

  void Check(const std::string& what, const std::string& expected, const std::string& got) {
    report_.Record(broker_.name(), name_, what, expected, got);
  }
  void Check(const std::string& what, bool holds) { Check(what, "yes", holds ? "yes" : "no"); }
  void Check(const std::string& what, KafkaError expected, KafkaError got) {
    Check(what, Name(expected), Name(got));
  }

 private:
  TxnBroker& broker_;
  Report& report_;
  std::string name_;
};

std::string Show(const txn::TxnDescription& d, Producer first) {
  if (!d.exists) return "not found";
  std::string text(Name(d.state));
  const int epochs = d.producer_epoch.get() - first.epoch;
  if (d.producer_id.get() != first.id) text += " other pid";
  if (epochs != 0) text += " e+" + std::to_string(epochs);
  for (const auto& partition : d.partitions) text += " " + ToString(partition);
  return text;
}

std::string Show(MarkerFound found) {
  return found == MarkerFound::kCommit ? "COMMIT" : found == MarkerFound::kAbort ? "ABORT" : "none";
}

void CheckDescribe(TxnBroker& broker, Report& report) {
  Section s(broker, report, "DescribeTransactions");
  s.Check("unknown id", "not found", Show(broker.Describe(FreshId("never")), {}));
  Driver d(broker, FreshId("describe"), 54'321);
  const Producer p = d.producer();
  s.Check("after InitProducerId", "Empty", Show(d.Describe(), p));
  s.Check("... no start time", d.Describe().start_time_ms == -1);
  s.Check("... the time-out asked for", d.Describe().timeout_ms == 54'321);
  d.Add(kHeld);
  const std::int64_t start = d.Describe().start_time_ms;
  s.Check("after AddPartitionsToTxn", "Ongoing held-0", Show(d.Describe(), p));
  s.Check("... it has a start time", start > 0);
  broker.WaitFor([&, from = start, n = 0]() mutable { return ++n > 2; });
  d.Write(kHeld);
  d.Write(kFree);
  s.Check("after another one", "Ongoing free-0 held-0", Show(d.Describe(), p));
  s.Check("... start time kept", d.Describe().start_time_ms == start);
  broker.HoldMarkers();
  d.End(4, true);
  broker.WaitFor([&] { return d.Describe().partitions.size() == 1; });
  s.Check("EndTxn, a marker held", "PrepareCommit held-0", Show(d.Describe(), p));
  s.Check("... start time kept in Prepare", d.Describe().start_time_ms == start);
  broker.ReleaseMarkers();
  d.AwaitComplete();
  s.Check("markers written", "CompleteCommit", Show(d.Describe(), p));
  s.Check("... start time kept in Complete", d.Describe().start_time_ms == start);
  d.Write(kFree);
  s.Check("the next transaction", "Ongoing free-0", Show(d.Describe(), p));
  const std::int64_t second = d.Describe().start_time_ms;
  s.Check("... has its own start time", second > start);
  d.Finish(4, false);
  s.Check("aborted", "CompleteAbort", Show(d.Describe(), p));
  s.Check("... start time kept in CompleteAbort", d.Describe().start_time_ms == second);
  d.Init();
  s.Check("InitProducerId again", "Empty e+1", Show(d.Describe(), p));
  s.Check(broker.kafka_3() ? "... the old start time stays (3.x)" : "... no start time again (4.x)",
          d.Describe().start_time_ms == (broker.kafka_3() ? second : -1));
}

void CheckFencing(TxnBroker& broker, Report& report) {
  Section s(broker, report, "Fencing");
  Driver d(broker, FreshId("fencing"));
  const Producer old = d.producer();
  d.Write(kFree);
  s.Check("InitProducerId on Ongoing", KafkaError::kConcurrentTransactions,
          broker.InitProducerId(d.id(), 60'000).error);
  d.AwaitComplete();
  s.Check("... aborts it", "CompleteAbort e+1", Show(d.Describe(), old));
  d.Init();
  s.Check("... and bumps again", "Empty e+2", Show(d.Describe(), old));
  s.Check("old epoch: AddPartitionsToTxn v0-1", KafkaError::kInvalidProducerEpoch,
          broker.AddPartitionsToTxn(d.id(), old, kFree));
  s.Check("old epoch: Produce", KafkaError::kInvalidProducerEpoch,
          broker.Produce({d.id(), old, kFree, 1, {"late"}}).error);
  s.Check("old epoch: AddOffsetsToTxn v0-1", KafkaError::kInvalidProducerEpoch,
          broker.AddOffsetsToTxn(d.id(), old, "fencing-group"));
  s.Check("other pid: AddPartitionsToTxn", KafkaError::kInvalidProducerIdMapping,
          broker.AddPartitionsToTxn(d.id(), {old.id + 1'000'000, 0}, kFree));
  d.Write(kHeld);
  broker.HoldMarkers();
  d.End(4, true);
  s.Check("InitProducerId on PrepareCommit", KafkaError::kConcurrentTransactions,
          broker.InitProducerId(d.id(), 60'000).error);
  s.Check("AddPartitionsToTxn on PrepareCommit", KafkaError::kConcurrentTransactions,
          broker.AddPartitionsToTxn(d.id(), d.producer(), kHeld));
  s.Check("... neither bumps", "PrepareCommit e+2 held-0", Show(d.Describe(), old));
  broker.ReleaseMarkers();
  d.AwaitComplete();
  s.Check("time-out above the broker's maximum", KafkaError::kInvalidTransactionTimeout,
          broker.InitProducerId(d.id(), 2'000'000'000).error);
  s.Check("time-out of 0", KafkaError::kInvalidTransactionTimeout,
          broker.InitProducerId(d.id(), 0).error);
  s.Check("... the epoch stays", "CompleteCommit e+2", Show(d.Describe(), old));
}

void CheckTimeout(TxnBroker& broker, Report& report) {
  Section s(broker, report, "Time-out");
  const txn::TopicPartition tp{"free", 3};
  Driver d(broker, FreshId("timeout"), 1'000);
  const Producer p = d.producer();
  const std::int64_t end = broker.HighWatermark(tp);
  d.Write(tp);
  const std::int64_t start = d.Describe().start_time_ms;
  d.AwaitComplete();
  s.Check("Ongoing for too long", "CompleteAbort e+1", Show(d.Describe(), p));
  s.Check("... start time kept", d.Describe().start_time_ms == start);
  s.Check("... the marker", "ABORT", Show(broker.FindMarker(tp, p.id, end)));
  s.Check("... its client: Produce", KafkaError::kInvalidProducerEpoch, d.Produce(tp).error);
  s.Check("... its client: AddPartitionsToTxn v0-1", KafkaError::kInvalidProducerEpoch,
          broker.AddPartitionsToTxn(d.id(), p, tp));
  d.Init();
  s.Check("... InitProducerId after it", "Empty e+2", Show(d.Describe(), p));
}

void CheckProduce(TxnBroker& broker, Report& report) {
  Section s(broker, report, "Produce");
  const txn::TopicPartition tp{"free", 1};
  Driver d(broker, FreshId("produce"));
  const Producer p = d.producer();
  const auto produce = [&](std::int32_t sequence) {
    return broker.Produce({d.id(), p, tp, sequence, {"value"}});
  };
  s.Check("partition not added, Empty", KafkaError::kInvalidTxnState, produce(0).error);
  d.Add(kFree);
  s.Check("partition not added, Ongoing", KafkaError::kInvalidTxnState, produce(0).error);
  d.Add(tp);
  const Appended first = produce(0);
  s.Check("partition added", KafkaError::kNone, first.error);
  const Appended again = produce(0);
  s.Check("the same batch again", KafkaError::kNone, again.error);
  s.Check("... is the first one", again.base_offset == first.base_offset);
  s.Check("a gap in the sequence", KafkaError::kOutOfOrderSequenceNumber, produce(2).error);
  s.Check("the next one", KafkaError::kNone, produce(1).error);
  d.Finish(4, true);
  s.Check("late, after the end", KafkaError::kInvalidTxnState, produce(2).error);
  d.Add(tp);
  s.Check("next transaction: sequence goes on", KafkaError::kNone, produce(2).error);
  s.Check("next transaction: a batch of the last one", KafkaError::kNone, produce(1).error);
  d.Finish(4, false);
}

void CheckStableOffset(TxnBroker& broker, Report& report) {
  Section s(broker, report, "Last stable offset and markers");
  const txn::TopicPartition tp{"free", 2};
  Driver a(broker, FreshId("lso"));
  Driver b(broker, FreshId("lso"));
  const std::int64_t base = broker.HighWatermark(tp);
  const auto show = [&] {
    return "LSO+" + std::to_string(broker.LastStableOffset(tp) - base) + " HW+" +
           std::to_string(broker.HighWatermark(tp) - base);
  };
  a.Add(tp);
  s.Check("partition added, nothing written", "LSO+0 HW+0", show());
  a.Write(tp);
  s.Check("one record, open", "LSO+0 HW+1", show());
  b.Write(tp);
  s.Check("another producer's, open", "LSO+0 HW+2", show());
  s.Check("no marker yet", "none", Show(broker.FindMarker(tp, a.producer().id, base)));
  b.Finish(4, true);
  s.Check("the later one committed", "LSO+0 HW+3", show());
  a.Finish(4, false);
  s.Check("the first one aborted", "LSO+4 HW+4", show());
  s.Check("the first one's marker", "ABORT", Show(broker.FindMarker(tp, a.producer().id, base)));
  s.Check("the later one's marker", "COMMIT", Show(broker.FindMarker(tp, b.producer().id, base)));
  s.Check("none after its marker", "none", Show(broker.FindMarker(tp, b.producer().id, base + 3)));
  a.Add(tp);
  a.Finish(4, true);
  s.Check("nothing written, committed: the marker is there", "COMMIT",
          Show(broker.FindMarker(tp, a.producer().id, base + 4)));
  b.Write(tp);
  s.Check("raw WriteTxnMarkers(commit) on an open one", KafkaError::kNone,
          broker.WriteTxnMarkers(b.producer(), true, tp));
  s.Check("... lets the offset go on", "LSO+7 HW+7", show());
  s.Check("... and the coordinator knows nothing", "Ongoing free-2",
          Show(b.Describe(), b.producer()));
  b.Finish(4, false);
}

void CheckGroups(TxnBroker& broker, Report& report) {
  Section s(broker, report, "Group offsets");
  Driver d(broker, FreshId("offsets"));
  const std::string group = FreshId("group");
  const auto commit = [&](const std::string& g, std::int64_t offset, std::int32_t generation,
                          const std::string& member) {
    txn::GroupOffsets offsets{.group_id = g, .generation = generation, .member_id = member};
    offsets.offsets.push_back({.partition = kFree, .offset = offset});
    return broker.TxnOffsetCommit({d.id(), d.producer(), offsets});
  };
  s.Check("without AddOffsetsToTxn", KafkaError::kInvalidTxnState, commit(group, 1, -1, ""));
  s.Check("AddOffsetsToTxn", KafkaError::kNone,
          broker.AddOffsetsToTxn(d.id(), d.producer(), group));
  const auto refused = commit(group, 1, 1, "member");
  if (broker.kafka_3()) {
    s.Check("unknown group, a generation given (3.x)", KafkaError::kUnknownMemberId, refused);
  } else {
    s.Check("unknown group, a generation given (4.x)", KafkaError::kIllegalGeneration, refused);
  }
  s.Check("unknown group, standalone", KafkaError::kNone, commit(group, 7, -1, ""));
  s.Check("... not visible while open", "-1", std::to_string(broker.CommittedOffset(group, kFree)));
  s.Check("... in the transaction", "Ongoing " + ToString(broker.OffsetsPartition(group)),
          Show(d.Describe(), d.producer()));
  d.Finish(4, true);
  s.Check("... committed", "7", std::to_string(broker.CommittedOffset(group, kFree)));
  broker.AddOffsetsToTxn(d.id(), d.producer(), group);
  commit(group, 8, -1, "");
  d.Finish(4, false);
  s.Check("aborted: the old offset stays", "7",
          std::to_string(broker.CommittedOffset(group, kFree)));

  const std::string live = FreshId("live-group");
  const TxnBroker::LiveGroup member = broker.JoinGroup(live);
  broker.AddOffsetsToTxn(d.id(), d.producer(), live);
  s.Check("live group: stale generation", KafkaError::kIllegalGeneration,
          commit(live, 1, member.generation + 7, member.member_id));
  s.Check("live group: unknown member", KafkaError::kUnknownMemberId,
          commit(live, 1, member.generation, "stranger"));
  s.Check("live group: nothing said", KafkaError::kNone, commit(live, 1, -1, ""));
  s.Check("live group: its member", KafkaError::kNone,
          commit(live, 2, member.generation, member.member_id));
  d.Finish(4, true);
  s.Check("... committed", "2", std::to_string(broker.CommittedOffset(live, kFree)));
}

/// What a TV1 lane must never be exposed to: requests of one transaction that arrive in the next.
void CheckLateRequests(TxnBroker& broker, Report& report) {
  Section s(broker, report, "Late requests, same (pid, e)");
  Driver d(broker, FreshId("late"));
  const Producer p = d.producer();
  const std::string group = FreshId("late-group");
  d.Write(kFree);
  d.Finish(1, true);
  d.Write(kFree);
  s.Check("a late EndTxn v1 in the next transaction", KafkaError::kNone,
          broker.EndTxn(1, d.id(), p, true).error);
  d.AwaitComplete();
  s.Check("... ends it", "CompleteCommit", Show(d.Describe(), p));
  s.Check("a late AddPartitionsToTxn", KafkaError::kNone,
          broker.AddPartitionsToTxn(d.id(), p, kFree));
  s.Check("... begins one", "Ongoing free-0", Show(d.Describe(), p));
  d.Finish(1, false);
  broker.AddOffsetsToTxn(d.id(), p, group);
  txn::GroupOffsets offsets{.group_id = group};
  offsets.offsets.push_back({.partition = kFree, .offset = 3});
  s.Check("a late TxnOffsetCommit in the next transaction", KafkaError::kNone,
          broker.TxnOffsetCommit({d.id(), p, offsets}));
  d.Finish(1, true);
  s.Check("... takes effect with it", "3", std::to_string(broker.CommittedOffset(group, kFree)));
}

void CheckList(TxnBroker& broker, Report& report) {
  Section s(broker, report, "ListTransactions");
  Driver open(broker, FreshId("list"));
  Driver done(broker, FreshId("list"));
  open.Write(kFree);
  done.Write(kFree);
  done.Finish(4, true);
  Driver empty(broker, FreshId("list"));
  const auto all = broker.List();
  const auto show = [&](const Driver& d) -> std::string {
    const auto it = std::find_if(all.begin(), all.end(), [&](const ListedTransaction& t) {
      return t.transactional_id == d.id();
    });
    if (it == all.end()) return "missing";
    return std::string(Name(it->state)) + (it->producer_id == d.producer().id ? "" : " other pid");
  };
  s.Check("open", "Ongoing", show(open));
  s.Check("committed", "CompleteCommit", show(done));
  s.Check("initialised only", "Empty", show(empty));
  open.Finish(4, false);
}

}  // namespace

void CheckBehaviour(TxnBroker& broker, Report& report) {
  CheckDescribe(broker, report);
  CheckFencing(broker, report);
  CheckTimeout(broker, report);
  CheckProduce(broker, report);
  CheckStableOffset(broker, report);
  CheckGroups(broker, report);
  CheckLateRequests(broker, report);
  CheckList(broker, report);
}

}  // namespace lockstep::contract
