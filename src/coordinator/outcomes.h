#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/types.h"

namespace lockstep::coordinator {

/// How the transactions that ended lately went, with the reasons and all: what the log does not
/// keep. In memory, packed, some 300 bytes each; the oldest go first. On the executor.
class Outcomes {
 public:
  /// Keeps this one, and at most so many in all, with the positions of so many records.
  void Add(const TxnView& view, const Limits& limits);
  std::optional<TxnView> Find(const GlobalTxnId& id) const;
  /// What lists of many ask for. The id stays as long as the outcome is kept.
  struct Head {
    const GlobalTxnId& id;
    txn::GlobalTxnState state;
    std::string label;
  };
  /// Every one, in no order.
  void ForEach(const std::function<void(const Head&)>& look) const;

 private:
  using Packed = std::unordered_map<GlobalTxnId, std::string>;

  TxnView Unpack(const Packed::value_type& entry) const;
  void ForgetPositions(std::size_t records_at_most);

  Packed packed_;
  std::deque<const GlobalTxnId*> order_;  // Keys of packed_.
  /// One entry per record, they would soon outweigh all else. Of each branch.
  std::unordered_map<GlobalTxnId, std::vector<txn::Positions>> positions_;
  std::deque<std::pair<GlobalTxnId, std::size_t>> positions_order_;  // How many records.
  std::size_t records_ = 0;
};

}  // namespace lockstep::coordinator
