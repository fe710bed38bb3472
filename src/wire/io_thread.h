#pragma once

#include <memory>

namespace lockstep::wire {

class Io;

/// The one thread on which the clients of all clusters run: their sockets, timers and callbacks.
/// One is enough: a client moves a few hundred bytes per transaction. Must outlive every Client
/// that was made with it. The constructor starts the thread, the destructor joins it.
class IoThread {
 public:
  IoThread();
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  /// For src/wire: the event loop itself.
  Io& io() { return *io_; }

 private:
  std::unique_ptr<Io> io_;
};

}  // namespace lockstep::wire
