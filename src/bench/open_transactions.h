#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bench/options.h"

namespace lockstep::bench {

/// Opens Options::open_transactions, each with one record for the first cluster, and aborts them
/// all: resident memory of each of Options::pids before, with all of them open, and once that has
/// settled again. Blocks. Throws std::runtime_error where one cannot be opened.
nlohmann::json MeasureOpenTransactions(const Options& options);

}  // namespace lockstep::bench
