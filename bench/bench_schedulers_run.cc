#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/bench_schedulers_command.h"
#include "bench/load_figures.h"
#include "bench/put_load.h"
#include "bench/schedulers_report.h"
#include "cli/output.h"

namespace ropeway {
namespace {

constexpr int kMaxPlaces = 256;
constexpr int kCeilingPlaces = 16;
constexpr int kCeilingPrompt = 16;
constexpr uint64_t kLengthStream = 11;
constexpr int kLeastRequests = 20;

// With --quick.
constexpr char kQuickSizes[] = "16";
constexpr char kQuickUsers[] = "8";
constexpr int kQuickRequestsPerPlace = 8;
constexpr int kQuickMixedRuns = 1;
constexpr int kQuickCeilingTokens = 48;

std::string Milliseconds(std::chrono::milliseconds time) {
  return fmt::format("{}ms", time.count());
}

// How a strategy's server is started.
struct Strategy {
  std::string name;
  int batch = 1;
  std::chrono::milliseconds timeout{};

  // REQUIRES: one of our own.
  std::vector<std::string> Flags() const {
    // Every strategy has as many places as its batch; none refuses what would wait for long.
    std::vector<std::string> flags = {"--max-num-seqs", std::to_string(batch),
                                      BenchPieces::kRefuseNobody};
    const auto add = [&flags](std::vector<std::string> more) {
      flags.insert(flags.end(), more.begin(), more.end());
    };
    if (name == schedulers::kSerial) add({"--scheduler", "serial"});
    if (name == schedulers::kContinuous) add({"--scheduler", "continuous"});
    if (name == schedulers::kDynamic) {
      add({"--scheduler", "dynamic", "--max-batch-size", std::to_string(batch), "--batch-timeout",
           Milliseconds(timeout)});
    }
    if (name == schedulers::kPadded || name == schedulers::kUnpadded) {
      add({"--scheduler", "static", "--static-padding", name == schedulers::kPadded ? "on" : "off",
           "--max-batch-size", std::to_string(batch), "--static-flush", Milliseconds(timeout)});
    }
    return flags;
  }
};

class SchedulersBench {
 public:
  explicit SchedulersBench(const BenchSchedulersFlags& flags)
      : flags_(MadeQuick(flags)), pieces_(flags_.pieces) {}

  Status Run() {
    if (Status status = Check(); !status.ok()) return status;
    if (Status status = pieces_.Open(); !status.ok()) return status;
    for (int round = 0; round < flags_.pieces.rounds; ++round) {
      if (Wants("ceiling")) {
        if (Status status = Ceiling(); !status.ok()) return status;
      }
      if (Wants("mixed")) {
        if (Status status = Mixed(); !status.ok()) return status;
      }
      if (Wants("sizes")) {
        for (const int size : sizes_) {
          if (Status status = Size(size); !status.ok()) return status;
        }
      }
      if (!Wants("users")) continue;
      for (const int users : users_) {
        if (Status status = Users(users); !status.ok()) return status;
      }
    }
    return pieces_.CheckContestants();
  }

  std::string Report() { return SchedulersReport(*pieces_.figures()); }

 private:
  static BenchSchedulersFlags MadeQuick(BenchSchedulersFlags flags) {
    if (!flags.pieces.quick) return flags;
    const BenchSchedulersFlags defaults;
    if (flags.sizes == defaults.sizes) flags.sizes = kQuickSizes;
    if (flags.users == defaults.users) flags.users = kQuickUsers;
    flags.requests_per_place = std::min(flags.requests_per_place, kQuickRequestsPerPlace);
    flags.mixed_runs = std::min(flags.mixed_runs, kQuickMixedRuns);
    flags.ceiling_tokens = std::min(flags.ceiling_tokens, kQuickCeilingTokens);
    return flags;
  }

