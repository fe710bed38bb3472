#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Transactions of the application's own Kafka producers, whatever library they are of. For
/// librdkafka all of this is done by lockstep/rdkafka.h.
///
/// What the application keeps, in return for no record passing through the server:
/// 1. Client::RegisterProducer right before the producer's initTransactions(), once for each
///    instance.
/// 2. Transaction::Enlist, or BeginOptions::enlistments, before the first write of each
/// transaction.
/// 3. Transaction::CommitEnlisted only once every record is acknowledged; otherwise Abort.
/// 4. The producer's own commitTransaction() or abortTransaction() only after the outcome, and the
///    same as it. After an error, or no answer, neither.
/// 5. A new producer, registered anew, whenever Enlist or Begin fails with kFenced, a Branch says
///    reinit_required, or the producer's own end failed. None of these changes an outcome.
namespace lockstep::client {

/// Which of Kafka's transaction protocols a producer's library speaks.
enum class ProducerProtocol {
  kTv1,  ///< librdkafka.
  kTv2,  ///< KIP-890: a new epoch with each transaction.
};

/// From Client::RegisterProducer: one instance of a producer. A plain value.
struct Registration {
  std::string id;
  std::string cluster;
  std::string transactional_id;
  /// Of the server. Another one, wherever the server tells it, means that it has restarted: this
  /// registration is void.
  std::uint64_t incarnation = 0;
  ProducerProtocol protocol = ProducerProtocol::kTv1;  ///< With which its transactions are ended.
};

/// What the broker calls a producer, where its library tells.
struct ProducerName {
  std::int64_t id = -1;
  std::int32_t epoch = -1;
};

/// A producer that is about to write.
struct Enlistment {
  Registration registration;
  std::optional<ProducerName> name;
};

struct WrittenPartition {
  std::string topic;
  std::int32_t partition = 0;
  /// The highest of those acknowledged. None: the server asks the broker.
  std::optional<std::int64_t> offset;
};

/// What an enlisted producer wrote in one transaction, all of it acknowledged. The server compares
/// it with the broker's word: a difference is kAborted, VOTE_MISMATCH.
struct EnlistedWork {
  std::string registration_id;               ///< Registration::id.
  std::vector<WrittenPartition> partitions;  ///< Each partition that was written to, once.
  std::vector<std::string> group_ids;        ///< Each group whose offsets were sent in it, once.
  /// Nothing was written and no offsets were sent. Must be said: it is never inferred.
  bool read_only = false;
};

}  // namespace lockstep::client
