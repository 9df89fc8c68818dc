#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>

namespace ropeway {

std::vector<Window> MakeWindows(size_t tokens, size_t context, size_t stride) {
  std::vector<Window> windows;
  if (tokens < 2) return windows;
  size_t scored = 1;
  for (size_t begin = 0; scored < tokens; begin += stride) {
    const size_t end = std::min(begin + context, tokens);
    windows.push_back({begin, end, scored});
    scored = end;
  }
  return windows;
}

void Perplexity::Add(double logprob) {
  ++count_;
  const double delta = logprob - mean_;
  mean_ += delta / static_cast<double>(count_);
  squares_ += delta * (logprob - mean_);
}

double Perplexity::value() const { return std::exp(-mean_); }

double Perplexity::standard_error() const {
  if (count_ < 2) return 0.0;
  const auto n = static_cast<double>(count_);
  return value() * std::sqrt(squares_ / (n - 1) / n);
}

}  // namespace ropeway
