#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstepd.h"

/// Every way in which lockstepd can die at a failpoint while it serves one transaction over the
/// clusters "a" and "b", or while it recovers from a death in the midst of one.
namespace lockstep::testing {

enum class Direction {
  kCommit,
  kAbort,  ///< Once both clusters hold the transaction prepared: b's vote is late, and NO.
};

struct CrashCase {
  std::string_view failpoint;
  Direction direction = Direction::kCommit;
  bool in_recovery = false;  ///< Reached by the start after a crash, not by the transaction itself.
};

/// All of them, in the order of the failpoints' names. Throws std::runtime_error, naming it, if a
/// failpoint of src/base/failpoint.h has none.
std::vector<CrashCase> AllCrashCases();

/// "lane.before_vote, abort".
std::string ToString(const CrashCase& crash);

/// What is to be armed for a transaction to end so.
std::vector<std::string> FailpointsFor(Direction direction);

/// A record with this value on each of the clusters a and b, under this key.
v1::ExecuteRequest RecordOnBoth(const std::string& key, const std::string& topic,
                                const std::string& value);

/// Waits until kill -9 has ended it; false: it still runs, or ended otherwise.
bool AwaitCrash(Lockstepd& daemon);

/// Starts lockstepd, which has run on its folder before, to die there, and runs `transaction` on it
/// in between; returns once it is dead. False: the failpoint was not reached; dead all the same.
bool CrashAt(const CrashCase& crash, Lockstepd& daemon, const std::function<void()>& transaction);

}  // namespace lockstep::testing
