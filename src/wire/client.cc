#include "wire/client.h"

#include <algorithm>
#include <future>
#include <utility>

#include "wire/calls.h"
#include "wire/io.h"
#include "wire/network.h"

namespace lockstep::wire {
namespace {

/// Longer than anybody waits, and far from the end of what a clock can count.
constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

}  // namespace

/// Carries calls over to the loop's thread, and keeps what they use until the last one has ended.
class Client::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Io& io, ClientOptions options)
      : io_(io), network_(std::make_unique<Network>(io, std::move(options))) {}

  /// `start(network, call)` makes the task of one call.
  template <typename T, typename Start>
  void Run(Duration timeout, Callback<T> done, Start start) {
    const Deadline deadline =
        std::chrono::steady_clock::now() + std::clamp(timeout, Duration::zero(), kLongestTimeout);
    io_.Post([self = shared_from_this(), deadline, done = std::move(done),
              start = std::move(start)]() mutable {
      Carry<T>(self, deadline, std::move(done), std::move(start));
    });
  }

  void Pin(KafkaClusterId id) {
    io_.Post([self = shared_from_this(), id = std::move(id)]() mutable {
      self->network_->Pin(std::move(id));
    });
  }

  void Close() {
    std::future<void> closed = closed_.get_future();
    io_.Post([self = shared_from_this()] {
      self->closing_ = true;
      self->network_->Close();
      self->EndIfClosed();
    });
    closed.wait();
  }

 private:
  template <typename T, typename Start>
  static Detached Carry(std::shared_ptr<Impl> self, Deadline deadline, Callback<T> done,
                        Start start) {
    if (self->under_way_ >= self->network_->options().max_queued) {
      done(MakeError(Code::kResourceExhausted, "too many calls to the cluster are under way"));
      co_return;
    }
    ++self->under_way_;
    Call call{.deadline = deadline};
    Result<T> result = co_await start(*self->network_, call);
    done(std::move(result));
    --self->under_way_;
    self->EndIfClosed();
  }

  /// Posted, for the last call's coroutine must be gone before the network is.
  void EndIfClosed() {
    if (!closing_ || under_way_ > 0) return;
    io_.Post([self = shared_from_this()] {
      self->network_.reset();
      self->closed_.set_value();
    });
  }

  Io& io_;
  std::unique_ptr<Network> network_;
  std::size_t under_way_ = 0;
  bool closing_ = false;
  std::promise<void> closed_;
};

Client::Client(IoThread& io, ClientOptions options)
    : impl_(std::make_shared<Impl>(io.io(), std::move(options))) {}

Client::~Client() { impl_->Close(); }

void Client::PinClusterId(KafkaClusterId id) { impl_->Pin(std::move(id)); }

void Client::GetFacts(Duration timeout, Callback<ClusterFacts> done) {
  impl_->Run(timeout, std::move(done),
             [](Network& network, Call& call) { return wire::GetFacts(network, call); });
}

void Client::GetTopics(std::vector<std::string> topics, Duration timeout,
                       Callback<std::vector<TopicFacts>> done) {
  impl_->Run(timeout, std::move(done),
             [topics = std::move(topics)](Network& network, Call& call) mutable {
               return wire::GetTopics(network, call, std::move(topics));
             });
}

void Client::FindCoordinator(CoordinatorType type, std::string key, Duration timeout,
                             Callback<BrokerAddress> done) {
  impl_->Run(timeout, std::move(done),
             [what = CoordinatorOf{type, std::move(key)}](Network& network, Call& call) mutable {
               return network.FindCoordinator(call, std::move(what));
             });
}

void Client::InitProducerId(TransactionalId id, std::chrono::milliseconds txn_timeout,
                            Duration timeout, Callback<ProducerIdentity> done) {
  impl_->Run(timeout, std::move(done),
             [id = std::move(id), txn_timeout](Network& network, Call& call) mutable {
               return wire::InitProducerId(network, call, std::move(id), txn_timeout);
             });
}

