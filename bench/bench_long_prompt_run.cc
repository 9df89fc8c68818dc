#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_long_prompt_command.h"
#include "bench/bench_pieces.h"
#include "bench/load_figures.h"
#include "bench/long_prompt_report.h"
#include "bench/put_load.h"
#include "bench/service.h"
#include "cli/output.h"

namespace ropeway {
namespace {

constexpr ServiceWeights kOutputOnly = {.input = 0, .output = 1};
constexpr int kEndless = 100'000;   // Requests of the streams, at most.
constexpr double kLeadSeconds = 2;  // The streams', until all of them decode.
constexpr int kSpareTokens = 64;    // Of a place of llama-server.
// Each load of one server has prompts of its own.
enum RunNumber { kIdleRun = 1, kAloneRun, kStreamsRun, kLongRun };

// With --quick, at most.
constexpr int kQuickPrompts = 2;
constexpr double kQuickAloneSeconds = 8;

// The gaps that ended within (begin, end] after the run's begin.
std::vector<double> GapsWithin(const RunResult& run, double begin, double end) {
  std::vector<double> gaps;
  for (const RequestRecord& record : run.records) {
    double at = record.due + record.ttft.value_or(0);
    for (const float gap : record.gaps) {
      at += gap;
      if (at > begin && at <= end) gaps.push_back(gap);
    }
  }
  return gaps;
}

class LongPromptBench {
 public:
  explicit LongPromptBench(const BenchLongPromptFlags& flags)
      : flags_(MadeQuick(flags)), pieces_(flags_.pieces) {}

  Status Run() {
    if (Status status = pieces_.Open(); !status.ok()) return status;
    for (int round = 0; round < flags_.pieces.rounds; ++round) {
      for (const std::string& contestant : Contestants()) {
        if (Status status = All(contestant); !status.ok()) return status;
      }
    }
    return pieces_.CheckContestants();
  }

  std::string Report() { return LongPromptReport(*pieces_.figures()); }

 private:
  static BenchLongPromptFlags MadeQuick(BenchLongPromptFlags flags) {
    if (!flags.pieces.quick) return flags;
    flags.prompts = std::min(flags.prompts, kQuickPrompts);
    flags.alone_seconds = std::min(flags.alone_seconds, kQuickAloneSeconds);
    return flags;
  }

  std::vector<std::string> Contestants() const {
    if (!flags_.pieces.base_url.empty()) return {long_prompt::kServer};
    std::vector<std::string> names = {long_prompt::kRopeway};
    if (!flags_.pieces.llama_server.empty() && !flags_.pieces.quick) {
      names.emplace_back(long_prompt::kLlama);
    }
    return names;
  }

  StatusOr<TestedServer> StartFor(const std::string& contestant) const {
    if (contestant == long_prompt::kServer) return pieces_.Reach();
    if (contestant == long_prompt::kLlama) {
      const int longest = std::max(flags_.prompt_tokens + flags_.output_tokens,
                                   flags_.stream_prompt + flags_.stream_output);
      return pieces_.StartLlama(flags_.streams + 1, (longest + kSpareTokens + 255) / 256 * 256);
    }
    return pieces_.StartRopeway({BenchPieces::kRefuseNobody});
  }

  // All parts, on one server.
  Status All(const std::string& contestant) {
    if (!pieces_.Wants(contestant)) return {};
    auto server = StartFor(contestant);
    if (!server.ok()) return server.status();
    using Part = Status (LongPromptBench::*)(const TestedServer&, const Figure&);
    const std::vector<std::pair<const char*, Part>> parts = {
        {long_prompt::kIdle, &LongPromptBench::Idle},
        {long_prompt::kStreams, &LongPromptBench::Streams},
        {long_prompt::kBoth, &LongPromptBench::Both}};
    for (const auto& [name, part] : parts) {
      const Status status =
          pieces_.Measure(name, contestant, [&, part = part](const Figure& where) -> Status {
            if (Status s = (this->*part)(*server, where); !s.ok()) return s;
            if (!server->command.empty()) pieces_.figures()->Add(where, "command", server->command);
            return {};
          });
      if (!status.ok()) return status;
    }
    return {};
  }

