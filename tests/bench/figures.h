#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

/// How benchmarks tell their figures.
namespace lockstep::bench {

/// 0 to 1: the least to the greatest. `values` is not empty.
inline double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(p * static_cast<double>(values.size() - 1))];
}

/// "NAME   min 1.00   median 2.00   max 3.00 UNIT".
inline void PrintRow(const char* name, const std::vector<double>& values, const char* unit,
                     int digits = 2) {
  std::printf("%-36s min %9.*f   median %9.*f   max %9.*f %s\n", name, digits,
              Percentile(values, 0), digits, Percentile(values, 0.5), digits, Percentile(values, 1),
              unit);
  std::fflush(stdout);
}

}  // namespace lockstep::bench
