#pragma once

#include "report.h"
#include "txn_broker.h"

namespace lockstep::contract {

/// Every cell of the EndTxn table, each request version for itself; v5 only on a TV2 broker: below
/// it wedges the id.
void CheckEndTxnTable(TxnBroker& broker, Report& report);

/// What the fake must share with real brokers beyond EndTxn: descriptions, fencing, time-outs,
/// offsets of groups, last stable offsets, markers, late requests.
void CheckBehaviour(TxnBroker& broker, Report& report);

}  // namespace lockstep::contract
