#include "log/backup_codec.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "lockstep/v1/log.pb.h"

namespace lockstep::log {
namespace {

namespace proto = lockstep::v1::log;

constexpr std::string_view kTitleStart = "Lockstep backup ";
constexpr std::string_view kTitle = "Lockstep backup 1\n";
constexpr std::size_t kLengthBytes = 4;
/// Entries are gathered up to this size.
constexpr std::size_t kFrameBytes = std::size_t{64} << 10;
/// No entry comes near: one decision is bounded by the coordinator's limits.
constexpr std::size_t kMaxFrameBytes = std::size_t{256} << 20;

void Require(int ok) {
  if (ok != 1) std::abort();  // OpenSSL without SHA-256.
}

class Sha256 {
 public:
  Sha256() { Require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr)); }
  void Add(std::string_view bytes) {
    Require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  }
  /// Of all that was added. Nothing may be added after it.
  std::string Digest() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    Require(EVP_DigestFinal_ex(context_.get(), digest.data(), &length));
    return {digest.begin(), digest.begin() + length};
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free};
};

std::string LengthOf(const std::string& frame) {
  std::string length;
  for (int shift = 24; shift >= 0; shift -= 8) {
    length.push_back(static_cast<char>((frame.size() >> shift) & 0xff));
  }
  return length;
}

std::size_t ParseLength(std::string_view bytes) {
  std::size_t length = 0;
  for (const char c : bytes.substr(0, kLengthBytes)) {
    length = length << 8 | static_cast<unsigned char>(c);
  }
  return length;
}

Error NoBackup(std::string_view why) {
  return MakeError(Code::kCorrupt, "not a whole backup: " + std::string(why));
}

}  // namespace

// ---- Encoding -----------------------------------------------------------------------------------

struct BackupEncoder::State {
  Sha256 sha256;
  proto::BackupFrame records;
  std::size_t records_bytes = 0;
};

BackupEncoder::BackupEncoder(const BackupInfo& info) : state_(std::make_unique<State>()) {
  ready_ = kTitle;
  state_->sha256.Add(kTitle);
  proto::BackupFrame frame;
  proto::BackupHead& head = *frame.mutable_head();
  head.set_folder_format(static_cast<std::uint32_t>(info.folder_format));
  head.set_log_id(info.log_id.get());
  head.set_incarnation(info.incarnation.get());
  head.set_taken_at_ms(info.taken_at.ms);
  head.set_decisions(info.decisions);
  Emit(frame.SerializeAsString());
}

BackupEncoder::~BackupEncoder() = default;

void BackupEncoder::Add(std::string_view key, std::string_view value) {
  proto::BackupRecord& record = *state_->records.mutable_records()->add_records();
  record.set_key(key.data(), key.size());
  record.set_value(value.data(), value.size());
  ++records_;
  state_->records_bytes += key.size() + value.size();
  if (state_->records_bytes >= kFrameBytes) EmitRecords();
}

void BackupEncoder::EmitRecords() {
  if (state_->records.records().records_size() == 0) return;
  Emit(state_->records.SerializeAsString());
  state_->records.Clear();
  state_->records_bytes = 0;
}

void BackupEncoder::Finish() {
  EmitRecords();
  proto::BackupFrame frame;
  frame.mutable_end()->set_records(records_);
  frame.mutable_end()->set_sha256(state_->sha256.Digest());
  const std::string bytes = frame.SerializeAsString();
  ready_ += LengthOf(bytes) + bytes;
}

void BackupEncoder::Emit(const std::string& frame) {
  if (frame.size() > kMaxFrameBytes) std::abort();
  const std::string length = LengthOf(frame);
  state_->sha256.Add(length);
  state_->sha256.Add(frame);
  ready_ += length;
  ready_ += frame;
}

std::string BackupEncoder::Take(std::size_t most) {
  std::string bytes = ready_.substr(0, most);
  ready_.erase(0, bytes.size());
  return bytes;
}

// ---- Decoding -----------------------------------------------------------------------------------

struct BackupDecoder::State {
  Sha256 sha256;
};

BackupDecoder::BackupDecoder(OnRecord on_record)
    : on_record_(std::move(on_record)), state_(std::make_unique<State>()) {}

BackupDecoder::~BackupDecoder() = default;

Status BackupDecoder::Feed(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  if (!titled_) {
    if (Status title = TakeTitle(); !title.ok() || !titled_) return title;
    rest.remove_prefix(kTitle.size());
  }
  while (rest.size() >= kLengthBytes && !ended_) {
    const std::size_t length = ParseLength(rest);
    if (length > kMaxFrameBytes) return NoBackup("a length is out of range");
    if (rest.size() < kLengthBytes + length) break;
    const Status taken = TakeFrame(rest.substr(0, kLengthBytes), rest.substr(kLengthBytes, length));
    if (!taken.ok()) return taken;
    rest.remove_prefix(kLengthBytes + length);
  }
  if (ended_ && !rest.empty()) return NoBackup("there is more behind its end");
  pending_.erase(0, pending_.size() - rest.size());
  return {};
}

Status BackupDecoder::TakeTitle() {
  const auto common = std::min(pending_.size(), kTitleStart.size());
  if (pending_.compare(0, common, kTitleStart, 0, common) != 0) {
    return NoBackup("it does not begin like one");
  }
  if (pending_.size() < kTitle.size()) return {};
  if (!pending_.starts_with(kTitle)) {
    return MakeError(Code::kFailedPrecondition,
                     "a backup of a newer format: use the lockstepctl that belongs to it");
  }
  titled_ = true;
  state_->sha256.Add(kTitle);
  return {};
}

Status BackupDecoder::TakeFrame(std::string_view length, std::string_view bytes) {
  proto::BackupFrame frame;
  if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      frame.kind_case() == proto::BackupFrame::KIND_NOT_SET) {
    return NoBackup("a part of it cannot be read");
  }
  if (frame.has_head() == info_.has_value()) return NoBackup("its parts are in another order");
  if (frame.has_end()) {
    if (frame.end().sha256() != state_->sha256.Digest() || frame.end().records() != records_) {
      return NoBackup("its digest is another one: it was changed");
    }
    ended_ = true;
    return {};
  }
  state_->sha256.Add(length);
  state_->sha256.Add(bytes);
  if (frame.has_head()) {
    const proto::BackupHead& head = frame.head();
    info_ =
        BackupInfo{static_cast<int>(head.folder_format()), LogId(head.log_id()),
                   Incarnation(head.incarnation()), WallTime{head.taken_at_ms()}, head.decisions()};
    return {};
  }
  for (const proto::BackupRecord& record : frame.records().records()) {
    ++records_;
    if (Status taken = on_record_(record.key(), record.value()); !taken.ok()) return taken;
  }
  return {};
}

Status BackupDecoder::Finish() const {
  if (ended_) return {};
  return NoBackup("its end is missing");
}

}  // namespace lockstep::log