void Client::EndTxn(EndTxnRequest request, Attempts attempts, Duration timeout,
                    Callback<EndTxnAnswer> done) {
  impl_->Run(timeout, std::move(done),
             [request = std::move(request), attempts](Network& network, Call& call) mutable {
               return wire::EndTxn(network, call, std::move(request), attempts);
             });
}

void Client::DescribeTransaction(TransactionalId id, Duration timeout,
                                 Callback<txn::TxnDescription> done) {
  impl_->Run(timeout, std::move(done), [id = std::move(id)](Network& network, Call& call) mutable {
    return wire::DescribeTransaction(network, call, std::move(id));
  });
}

void Client::ListTransactions(ListTransactionsFilter filter, Duration timeout,
                              Callback<TransactionListing> done) {
  impl_->Run(timeout, std::move(done),
             [filter = std::move(filter)](Network& network, Call& call) mutable {
               return wire::ListTransactions(network, call, std::move(filter));
             });
}

void Client::ListOffsets(std::vector<txn::TopicPartition> partitions, Isolation isolation,
                         Duration timeout, Callback<std::vector<PartitionOffset>> done) {
  impl_->Run(timeout, std::move(done),
             [partitions = std::move(partitions), isolation](Network& network, Call& call) mutable {
               return wire::ListOffsets(network, call, std::move(partitions), isolation);
             });
}

void Client::FindMarker(MarkerQuery query, Duration timeout, Callback<MarkerAnswer> done) {
  impl_->Run(timeout, std::move(done),
             [query = std::move(query)](Network& network, Call& call) mutable {
               return wire::FindMarker(network, call, std::move(query));
             });
}

void Client::WriteTxnMarkers(MarkerWrite write, Duration timeout,
                             Callback<std::vector<MarkerWritten>> done) {
  impl_->Run(timeout, std::move(done),
             [write = std::move(write)](Network& network, Call& call) mutable {
               return wire::WriteTxnMarkers(network, call, std::move(write));
             });
}

void Client::DescribeGroup(std::string group_id, Duration timeout, Callback<GroupFacts> done) {
  impl_->Run(timeout, std::move(done),
             [group_id = std::move(group_id)](Network& network, Call& call) mutable {
               return wire::DescribeGroup(network, call, std::move(group_id));
             });
}

void Client::GetTransactionMaxTimeout(Duration timeout, Callback<std::chrono::milliseconds> done) {
  impl_->Run(timeout, std::move(done), [](Network& network, Call& call) {
    return wire::GetTransactionMaxTimeout(network, call);
  });
}

void Client::GetRights(std::vector<std::string> topics, Duration timeout, Callback<Rights> done) {
  impl_->Run(timeout, std::move(done),
             [topics = std::move(topics)](Network& network, Call& call) mutable {
               return wire::GetRights(network, call, std::move(topics));
             });
}

void Client::GetGroupRights(std::string group_id, Duration timeout, Callback<Operations> done) {
  impl_->Run(timeout, std::move(done),
             [group_id = std::move(group_id)](Network& network, Call& call) mutable {
               return wire::GetGroupRights(network, call, std::move(group_id));
             });
}

void Client::TryTransactionalId(TransactionalId id, Duration timeout, Callback<Operations> done) {
  impl_->Run(timeout, std::move(done), [id = std::move(id)](Network& network, Call& call) mutable {
    return wire::TryTransactionalId(network, call, std::move(id));
  });
}

void Client::GetBrokerSettings(std::vector<std::string> names, Duration timeout,
                               Callback<std::vector<BrokerSettings>> done) {
  impl_->Run(timeout, std::move(done),
             [names = std::move(names)](Network& network, Call& call) mutable {
               return wire::GetBrokerSettings(network, call, std::move(names));
             });
}

void Client::GetControllerTime(Duration timeout, Callback<ControllerTime> done) {
  impl_->Run(timeout, std::move(done),
             [](Network& network, Call& call) { return wire::GetControllerTime(network, call); });
}

}  // namespace lockstep::wire
