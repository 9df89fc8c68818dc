// Mean, extremes and quantiles of measurements.
#ifndef ROPEWAY_LOADGEN_STATISTICS_H_
#define ROPEWAY_LOADGEN_STATISTICS_H_

#include <cstddef>
#include <vector>

namespace ropeway::loadgen {

// The p-th quantile, p in [0, 1], of values in rising order, linear between the two nearest: with
// n values the index is h = (n - 1) p, and the result v[floor h] + (h - floor h) (v[floor h + 1] -
// v[floor h]). This is numpy's default ("linear"; Hyndman and Fan 1996, definition 7).
// REQUIRES: values not empty.
double Quantile(const std::vector<double>& sorted, double p);

// Of one metric. All 0 if count is.
struct Distribution {
  size_t count = 0;
  double mean = 0;
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

Distribution Describe(std::vector<double> values);

}  // namespace ropeway::loadgen

#endif  // ROPEWAY_LOADGEN_STATISTICS_H_
