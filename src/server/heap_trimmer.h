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

  /// Whether `in_use` bytes are what a peak has come down to: much less than it, and falling no
  /// further. If so, the next peak is counted from there.
  bool PeakHasPassed(std::size_t in_use);

 private:
  std::size_t peak_ = 0;  // Since the last one that has passed.
  std::size_t last_ = 0;
};

}  // namespace lockstep::server
