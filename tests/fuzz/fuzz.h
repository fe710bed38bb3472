#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What the fuzz targets share. An input is nobody's format: its first byte picks what it is given
/// to, the rest is that one's bytes, so that one corpus serves them all.
namespace lockstep::fuzz {

/// Ends the process, and so makes the input a finding, unless the promise was kept.
inline void Require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "not kept: %s\n", promise);
  std::abort();
}

/// An entry of a database, out of an input.
struct Entry {
  std::string key;
  std::string value;
};

/// Takes an input apart. What claims more than there is gets what there is: a change of a length
/// still gives an input.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      // A copy of its own, so that AddressSanitizer sees a read beyond it.
      : bytes_(reinterpret_cast<const char*>(data), size), rest_(bytes_) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t Byte() {
    const std::string_view byte = Bytes(1);
    return byte.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(byte.front());
  }
  std::string_view Bytes(std::size_t most) {
    const std::string_view taken = rest_.substr(0, most);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view Rest() { return Bytes(rest_.size()); }

  /// Each: the length of its key (1 byte) and of its value (2), and both.
  std::vector<Entry> Entries() {
    std::vector<Entry> entries;
    while (!empty()) {
      const std::size_t key = Byte();
      const std::size_t high = Byte();
      const std::size_t value = high << 8U | Byte();
      Entry entry;
      entry.key = Bytes(key);
      entry.value = Bytes(value);
      entries.push_back(std::move(entry));
    }
    return entries;
  }

 private:
  const std::string bytes_;
  std::string_view rest_;
};

/// The input that Input::Entries takes apart.
inline std::string PutEntry(std::string_view key, std::string_view value) {
  std::string bytes;
  bytes += static_cast<char>(key.size());
  bytes += static_cast<char>(value.size() >> 8U);
  bytes += static_cast<char>(value.size());
  return bytes.append(key).append(value);
}

}  // namespace lockstep::fuzz

/// What libFuzzer calls, over and over; always returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
