#include "bench/rows.h"

#include <fmt/format.h>

namespace ropeway::bench {

void Rows::Add(std::string_view metric, double value) { Add(metric, fmt::format("{:.9g}", value)); }

}  // namespace ropeway::bench
