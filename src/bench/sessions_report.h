// What `ropeway bench sessions` says.
#ifndef ROPEWAY_BENCH_SESSIONS_REPORT_H_
#define ROPEWAY_BENCH_SESSIONS_REPORT_H_

#include <string>
#include <vector>

#include "bench/figures.h"
#include "bench/verdict.h"

namespace ropeway {

// Names of parts and contestants in the figures.
namespace sessions {
inline constexpr char kChats[] = "chats";
inline constexpr char kDialogues[] = "dialogues";  // Likewise, of a file.
inline constexpr char kPool[] = "pool";
inline constexpr char kRestart[] = "restart";

inline constexpr char kStateful[] = "stateful";
inline constexpr char kStateless[] = "stateless";
inline constexpr char kLlama[] = "llama-server";
inline constexpr char kServer[] = "server";  // The one of --base-url.
inline constexpr char kUnlimited[] = "all in the pool";
inline constexpr char kThird[] = "a third in the pool, disk";
inline constexpr char kThirdAlone[] = "a third in the pool, no disk";
inline constexpr char kPrefill[] = "full prefill";
inline constexpr char kNextTurn[] = "next turn after a restart";
}  // namespace sessions

// The expectations of the parts that were run.
std::vector<Verdict> SessionVerdicts(const Figures& figures);

// The whole page.
std::string SessionsReport(const Figures& figures);

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_SESSIONS_REPORT_H_
