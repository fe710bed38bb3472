#include "kafka/request_ledger.h"

#include <cstdlib>
#include <optional>

#include "base/planted.h"

namespace lockstep::kafka {
namespace {

constexpr char kName[] = "lockstep";

// on_response_received is called when a broker's thread has the answer, and once more when
// librdkafka's main thread takes it up (Produce excepted), both times with correlation id 0. Only
// the first call is in time and alone, and only the thread tells them apart.
thread_local bool t_is_broker_thread = false;

std::optional<std::size_t> IndexOf(std::int16_t api_key) {
  for (std::size_t i = 0; i < kTxnApis.size(); ++i) {
    if (static_cast<std::int16_t>(kTxnApis[i]) == api_key) return i;
  }
  return std::nullopt;
}

rd_kafka_resp_err_t OnThreadStart(rd_kafka_t*, rd_kafka_thread_type_t type, const char*, void*) {
  t_is_broker_thread = type == RD_KAFKA_THREAD_BROKER;
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t OnRequestSent(rd_kafka_t*, int, const char*, std::int32_t, std::int16_t api_key,
                                  std::int16_t, std::int32_t, std::size_t, void* ledger) {
  static_cast<RequestLedger*>(ledger)->OnSent(api_key);
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t OnResponseReceived(rd_kafka_t*, int, const char*, std::int32_t,
                                       std::int16_t api_key, std::int16_t, std::int32_t,
                                       std::size_t size, std::int64_t, rd_kafka_resp_err_t error,
                                       void* ledger) {
  // A lost connection or a timeout comes here too, with an error and no bytes.
  const bool answered = error == RD_KAFKA_RESP_ERR_NO_ERROR && size > 0;
  if (answered && t_is_broker_thread) static_cast<RequestLedger*>(ledger)->OnAnswered(api_key);
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

// The request interceptors can only be added to a producer that is being made.
rd_kafka_resp_err_t OnNew(rd_kafka_t* producer, const rd_kafka_conf_t*, void* ledger, char*,
                          std::size_t) {
  auto error = rd_kafka_interceptor_add_on_thread_start(producer, kName, OnThreadStart, ledger);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    error = rd_kafka_interceptor_add_on_request_sent(producer, kName, OnRequestSent, ledger);
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    error =
        rd_kafka_interceptor_add_on_response_received(producer, kName, OnResponseReceived, ledger);
  }
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) std::abort();  // They fail only if added twice.
  return error;
}

}  // namespace

void RequestLedger::AttachTo(rd_kafka_conf_t* conf) {
  const auto error = rd_kafka_conf_interceptor_add_on_new(conf, kName, OnNew, this);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) std::abort();
}

RequestLedger::Count RequestLedger::Of(TxnApi api) const {
  return All()[*IndexOf(static_cast<std::int16_t>(api))];
}

RequestLedger::Counts RequestLedger::All() const {
  Counts counts;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    // Answers first: one that arrives in between must not look like an answer too many.
    counts[i].answered = cells_[i].answered.load();
    counts[i].sent = cells_[i].sent.load();
  }
  return counts;
}

void RequestLedger::OnSent(std::int16_t api_key) {
  ++all_;
  if (const auto index = IndexOf(api_key)) ++cells_[*index].sent;
}

void RequestLedger::OnAnswered(std::int16_t api_key) {
  if (const auto index = IndexOf(api_key)) ++cells_[*index].answered;
}

bool IsClean(const RequestLedger::Counts& before, const RequestLedger::Counts& after) {
  if (before == after || Planted(PlantedBug::kUncleanLaneReused)) return true;
  for (std::size_t i = 0; i < kTxnApis.size(); ++i) {
    const std::uint32_t sent = after[i].sent - before[i].sent;
    if (!after[i].settled()) return false;
    if (kTxnApis[i] == TxnApi::kInitProducerId && sent != 0) return false;
    if (kTxnApis[i] == TxnApi::kEndTxn && sent != 1) return false;
  }
  return true;
}

}  // namespace lockstep::kafka
