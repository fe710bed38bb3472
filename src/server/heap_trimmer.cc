#include "server/heap_trimmer.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace lockstep::server {
namespace {

// Less is not worth the page faults of taking it again.
constexpr std::size_t kWorthGivingBack = 8u << 20;
constexpr std::size_t kStillFalling = 1u << 20;

}  // namespace

void HeapTrimmer::Look() {
  if (PeakHasPassed(mallinfo2().uordblks)) malloc_trim(0);
}

bool HeapTrimmer::PeakHasPassed(std::size_t in_use) {
  peak_ = std::max(peak_, in_use);
  // Now would be too early: what is freed after it would stay.
  const bool falling = std::exchange(last_, in_use) >= in_use + kStillFalling;
  if (falling || peak_ - in_use < kWorthGivingBack) return false;
  peak_ = in_use;
  return true;
}

}  // namespace lockstep::server
