// What `ropeway bench prefixes` says.
#ifndef ROPEWAY_BENCH_PREFIXES_REPORT_H_
#define ROPEWAY_BENCH_PREFIXES_REPORT_H_

#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/verdict.h"

namespace ropeway {

// Names of parts and contestants in the figures.
namespace prefixes {
inline constexpr char kShared[] = "shared prompt";
inline constexpr char kCurves[] = "curves";  // x: the pool's part of the working set.
inline constexpr char kSlice[] = "slice";

inline constexpr char kOn[] = "cache on";
inline constexpr char kOff[] = "cache off";
inline constexpr char kLlama[] = "llama-server";
inline constexpr char kServer[] = "server";  // The one of --base-url.
inline constexpr char kInfinite[] = "no bounds";
inline constexpr char kWarm[] = "cache on, filled as the trace had left it";
}  // namespace prefixes

// The expectations of the parts that were run.
std::vector<Verdict> PrefixVerdicts(const Figures& figures);

// The whole page.
std::string PrefixesReport(const Figures& figures);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_PREFIXES_REPORT_H_
