#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "wire/messages.h"
#include "wire/protocol/cluster_messages.h"
#include "wire/protocol/txn_messages.h"

namespace lockstep::testing {

/// One connection to one broker, one request after the other, every version to choose: what tests
/// need to bring a broker into a state and to see exactly what it answers. Blocking; retries
/// nothing unless said; throws std::runtime_error when the connection fails, an answer cannot be
/// decoded, or nothing comes within 30 s. One thread at a time.
class RawClient {
 public:
  /// "127.0.0.1:1234"; of several, divided by commas, the first.
  explicit RawClient(const std::string& address);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// Any message of src/wire/protocol or wire/messages.h.
  template <typename Request>
  typename Request::Response Ask(const Request& request,
                                 std::int16_t version = Request::kApi.max_version) {
    const bool flexible = version >= Request::kApi.flexible_from;
    Writer w(version, flexible);
    request.Encode(w);
    const std::string body = Exchange(Request::kApi, version, w.Take());
    Reader r(body, version, flexible);
    typename Request::Response response = Request::Decode(r);
    Check(r.Finish(Request::kApi.name));
    return response;
  }

  /// Sends a body and returns the answer's, headers added and taken off.
  std::string Exchange(const Api& api, std::int16_t version, const std::string& body);

 private:
  static void Check(const Status& status);

  int socket_ = -1;
  std::int32_t correlation_id_ = 0;
};

/// A transactional producer by hand, over one RawClient to a cluster of one node. Each step answers
/// with the broker's own error code. Init, AddPartition and AddGroup ask again while the broker is
/// busy with the id's last transaction (CONCURRENT_TRANSACTIONS) or is loading its coordinator.
class RawProducer {
 public:
  RawProducer(RawClient& client, std::string transactional_id)
      : client_(client), id_(std::move(transactional_id)) {}

  const std::string& transactional_id() const { return id_; }
  std::int64_t producer_id() const { return producer_id_; }
  std::int16_t producer_epoch() const { return producer_epoch_; }

  /// InitProducerId: fences older producers; from then on, this identity is used.
  ErrorCode Init(std::chrono::milliseconds txn_timeout = std::chrono::minutes(1));
  ErrorCode AddPartition(const std::string& topic, std::int32_t partition);
  ErrorCode AddGroup(const std::string& group_id);
  /// Writes one record; `base_offset` gets its offset.
  ErrorCode Produce(const std::string& topic, std::int32_t partition, const std::string& value,
                    std::int64_t* base_offset = nullptr, std::int16_t version = 11);
  /// EndTxn, once. A NONE of v5 changes the identity, as in a client that speaks it.
  ErrorCode End(bool commit, std::int16_t version);
  /// EndTxn(version), asked again while it says CONCURRENT_TRANSACTIONS, until DescribeTransactions
  /// shows Complete: markers included.
  ErrorCode EndAndSettle(bool commit, std::int16_t version);
  wire::protocol::DescribeTransactions::Response Describe();

 private:
  RawClient& client_;
  std::string id_;
  std::int64_t producer_id_ = -1;
  std::int16_t producer_epoch_ = -1;
  std::map<std::pair<std::string, std::int32_t>, std::int32_t> sequences_;
};

}  // namespace lockstep::testing
