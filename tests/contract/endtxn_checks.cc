#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver.h"
#include "endtxn_table.h"
#include "suite.h"

namespace lockstep::contract {
namespace {

/// One question: a row, a version, a direction; its own transactional.id.
struct Case {
  const EndTxnRow* row;
  int version;
  bool commit;
  Driver driver;
  Producer asked;  // Whose end is asked for: the first (pid, e) of the id.
};

bool IsHeld(Setup setup) {
  return setup == Setup::kPrepareCommitV4 || setup == Setup::kPrepareCommitV5 ||
         setup == Setup::kPrepareAbortV4 || setup == Setup::kPrepareAbortV5 ||
         setup == Setup::kPrepareAbortFence;
}

bool NeedsV5(Setup setup) {
  return setup == Setup::kPrepareCommitV5 || setup == Setup::kPrepareAbortV5 ||
         setup == Setup::kCompleteCommitV5 || setup == Setup::kCompleteAbortV5;
}

std::int32_t TimeoutOf(Setup setup) {
  return setup == Setup::kCompleteAbortTimeout ? 1'000 : 60'000;
}

/// All that can be done before the markers are held.
void Begin(TxnBroker& broker, Case& c) {
  Driver& d = c.driver;
  switch (c.row->setup) {
    case Setup::kEmpty:
    case Setup::kUnknownId:
      break;
    case Setup::kOngoing:
    case Setup::kOtherPid:
    case Setup::kCompleteAbortTimeout:
      d.Write(kFree);
      break;
    case Setup::kPrepareCommitV4:
    case Setup::kPrepareCommitV5:
    case Setup::kPrepareAbortV4:
    case Setup::kPrepareAbortV5:
    case Setup::kPrepareAbortFence:
      d.Write(kHeld);
      break;
    case Setup::kCompleteCommitV4:
      d.Write(kFree);
      d.Finish(4, true);
      break;
    case Setup::kCompleteCommitV5:
      d.Write(kFree);
      d.Finish(5, true);
      break;
    case Setup::kCompleteAbortV4:
      d.Write(kFree);
      d.Finish(4, false);
      break;
    case Setup::kCompleteAbortV5:
      d.Write(kFree);
      d.Finish(5, false);
      break;
    case Setup::kCompleteAbortFence:
      d.Write(kFree);
      broker.InitProducerId(d.id(), 60'000);
      d.AwaitComplete();
      break;
    case Setup::kNextEmpty:
      d.Init();
      break;
    case Setup::kNextOngoing:
      d.Init();
      d.Write(kFree);
      break;
    case Setup::kLaterCommit:
      d.Init();
      d.Init();
      d.Write(kFree);
      d.Finish(4, true);
      break;
    case Setup::kNextCommitV4:
      d.Init();
      d.Write(kFree);
      d.Finish(4, true);
      break;
    case Setup::kNextAbortV4:
      d.Init();
      d.Write(kFree);
      d.Finish(4, false);
      break;
  }
}

/// The rest, while the markers of "held" cannot be written.
void PrepareHeld(TxnBroker& broker, Case& c) {
  switch (c.row->setup) {
    case Setup::kPrepareCommitV4:
      c.driver.End(4, true);
      break;
    case Setup::kPrepareCommitV5:
      c.driver.End(5, true);
      break;
    case Setup::kPrepareAbortV4:
      c.driver.End(4, false);
      break;
    case Setup::kPrepareAbortV5:
      c.driver.End(5, false);
      break;
    case Setup::kPrepareAbortFence:
      broker.InitProducerId(c.driver.id(), 60'000);
      break;
    default:
      break;
  }
}

std::string AfterText(bool commit, int epochs) {
  return std::string("NONE>") + (commit ? "CompleteCommit" : "CompleteAbort") +
         (epochs == 0 ? "" : "+" + std::to_string(epochs));
}

std::string Expected(const Case& c) {
  const EndTxnRow& row = *c.row;
  const Answer answer = c.version < 5 ? (c.commit ? row.v4_commit : row.v4_abort)
                                      : (c.commit ? row.v5_commit : row.v5_abort);
  switch (answer) {
    case Answer::kNone:
      return row.setup == Setup::kOngoing ? AfterText(c.commit, c.version < 5 ? 0 : 1) : "NONE";
    case Answer::kNoneBumped:
      return AfterText(false, 1);
    case Answer::kCt:
      return "CT";
    case Answer::kIts:
      return "ITS";
    case Answer::kFenced:
      return "FENCED";
    case Answer::kMapping:
      return "MAPPING";
  }
  throw std::logic_error("no such answer");
}

std::string ShortName(KafkaError error, int version) {
  const KafkaError fenced =
      version < 2 ? KafkaError::kInvalidProducerEpoch : KafkaError::kProducerFenced;
  if (error == fenced) return "FENCED";
  switch (error) {
    case KafkaError::kConcurrentTransactions:
      return "CT";
    case KafkaError::kInvalidTxnState:
      return "ITS";
    case KafkaError::kInvalidProducerIdMapping:
      return "MAPPING";
    default:
      return Name(error);
  }
}

/// Asks, and tells what the request changed.
std::string Ask(TxnBroker& broker, Case& c) {
  Producer asked = c.asked;
  std::string id = c.driver.id();
  if (c.row->setup == Setup::kOtherPid) asked.id += 1'000'000;
  if (c.row->setup == Setup::kUnknownId) id += "-unknown";
  const txn::TxnDescription before = broker.Describe(id);
  const ProducerAnswer answer = broker.EndTxn(c.version, id, asked, c.commit);
  std::string text = ShortName(answer.error, c.version);
  if (answer.error == KafkaError::kNone && before.state != txn::KafkaTxnState::kPrepareCommit &&
      before.state != txn::KafkaTxnState::kPrepareAbort) {
    c.driver.AwaitComplete();
  }
  const txn::TxnDescription after = broker.Describe(id);
  const int epochs = after.producer_epoch.get() - before.producer_epoch.get();
  if (after.state != before.state || epochs != 0) {
    text +=
        ">" + std::string(Name(after.state)) + (epochs == 0 ? "" : "+" + std::to_string(epochs));
  }
  const Producer now{after.producer_id.get(), after.producer_epoch.get()};
  if (c.version >= 5 && answer.error == KafkaError::kNone && answer.producer != now) {
    text +=
        " told " + std::to_string(answer.producer.id) + "," + std::to_string(answer.producer.epoch);
  }
  return text;
}

std::string Column(const Case& c) {
  return std::string(c.version < 5 ? "v0-4 " : "v5 ") + (c.commit ? "commit" : "abort");
}

/// All versions of one cell give one text, unless they differ.
struct Cell {
  const Case* first;
  std::string got;
};

void Record(Report& report, const TxnBroker& broker, std::vector<Cell>& cells, const Case& c,
            const std::string& got) {
  auto it = std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) {
    return cell.first->row == c.row && Column(*cell.first) == Column(c);
  });
  if (it == cells.end()) {
    it = cells.insert(it, Cell{&c, got});
  } else if (it->got != got) {
    it->got += " v" + std::to_string(c.version) + ":" + got;
  }
  report.Record(broker.name(), "EndTxn(pid, e)", std::string(c.row->state) + " | " + Column(c),
                Expected(c), it->got);
}

}  // namespace

void CheckEndTxnTable(TxnBroker& broker, Report& report) {
  const bool has_v5 = broker.transaction_version() >= 2;
  std::vector<Case> cases;
  for (const EndTxnRow& row : EndTxnTable()) {
    if (NeedsV5(row.setup) && !has_v5) continue;
    for (int version = 0; version <= (has_v5 ? 5 : 4); ++version) {
      for (const bool commit : {true, false}) {
        Driver driver(broker, FreshId("endtxn"), TimeoutOf(row.setup));
        const Producer producer = driver.producer();
        cases.push_back(Case{&row, version, commit, std::move(driver), producer});
        Begin(broker, cases.back());
      }
    }
  }
  std::vector<Cell> cells;
  for (Case& c : cases) {
    if (IsHeld(c.row->setup)) continue;
    if (c.row->setup == Setup::kCompleteAbortTimeout) c.driver.AwaitComplete();
    Record(report, broker, cells, c, Ask(broker, c));
  }
  broker.HoldMarkers();
  for (Case& c : cases) {
    if (!IsHeld(c.row->setup)) continue;
    PrepareHeld(broker, c);
    Record(report, broker, cells, c, Ask(broker, c));
  }
  broker.ReleaseMarkers();
  for (Case& c : cases) {
    if (IsHeld(c.row->setup)) c.driver.AwaitComplete();
  }
}

}  // namespace lockstep::contract
