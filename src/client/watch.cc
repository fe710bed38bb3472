#include "client/watch.h"

#include <thread>

#include "client/client_impl.h"
#include "client/convert.h"
#include "client/errors.h"

namespace lockstep::client {

Status WatchToEnd(Connection& connection, const std::string& txn_id, Timeout silence,
                  const std::function<bool(const v1::WatchTxnResponse&)>& each) {
  v1::WatchTxnRequest request;
  request.set_txn_id(txn_id);
  if (connection.problem()) return *connection.problem();
  Retry retry(connection.options(), silence, true);
  for (;;) {
    grpc::ClientContext context;
    const auto stream = connection.blocking().WatchTxn(&context, request);
    for (v1::WatchTxnResponse seen; stream->Read(&seen);) {
      // From here on time counts anew, and the next stream goes on from here.
      retry = Retry(connection.options(), silence, true);
      request.set_resume_token(seen.resume_token());
      if (each(seen)) continue;
      context.TryCancel();
      while (stream->Read(&seen)) {
      }
      stream->Finish();
      return {};
    }
    const grpc::Status status = stream->Finish();
    if (status.ok()) return {};
    const auto delay = retry.AfterError(ToError(status));
    if (!delay) return retry.error();
    std::this_thread::sleep_for(*delay);
  }
}

Result<TxnInfo> Client::Watch(const std::string& txn_id, const WatchCallback& each,
                              Timeout silence) {
  std::optional<Result<TxnInfo>> last;
  const Status status = WatchToEnd(*impl_, txn_id, silence, [&](const v1::WatchTxnResponse& seen) {
    last = FromProto(seen.txn());
    return last->ok() && each(**last);
  });
  if (!status) return status.error();
  // The first stream begins with a snapshot, so there is one.
  return *std::move(last);
}

}  // namespace lockstep::client
