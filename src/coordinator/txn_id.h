#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::coordinator {

/// What a global transaction id carries: enough to tell, without any record of it, whose it is and
/// when it began. Opaque to clients: "<log id>-<incarnation>-<birth ms>-<number>", all hex, and
/// "-<owner>" if it has one. So whose it is survives any crash, for what was never decided, too.
struct TxnIdParts {
  LogId log_id;
  Incarnation incarnation;
  WallTime birth;
  std::uint64_t number = 0;  ///< Counts the transactions of one incarnation from 1.
  std::string owner;         ///< IsOwnerName, or empty: nobody's, begun without authentication.
  friend bool operator==(const TxnIdParts&, const TxnIdParts&) = default;
};

GlobalTxnId FormatTxnId(const TxnIdParts& parts);
/// None: not of this form, so no lockstepd ever gave it out.
std::optional<TxnIdParts> ParseTxnId(const GlobalTxnId& id);

/// 1 to 64 of letters, digits, '.', '_' and '-'.
bool IsOwnerName(std::string_view name);

}  // namespace lockstep::coordinator
