#pragma once

#include <cstddef>

namespace lockstep::server {

/// Gives memory back to the kernel once a peak of its use has passed. By itself glibc gives back
/// only what is free at the end of a heap; each of our many threads has one, and one small block
/// that is still in use holds all below it. One thread.
class HeapTrimmer {
 public:
  /// To be called now and then: trims if much was freed since. Walks all heaps, each of which is
  /// locked meanwhile: some milliseconds after a large peak, else microseconds.
  void Look();

  /// Whether a fall to `in_use` bytes ends a peak; if so, the next one is counted from there.
  bool PeakHasPassed(std::size_t in_use);

 private:
  std::size_t peak_ = 0;  // Since the last one that has passed.
};

}  // namespace lockstep::server
