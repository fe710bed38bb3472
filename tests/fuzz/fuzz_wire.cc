// The answers of every API that the wire client asks, in every version that it speaks, and the
// records that a Fetch brings. The first byte picks which.

#include <array>

#include "fuzz.h"
#include "wire_answers.h"

namespace lockstep::wire::protocol {
namespace {

using fuzz::Require;

/// As Link reads an answer behind its header.
template <typename Request>
void DecodeAnswer(std::string_view bytes, std::int16_t version) {
  Reader r(bytes, version, version >= Request::kApi.flexible_from);
  const auto response = Request::Decode(r);
  const bool ok = r.Finish(Request::kApi.name).ok();
  Require(!ok || r.remaining() == 0, "an accepted answer is read to its end");
  if constexpr (std::is_same_v<Request, Fetch>) {
    if (ok) (void)ScanRecords(response.records);
  }
}

/// As a handshake reads one: with the header that carries tagged fields.
void DecodeHeaderAndMetadata(std::string_view bytes) {
  Reader r(bytes, Metadata::kApi.max_version, true);
  r.Int32();
  r.SkipTags();
  Metadata::Decode(r);
  (void)r.Finish(Metadata::kApi.name).ok();
}

template <std::size_t... kIndex>
void DecodeNth(std::size_t nth, std::string_view bytes, std::index_sequence<kIndex...>) {
  std::size_t first = 0;
  const auto one = [&]<typename Request>(const Request*) {
    const std::size_t versions =
        static_cast<std::size_t>(Request::kApi.max_version - Request::kApi.min_version) + 1;
    if (nth >= first && nth < first + versions) {
      DecodeAnswer<Request>(bytes,
                            static_cast<std::int16_t>(Request::kApi.min_version + (nth - first)));
    }
    first += versions;
  };
  (one(static_cast<const std::tuple_element_t<kIndex, Answers>*>(nullptr)), ...);
  if (nth == first) DecodeHeaderAndMetadata(bytes);
}

}  // namespace
}  // namespace lockstep::wire::protocol

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::wire::protocol;
  lockstep::fuzz::Input input(data, size);
  const std::size_t nth = input.Byte();
  DecodeNth(nth, input.Rest(), std::make_index_sequence<std::tuple_size_v<Answers>>());
  return 0;
}
