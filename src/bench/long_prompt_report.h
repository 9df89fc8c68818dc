// What `ropeway bench long-prompt` says.
#ifndef ROPEWAY_BENCH_LONG_PROMPT_REPORT_H_
#define ROPEWAY_BENCH_LONG_PROMPT_REPORT_H_

#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/verdict.h"

namespace ropeway {

// Names of parts and contestants in the figures.
namespace long_prompt {
inline constexpr char kIdle[] = "long prompts alone";
inline constexpr char kStreams[] = "streams alone";
inline constexpr char kBoth[] = "both";  // x: "streams" and "long prompts".

inline constexpr char kRopeway[] = "ropeway";
inline constexpr char kLlama[] = "llama-server";
inline constexpr char kServer[] = "server";  // The one of --base-url.
inline constexpr char kOfStreams[] = "streams";
inline constexpr char kOfLong[] = "long prompts";
}  // namespace long_prompt

// The expectations of the parts that were run.
std::vector<Verdict> LongPromptVerdicts(const Figures& figures);

// The whole page.
std::string LongPromptReport(const Figures& figures);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_LONG_PROMPT_REPORT_H_
