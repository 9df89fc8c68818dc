#include <algorithm>
#include <vector>

#include "bench/bench_prefixes_command.h"
#include "bench/prefixes_report.h"
#include "bench/shared_prompt.h"
#include "bench/trace_curves.h"
#include "bench/trace_slice.h"
#include "bench/work_file.h"
#include "cli/output.h"

namespace ropeway {
namespace {

constexpr int kMaxTraceRequests = 10'000'000;
// With --quick.
constexpr char kQuickPools[] = "10,30";
constexpr int kQuickRequests = 4000;

class PrefixesBench {
 public:
  explicit PrefixesBench(const BenchPrefixesFlags& flags)
      : flags_(MadeQuick(flags)), pieces_(flags_.pieces) {}

  Status Run() {
    if (Status status = Check(); !status.ok()) return status;
    if (Status status = pieces_.Open(); !status.ok()) return status;
    for (int round = 0; round < flags_.pieces.rounds; ++round) {
      if (Wants("shared")) {
        if (Status s = MeasureSharedPrompt(flags_, &pieces_); !s.ok()) return s;
      }
      if (Wants("curves")) {
        if (Status s = MeasureCurves(flags_, trace_, &pieces_); !s.ok()) return s;
      }
      if (Wants("slice")) {
        if (Status s = MeasureSlice(flags_, trace_, &pieces_); !s.ok()) return s;
      }
      if (Status s = pieces_.Save(); !s.ok()) return s;
    }
    return pieces_.CheckContestants();
  }

  std::string Report() { return PrefixesReport(*pieces_.figures()); }

 private:
  static BenchPrefixesFlags MadeQuick(BenchPrefixesFlags flags) {
    if (flags.pieces.quick) {
      flags.pools = kQuickPools;
      flags.requests = std::min(flags.requests, flags.users);
      if (flags.curve_requests == 0) flags.curve_requests = kQuickRequests;
    }
    return flags;
  }

  bool Wants(const std::string& part) const {
    if (part != "shared" && (flags_.trace.empty() || !flags_.pieces.base_url.empty())) return false;
    return flags_.part == part || flags_.part == "all";
  }

  Status Check() {
    const bool traced = flags_.part == "curves" || flags_.part == "slice";
    if (traced && flags_.trace.empty()) {
      return InvalidArgument("--part: " + flags_.part + " needs a --trace", "part");
    }
    if (traced && !flags_.pieces.base_url.empty()) {
      return InvalidArgument(
          "--part: " + flags_.part + " runs engines of its own, which --base-url excludes", "part");
    }
    if (const auto pools = ParsePools(flags_.pools); !pools.ok()) return pools.status();
    if (flags_.trace.empty()) return {};
    auto trace = ReadTrace(flags_.trace, kMaxTraceRequests, /*max_tokens=*/0);
    if (!trace.ok()) return trace.status();
    auto scaled = ScaleTrace(*trace, flags_.scale);
    if (!scaled.ok()) return scaled.status();
    trace_ = *std::move(scaled);
    return {};
  }

  const BenchPrefixesFlags flags_;
  BenchPieces pieces_;
  std::vector<PrefixRequest> trace_;
};

}  // namespace

int RunBenchPrefixes(const BenchPrefixesFlags& flags) {
  PrefixesBench bench(flags);
  if (const Status status = bench.Run(); !status.ok()) return Fail(status);
  Output output;
  output.Write(bench.Report());
  return output.End();
}

}  // namespace ropeway
