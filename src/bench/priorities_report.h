// What `ropeway bench priorities` says.
#ifndef ROPEWAY_BENCH_PRIORITIES_REPORT_H_
#define ROPEWAY_BENCH_PRIORITIES_REPORT_H_

#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/verdict.h"

namespace ropeway {

// Names of parts and contestants in the figures.
namespace priorities {
inline constexpr char kCapacity[] = "capacity";
inline constexpr char kUnloaded[] = "unloaded";
inline constexpr char kOpen[] = "open loop";         // x: the class.
inline constexpr char kAlone[] = "low alone";        // Saturated.
inline constexpr char kUrgent[] = "low and urgent";  // Likewise; x: the class.

inline constexpr char kRopeway[] = "ropeway";
inline constexpr char kLlama[] = "llama-server";
inline constexpr char kServer[] = "server";  // The one of --base-url.

inline constexpr const char* kClasses[] = {"high", "medium", "low"};
}  // namespace priorities

// The expectations of the parts that were run. `limit_factor`: of the limits of time.
std::vector<Verdict> PriorityVerdicts(const Figures& figures, double limit_factor);

// The whole page.
std::string PrioritiesReport(const Figures& figures, double limit_factor);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_PRIORITIES_REPORT_H_
