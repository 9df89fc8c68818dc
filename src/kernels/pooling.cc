#include "kernels/pooling.h"

#include <cmath>

namespace ropeway::kernels {

void FinishPooling(int32_t count, bool normalize, std::span<float> sum) {
  if (count > 1) {
    for (float& x : sum) x /= static_cast<float>(count);
  }
  if (!normalize) return;
  double squares = 0.0;
  for (const float x : sum) squares += double{x} * double{x};
  const double length = std::sqrt(squares);
  if (!(length > 0.0)) return;
  for (float& x : sum) x = static_cast<float>(double{x} / length);
}

}  // namespace ropeway::kernels