  Status Check() {
    auto sizes = ParseCounts("sizes", flags_.sizes, kMaxPlaces);
    if (!sizes.ok()) return sizes.status();
    sizes_ = *sizes;
    auto users = ParseCounts("users", flags_.users, kMaxPlaces);
    if (!users.ok()) return users.status();
    users_ = *users;
    if (flags_.most_prompt < flags_.least_prompt) {
      return InvalidArgument("--most-prompt: must be at least --least-prompt", "most-prompt");
    }
    return {};
  }

  bool Wants(const std::string& part) const {
    // A server that is there has its one strategy.
    if (!flags_.pieces.base_url.empty() && (part == "users" || part == "ceiling")) return false;
    return flags_.part == part || flags_.part == "all";
  }

  bool HasLlama() const { return !flags_.pieces.llama_server.empty() && !flags_.pieces.quick; }

  // All strategies, or the server that is there.
  std::vector<std::string> Contestants() const {
    if (!flags_.pieces.base_url.empty()) return {schedulers::kServer};
    std::vector<std::string> names = {schedulers::kSerial, schedulers::kPadded,
                                      schedulers::kUnpadded, schedulers::kDynamic,
                                      schedulers::kContinuous};
    if (HasLlama()) names.emplace_back(schedulers::kLlama);
    return names;
  }

  StatusOr<TestedServer> StartFor(const Strategy& strategy) const {
    if (strategy.name == schedulers::kServer) return pieces_.Reach();
    if (strategy.name == schedulers::kLlama) {
      const int longest = flags_.most_prompt + static_cast<int>(flags_.outputs.most) + 16;
      return pieces_.StartLlama(strategy.batch, (longest + 255) / 256 * 256);
    }
    return pieces_.StartRopeway(strategy.Flags());
  }

  // The same for all strategies.
  Load MakeLoad(int count, int in_flight, int run_num) const {
    const uint64_t seed =
        Mix64(Mix64(flags_.pieces.seed, kLengthStream), static_cast<uint64_t>(run_num));
    SeededRandom random(seed);
    const std::vector<int> outputs = DrawLengths(seed, count, flags_.outputs);
    std::vector<Asked> all;
    for (const int output : outputs) {
      Asked& asked = all.emplace_back();
      asked.input_tokens =
          static_cast<int>(random.Between(flags_.least_prompt, flags_.most_prompt));
      asked.output_tokens = output;
    }
    Load load;
    load.shape.count = count;
    load.shape.concurrency = in_flight;
    load.shape.timeout = flags_.pieces.timeout;
    load.asked = [all = std::move(all)](int seq) { return all[static_cast<size_t>(seq)]; };
    load.seed = flags_.pieces.seed;
    load.run_num = run_num;
    return load;
  }

  std::string LoadText(int runs, int count, int in_flight) const {
    return fmt::format(
        "{} run{} of {} requests, {} in flight; prompts of {} to {} tokens, answers log-normal, "
        "median {:g}, spread {:g}, cut at {:g}; seed {}",
        runs, runs == 1 ? "" : "s", count, in_flight, flags_.least_prompt, flags_.most_prompt,
        flags_.outputs.median, flags_.outputs.spread, flags_.outputs.most, flags_.pieces.seed);
  }

  // One strategy under `runs` loads, one after the other.
  Status Piece(const Strategy& strategy, int runs, int count, int in_flight, const Figure& where) {
    auto server = StartFor(strategy);
    if (!server.ok()) return server.status();
    const SchedulerWatch watch(&*server);
    std::vector<RunResult> results;
    {
      const Timing timing(where);
      for (int run = 1; run <= runs; ++run) {
        auto result = PutLoad(server->target(), MakeLoad(count, in_flight, run));
        if (!result.ok()) return result.status();
        results.push_back(*std::move(result));
      }
    }
    std::vector<const RunResult*> all;
    for (const RunResult& result : results) all.push_back(&result);
    Figures* const figures = pieces_.figures();
    AddLoadFigures(all, MachineCpus(), where, figures);
    watch.AddFigures(where, figures);
    if (!server->command.empty()) figures->Add(where, "command", server->command);
    figures->Add(where, "load", LoadText(runs, count, in_flight));
    return {};
  }

