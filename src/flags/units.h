// Times and sizes as people write them: 30s, 500ms, 48MiB.
#ifndef ROPEWAY_FLAGS_UNITS_H_
#define ROPEWAY_FLAGS_UNITS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway::flags {

// A whole or decimal number with its unit, ms, s, m or h: "500ms", "1.5s"; or "0". At most 1,000
// hours. kInvalidArgument for a number without a unit: reader and writer may think of different
// ones.
StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

// The shortest text that ParseDuration reads back: "0", "1500ms", "30s", "2m".
std::string FormatDuration(std::chrono::milliseconds duration);

// Bytes: "1048576", "512KiB", "48MiB", "4GiB" (powers of 1024; K, M and G mean the same), "10MB"
// (powers of 1000). At most 2^60.
StatusOr<int64_t> ParseSize(std::string_view text);

// The shortest text that ParseSize reads back: "512", "48MiB".
std::string FormatSize(int64_t bytes);

}  // namespace ropeway::flags

#endif  // ROPEWAY_FLAGS_UNITS_H_
