#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "wire/protocol/cluster_messages.h"
#include "wire/protocol/records.h"
#include "wire/protocol/txn_messages.h"

/// Which answers the target `wire` decodes. The first byte of an input counts through them, version
/// by version.
namespace lockstep::wire::protocol {

using Answers =
    std::tuple<ApiVersions, Metadata, FindCoordinator, DescribeGroups, ConsumerGroupDescribe,
               DescribeConfigs, InitProducerId, EndTxn, DescribeTransactions, ListTransactions,
               WriteTxnMarkers, DescribeProducers, ListOffsets, Fetch>;

/// The first byte of inputs for the answer `name`, as "EndTxn", in `version`; -1: there is none.
inline int FirstByteOf(std::string_view name, int version) {
  int found = -1;
  int first = 0;
  const auto one = [&](const Api& api) {
    if (name == api.name && version >= api.min_version && version <= api.max_version) {
      found = first + version - api.min_version;
    }
    first += api.max_version - api.min_version + 1;
  };
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (one(std::tuple_element_t<kIndex, Answers>::kApi), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Answers>>());
  return found;
}

}  // namespace lockstep::wire::protocol
