#include <random>

#include "client/client_impl.h"
#include "client/convert.h"

namespace lockstep::client {
namespace {

v1::ExecuteRequest RequestOf(std::vector<Work> work, const ExecuteOptions& options,
                             const ExecuteKey& key) {
  v1::ExecuteRequest request;
  request.set_key(key.name);
  *request.mutable_key_time() = ToProto(key.made_at);
  *request.mutable_timeout() = ToProto(options.txn_timeout);
  request.set_label(options.label);
  request.set_wait(ToProto(options.wait));
  for (Work& part : work) {
    // Of a part without any work the server says what is wrong.
    if (!part.records.empty() || !part.offsets) {
      auto& produce = *request.add_work()->mutable_produce();
      produce.set_cluster(part.cluster);
      for (Record& record : part.records) FillRecord(std::move(record), *produce.add_records());
    }
    if (part.offsets) {
      auto& offsets = *request.add_work()->mutable_offsets();
      offsets.set_cluster(part.cluster);
      FillOffsets(*part.offsets, offsets);
    }
  }
  return request;
}

}  // namespace

ExecuteKey NewExecuteKey() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  ExecuteKey key{.made_at = std::chrono::system_clock::now()};
  for (int i = 0; i < 32; ++i) key.name += kDigits[random() % 16];
  return key;
}

void Client::ExecuteAsync(std::vector<Work> work, const ExecuteOptions& options,
                          ExecuteCallback done, Timeout timeout) {
  const ExecuteKey key = options.key ? *options.key : NewExecuteKey();
  using Call = RetriedCall<v1::ExecuteRequest, v1::ExecuteResponse>;
  Call::Options call{.timeout = timeout, .ask_again = {}};
  if (options.wait == Wait::kComplete) {
    // As in Commit: the server's answer shortly before an attempt's deadline, not ours.
    call.ask_again = [](const v1::ExecuteResponse& response) {
      return response.outcome() == v1::OUTCOME_COMMITTING;
    };
  }
  Call::Start(*impl_, &Connection::Stub::Execute, RequestOf(std::move(work), options, key),
              std::move(call),
              [key, done = std::move(done)](const Result<v1::ExecuteResponse>& response) {
                if (!response) return done(response.error());
                auto result = ResultOf(*response);
                if (!result) return done(result.error());
                done(Executed{.txn_id = response->txn_id(), .key = key, .result = *result});
              });
}

Result<Executed> Client::Execute(std::vector<Work> work, const ExecuteOptions& options,
                                 Timeout timeout) {
  return Await<Executed>([&](ExecuteCallback done) {
    ExecuteAsync(std::move(work), options, std::move(done), timeout);
  });
}

}  // namespace lockstep::client