  Load MakeLoad(int run_num, int count, int in_flight, int input, int output) const {
    Load load;
    load.shape.count = count;
    load.shape.concurrency = in_flight;
    load.shape.timeout = flags_.pieces.timeout;
    load.seed = flags_.pieces.seed;
    load.run_num = run_num;
    load.asked = [input, output](int) { return Asked{input, output}; };
    return load;
  }

  Load MakeStreams(int run_num) const {
    return MakeLoad(run_num, kEndless, flags_.streams, flags_.stream_prompt, flags_.stream_output);
  }

  Load MakeLong(int run_num) const {
    return MakeLoad(run_num, flags_.prompts, 1, flags_.prompt_tokens, flags_.output_tokens);
  }

  std::string StreamsText() const {
    return fmt::format("{} streams of {} tokens in, {} out", flags_.streams, flags_.stream_prompt,
                       flags_.stream_output);
  }
  std::string LongText() const {
    return fmt::format("{} prompts of {} tokens, {} out, one after the other", flags_.prompts,
                       flags_.prompt_tokens, flags_.output_tokens);
  }

  // The streams' gaps and tokens between two moments.
  void AddStreams(const RunResult& run, double begin, double end, const Figure& where) {
    Figures* const figures = pieces_.figures();
    AddGaps(GapsWithin(run, begin, end), where, figures);
    figures->Add(where, "window_s", end - begin);
    figures->Add(where, "output_tok_per_s",
                 TrailOf(run.records, kOutputOnly).Between(begin, end) / (end - begin));
  }

  void AddLong(const RunResult& run, const Figure& where) {
    Figures* const figures = pieces_.figures();
    AddLoadFigures({&run}, MachineCpus(), where, figures);
    int64_t tokens = 0;
    for (const RequestRecord& record : run.records) tokens += record.input_tokens;
    figures->Add(where, "prompt_tokens_each",
                 static_cast<double>(tokens) / static_cast<double>(run.records.size()));
  }

  Status Idle(const TestedServer& server, const Figure& where) {
    const auto run = [&] {
      const Timing timing(where);
      return PutLoad(server.target(), MakeLong(kIdleRun));
    }();
    if (!run.ok()) return run.status();
    AddLong(*run, where);
    pieces_.figures()->Add(where, "load", LongText());
    return {};
  }

  Status Streams(const TestedServer& server, const Figure& where) {
    const double end = kLeadSeconds + flags_.alone_seconds;
    const auto run = [&] {
      const Timing timing(where);
      return PutLoadFor(server.target(), MakeStreams(kAloneRun), end);
    }();
    if (!run.ok()) return run.status();
    AddStreams(*run, kLeadSeconds, end, where);
    pieces_.figures()->Add(where, "load", StreamsText());
    return {};
  }

  Status Both(const TestedServer& server, const Figure& where) {
    const auto runs = [&] {
      const Timing timing(where);
      return PutLoadBeside(server.target(), MakeStreams(kStreamsRun), kLeadSeconds,
                           MakeLong(kLongRun));
    }();
    if (!runs.ok()) return runs.status();
    Figure at = where;
    at.x = long_prompt::kOfStreams;
    AddStreams(runs->background, runs->offset(), runs->offset() + runs->foreground.wall_seconds,
               at);
    at.x = long_prompt::kOfLong;
    AddLong(runs->foreground, at);
    pieces_.figures()->Add(where, "load", StreamsText() + "; " + LongText());
    return {};
  }

  const BenchLongPromptFlags flags_;
  BenchPieces pieces_;
};

}  // namespace

int RunBenchLongPrompt(const BenchLongPromptFlags& flags) {
  LongPromptBench bench(flags);
  if (const Status status = bench.Run(); !status.ok()) return Fail(status);
  Output output;
  output.Write(bench.Report());
  return output.End();
}

}  // namespace ropeway