  Status Mixed() {
    for (const std::string& name : Contestants()) {
      const Strategy strategy{name, flags_.mixed_batch, flags_.mixed_timeout};
      const Status status = pieces_.Measure(schedulers::kMixed, name, [&](const Figure& where) {
        return Piece(strategy, flags_.mixed_runs, flags_.mixed_requests, flags_.mixed_in_flight,
                     where);
      });
      if (!status.ok()) return status;
    }
    return {};
  }

  Status Size(int size) {
    const int count = std::max(kLeastRequests, flags_.requests_per_place * size);
    for (const std::string& name : Contestants()) {
      const Strategy strategy{name, size, flags_.batch_timeout};
      const Status status = pieces_.Measure(
          schedulers::BatchPart(size), name,
          [&](const Figure& where) { return Piece(strategy, 1, count, 2 * size, where); });
      if (!status.ok()) return status;
    }
    return {};
  }

  Status Users(int users) {
    const int count = std::max(kLeastRequests, flags_.requests_per_place * users / 2);
    for (const char* name : {schedulers::kSerial, schedulers::kContinuous}) {
      const Strategy strategy{name, std::max(users, kCeilingPlaces), flags_.batch_timeout};
      const Status status = pieces_.Measure(
          schedulers::UsersPart(users), name,
          [&](const Figure& where) { return Piece(strategy, 1, count, users, where); });
      if (!status.ok()) return status;
    }
    return {};
  }

  // So many requests at once, of equal lengths: while all of them decode, a step takes the median
  // of the gaps.
  Status Ceiling() {
    std::vector<int> together = {1};
    together.insert(together.end(), users_.begin(), users_.end());
    together.push_back(kCeilingPlaces);
    std::sort(together.begin(), together.end());
    together.erase(std::unique(together.begin(), together.end()), together.end());
    const Strategy strategy{schedulers::kContinuous, std::max(together.back(), kCeilingPlaces), {}};
    return pieces_.Measure(schedulers::kCeiling, schedulers::kContinuous,
                           [&](const Figure& where) -> Status {
                             auto server = StartFor(strategy);
                             if (!server.ok()) return server.status();
                             const Timing timing(where);
                             for (const int users : together) {
                               if (Status status = CeilingAt(*server, users, where); !status.ok())
                                 return status;
                             }
                             pieces_.figures()->Add(where, "command", server->command);
                             return {};
                           });
  }

  Status CeilingAt(const TestedServer& server, int users, const Figure& where) {
    Load load;
    load.shape.count = users;
    load.shape.concurrency = users;
    load.shape.timeout = flags_.pieces.timeout;
    load.asked = [this](int) { return Asked{kCeilingPrompt, flags_.ceiling_tokens}; };
    load.seed = flags_.pieces.seed;
    load.run_num = 1000 + users;
    const auto run = PutLoad(server.target(), load);
    if (!run.ok()) return run.status();
    std::vector<const RequestRecord*> records;
    for (const RequestRecord& record : run->records) records.push_back(&record);
    Figures* const figures = pieces_.figures();
    Figure at = where;
    at.x = std::to_string(users);
    AddTimes(records, at, figures);
    const auto step = figures->Value(at.part, at.contestant, at.round, at.x, "itl_p50_s");
    if (step && *step > 0) figures->Add(at, "decode_tok_per_s", users / *step);
    return {};
  }

  const BenchSchedulersFlags flags_;
  BenchPieces pieces_;
  std::vector<int> sizes_;
  std::vector<int> users_;
};

}  // namespace

int RunBenchSchedulers(const BenchSchedulersFlags& flags) {
  SchedulersBench bench(flags);
  if (const Status status = bench.Run(); !status.ok()) return Fail(status);
  Output output;
  output.Write(bench.Report());
  return output.End();
}

}  // namespace ropeway
