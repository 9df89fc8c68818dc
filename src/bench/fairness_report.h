// What `ropeway bench fairness` says.
#ifndef ROPEWAY_BENCH_FAIRNESS_REPORT_H_
#define ROPEWAY_BENCH_FAIRNESS_REPORT_H_

#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/verdict.h"

namespace ropeway {

// Names of parts and contestants in the figures.
namespace fairness {
inline constexpr char kCapacity[] = "capacity";
// x: "light" and "heavy" clients, or one client. Each round is a pair.
inline constexpr char kMeasured[] = "measured";
inline constexpr char kSimulated[] = "simulated";  // Likewise, in virtual time.

inline constexpr char kFair[] = "priority+fair";
inline constexpr char kFcfs[] = "fcfs";
inline constexpr char kLight[] = "light";
inline constexpr char kHeavy[] = "heavy";
inline constexpr int kEnoughPairs = 7;
}  // namespace fairness

// The expectations of the parts that were run.
std::vector<Verdict> FairnessVerdicts(const Figures& figures);

// The whole page.
std::string FairnessReport(const Figures& figures);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_FAIRNESS_REPORT_H_
