#include "coordinator/outcomes.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lockstep::coordinator {
namespace {

/// Both ways over the same list of fields, so that they cannot differ. Memory only: the layout is
/// this process's own.
class Packer {
 public:
  explicit Packer(std::string& out) : out_(out) {}

  template <typename T>
  void Field(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Field(const std::string& value) {
    Field(static_cast<std::uint32_t>(value.size()));
    out_ += value;
  }
  template <typename Tag, typename T>
  void Field(const StrongId<Tag, T>& value) {
    Field(value.get());
  }
  template <typename T, typename Each>
  void List(const std::vector<T>& items, const Each& each) {
    Field(static_cast<std::uint32_t>(items.size()));
    for (const T& item : items) each(item);
  }
  template <typename T, typename Each>
  void Optional(const std::optional<T>& value, const Each& each) {
    Field(value.has_value());
    if (value) each(*value);
  }

 private:
  std::string& out_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view in) : in_(in) {}

  template <typename T>
  void Field(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&value, in_.data(), sizeof(value));
    in_.remove_prefix(sizeof(value));
  }
  void Field(std::string& value) {
    std::uint32_t size = 0;
    Field(size);
    value.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  template <typename Tag, typename T>
  void Field(StrongId<Tag, T>& value) {
    T inner{};
    Field(inner);
    value = StrongId<Tag, T>(std::move(inner));
  }
  template <typename T, typename Each>
  void List(std::vector<T>& items, const Each& each) {
    std::uint32_t size = 0;
    Field(size);
    items.resize(size);
    for (T& item : items) each(item);
  }
  template <typename T, typename Each>
  void Optional(std::optional<T>& value, const Each& each) {
    bool has = false;
    Field(has);
    if (has) each(value.emplace());
  }

 private:
  std::string_view in_;
};

template <typename Archive, typename Name>
void ParticipantFields(Archive& archive, Name& name) {
  archive.Field(name.cluster);
  archive.Field(name.kafka_cluster_id);
  archive.Field(name.transactional_id);
  archive.Field(name.producer_id);
  archive.Field(name.producer_epoch);
  archive.Field(name.protocol);
  archive.Field(name.start_time_ms);
}

template <typename Archive, typename View>
void HeadFields(Archive& archive, View& view) {
  archive.Field(view.state);
  archive.Field(view.label);
}

template <typename Archive, typename View>
void Fields(Archive& archive, View& view) {
  HeadFields(archive, view);
  archive.Field(view.key);
  archive.Field(view.began_at);
  archive.Field(view.expires_at);
  archive.Field(view.decided_at);
  archive.Field(view.ended_at);
  archive.Field(view.next_sequence);
  archive.Field(view.revision);
  archive.Field(view.refusal.reason);
  archive.Field(view.refusal.cluster);
  archive.Field(view.refusal.message);
  archive.Field(view.refusal.retriable);
  archive.List(view.branches, [&](auto& branch) {
    archive.Field(branch.cluster);
    archive.Field(branch.outcome);
    archive.Optional(branch.participant, [&](auto& name) { ParticipantFields(archive, name); });
    archive.Field(branch.enlisted);
    archive.Field(branch.reinit_required);
    archive.Field(branch.problem);
    archive.List(branch.missing_markers, [&](auto& partition) {
      archive.Field(partition.topic);
      archive.Field(partition.partition);
    });
  });
}

}  // namespace

void Outcomes::Add(const TxnView& view, const Limits& limits) {
  std::string packed;
  Packer packer(packed);
  Fields(packer, view);
  packed.shrink_to_fit();
  const auto [entry, added] = packed_.insert_or_assign(view.id, std::move(packed));
  if (added) order_.push_back(&entry->first);

  std::vector<txn::Positions> positions;
  std::size_t records = 0;
  for (const BranchView& branch : view.branches) {
    positions.push_back(branch.positions);
    if (branch.positions != nullptr) records += branch.positions->size();
  }
  if (records > 0) {
    positions_[view.id] = std::move(positions);
    positions_order_.emplace_back(view.id, records);
    records_ += records;
  }
  while (order_.size() > limits.recent_outcomes) {
    packed_.erase(packed_.find(*order_.front()));
    order_.pop_front();
  }
  ForgetPositions(limits.recent_positions);
}

void Outcomes::ForgetPositions(std::size_t records_at_most) {
  while (records_ > records_at_most ||
         (!positions_order_.empty() && !packed_.contains(positions_order_.front().first))) {
    const auto& [id, records] = positions_order_.front();
    records_ -= records;
    positions_.erase(id);
    positions_order_.pop_front();
  }
}

TxnView Outcomes::Unpack(const Packed::value_type& entry) const {
  TxnView view;
  view.id = entry.first;
  Unpacker unpacker(entry.second);
  Fields(unpacker, view);
  if (const auto found = positions_.find(view.id); found != positions_.end()) {
    for (std::size_t i = 0; i < view.branches.size(); ++i) {
      view.branches[i].positions = found->second[i];
    }
  }
  return view;
}

std::optional<TxnView> Outcomes::Find(const GlobalTxnId& id) const {
  const auto found = packed_.find(id);
  if (found == packed_.end()) return std::nullopt;
  return Unpack(*found);
}

void Outcomes::ForEach(const std::function<void(const Head&)>& look) const {
  for (const auto& [id, packed] : packed_) {
    Head head{id, {}, {}};
    Unpacker unpacker(packed);
    HeadFields(unpacker, head);
    look(head);
  }
}

}  // namespace lockstep::coordinator
