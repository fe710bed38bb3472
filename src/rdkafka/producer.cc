#include <algorithm>

#include "rdkafka/producer_impl.h"

namespace lockstep::rdkafka {
namespace {

using client::Code;
using client::Effect;
using client::Error;
using client::Outcome;
using client::Status;

// How often a registration that is void at once is made again: somebody else uses the same id.
constexpr int kRegistrations = 3;

Error NotOpen() {
  return {.code = Code::kWrongState,
          .effect = Effect::kNone,
          .message = "the producer is in no open transaction"};
}

}  // namespace

Status Producer::Impl::MakeReady(client::Client& client, const Deadline& deadline) {
  if (instance != nullptr) return {};
  auto made = Instance::Create(client, options, deadline);
  if (!made) return made.error();
  instance = *std::move(made);
  return {};
}

Status Producer::Impl::Join(client::Client& client, client::Transaction& txn,
                            const Deadline& deadline) {
  for (int attempt = 1;; ++attempt) {
    if (const Status ready = MakeReady(client, deadline); !ready) return ready;
    const Status enlisted = txn.Enlist(instance->registration(), {}, deadline.left());
    if (enlisted) break;
    Discard();  // Whatever it was: whether this one may be enlisted later is not known.
    const bool anew = enlisted.error().code == Code::kFenced &&
                      enlisted.error().effect == Effect::kNone && attempt < kRegistrations;
    if (!anew) return enlisted;
  }
  open = true;
  const Status begun = instance->BeginTransaction();
  if (!begun) Discard();
  return begun;
}

void Producer::Impl::Follow(const client::TxnResult& result) {
  open = false;
  if (instance == nullptr) return;
  const bool reinit = std::any_of(
      result.branches.begin(), result.branches.end(), [this](const client::Branch& branch) {
        return branch.cluster == options.cluster && branch.reinit_required;
      });
  const bool known = result.outcome == Outcome::kCommitted || result.outcome == Outcome::kAborted;
  // What the producer makes of it changes no outcome.
  if (!known || reinit || !instance->End(result.outcome == Outcome::kCommitted)) Discard();
}

void Producer::Impl::Discard() {
  instance.reset();
  open = false;
}

Producer::Producer(ProducerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Producer::~Producer() = default;

Status Producer::Produce(const client::Record& record, client::Timeout timeout) {
  if (!impl_->open) return NotOpen();
  return impl_->instance->Produce(record, Deadline(timeout));
}

Status Producer::SendOffsets(const client::GroupOffsets& offsets, client::Timeout timeout) {
  if (!impl_->open) return NotOpen();
  return impl_->instance->SendOffsets(offsets, Deadline(timeout));
}

rd_kafka_t* Producer::handle() const {
  return impl_->instance == nullptr ? nullptr : impl_->instance->handle();
}

}  // namespace lockstep::rdkafka
