// What `ropeway bench schedulers` says.
#ifndef ROPEWAY_BENCH_SCHEDULERS_REPORT_H_
#define ROPEWAY_BENCH_SCHEDULERS_REPORT_H_

#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/verdict.h"

namespace ropeway {

// Names of parts and contestants in the figures.
namespace schedulers {
inline constexpr char kMixed[] = "mixed";
inline constexpr char kCeiling[] = "ceiling";  // x: how many decode together.

inline constexpr char kSerial[] = "serial";
inline constexpr char kPadded[] = "static, padded";
inline constexpr char kUnpadded[] = "static, unpadded";
inline constexpr char kDynamic[] = "dynamic";
inline constexpr char kContinuous[] = "continuous";
inline constexpr char kLlama[] = "llama-server";
inline constexpr char kServer[] = "server";  // The one of --base-url.

// Twice as many requests in flight as a batch holds.
std::string BatchPart(int size);
// So many users and places enough.
std::string UsersPart(int users);
}  // namespace schedulers

// The expectations of the parts that were run.
std::vector<Verdict> SchedulerVerdicts(const Figures& figures);

// The whole page.
std::string SchedulersReport(const Figures& figures);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SCHEDULERS_REPORT_H_
