// Times the whole engine without HTTP: queue, scheduler, forward pass, sampler, detokenizing and
// the results of the public API. For each number of sequences the engine answers as many random
// prompts twice: with one token each (the prefill) and with all. bench/openvino_engine.py does the
// same with OpenVINO GenAI.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/output.h"
#include "bench/bench_flags.h"
#include "bench/commands.h"
#include "bench/rows.h"
#include "ropeway/engine.h"

namespace ropeway::bench {
namespace {

struct EngineBenchFlags : BenchFlags {
  int input_tokens = 128;
  int output_tokens = 64;
  std::string sequences = "1,8,16,32";
  int runs = 3;
  int last_token_id = 31999;  // Of random prompts: a vocabulary of 32,000 or more has them all.
  uint32_t seed = 1;
};

// What one run took, and what it counted.
struct Run {
  double seconds = 0;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
};

class EngineBench {
 public:
  EngineBench(Engine* engine, const EngineBenchFlags& flags)
      : engine_(engine), flags_(flags), random_(flags.seed) {}

  // The run of median time, of so many as `flags` asks for or fit in its seconds, at least one;
  // nullopt, and a sentence on standard error, where a request failed.
  std::optional<Run> Measure(int sequences, int output_tokens) {
    std::vector<Run> runs;
    double total = 0;
    while (runs.empty() ||
           (static_cast<int>(runs.size()) < flags_.runs && total < flags_.seconds)) {
      const std::optional<Run> run = Once(sequences, output_tokens);
      if (!run) return std::nullopt;
      runs.push_back(*run);
      total += run->seconds;
    }
    std::sort(runs.begin(), runs.end(),
              [](const Run& a, const Run& b) { return a.seconds < b.seconds; });
    return runs[runs.size() / 2];
  }

 private:
  std::optional<Run> Once(int sequences, int output_tokens) {
    std::vector<Request> requests;
    for (int i = 0; i < sequences; ++i) requests.push_back(RandomRequest(output_tokens));
    Run run;
    const base::RealClock clock;
    const base::TimePoint begin = clock.Now();
    auto handles = engine_->SubmitMany(std::move(requests));
    for (auto& handle : handles) {
      auto result = handle.ok() ? handle->Wait() : StatusOr<Result>(handle.status());
      const Status status = result.ok() ? result.value().status : result.status();
      if (!status.ok()) {
        fmt::print(stderr, "{}\n", status.message());
        return std::nullopt;
      }
      run.input_tokens += result.value().finish.usage.prompt_tokens;
      run.output_tokens += result.value().finish.usage.completion_tokens;
    }
    run.seconds = base::ToSeconds(clock.Now() - begin);
    return run;
  }

  Request RandomRequest(int output_tokens) {
    std::uniform_int_distribution<TokenId> id(std::min(1000, flags_.last_token_id),
                                              flags_.last_token_id);
    std::vector<TokenId> prompt(static_cast<size_t>(flags_.input_tokens));
    for (TokenId& token : prompt) token = id(random_);
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = output_tokens;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    return request;
  }

  Engine* const engine_;
  const EngineBenchFlags flags_;
  std::mt19937 random_;
};

int RunEngine(const EngineBenchFlags& flags) {
  const auto counts = ParseCounts("--sequences", flags.sequences, 1 << 20);
  if (!counts.ok()) return base::Fail(counts.status());
  const StatusOr<std::string> path = cli::ResolveModel(flags.model);
  if (!path.ok()) return base::Fail(path.status());
  EngineOptions options;
  options.model.path = *path;
  options.threads = flags.resolved_threads();
  auto engine = Engine::Create(options);
  if (!engine.ok()) return base::Fail(engine.status());
  EngineBench bench(engine->get(), flags);
  if (!bench.Measure(1, 8) || !bench.Measure(8, 4)) return 1;  // Warms up.
  base::Output output;
  Rows rows([&output](const std::string& text) { output.Write(text); });
  for (const int sequences : *counts) {
    const std::optional<Run> one = bench.Measure(sequences, 1);
    const std::optional<Run> all = one ? bench.Measure(sequences, flags.output_tokens) : one;
    if (!all) return 1;
    rows.SetCell("engine", "ropeway", fmt::format("{}", sequences));
    rows.Add("input_tokens", static_cast<double>(all->input_tokens));
    rows.Add("output_tokens", static_cast<double>(all->output_tokens));
    rows.Add("one_token_s", one->seconds);
    rows.Add("all_tokens_s", all->seconds);
  }
  return output.End();
}

}  // namespace

flags::Command EngineCommand() {
  auto flags = std::make_shared<EngineBenchFlags>();
  flags->seconds = 2;
  return {
      "engine",
      "Time the whole engine, without HTTP",
      {{"Flags", ModelFlags(flags.get(), "No further run begins after so many seconds")},
       {"Flags",
        {{"--input-tokens", flags::IntValue(&flags->input_tokens, 1, 1 << 20),
          "Tokens of each prompt"},
         {"--output-tokens", flags::IntValue(&flags->output_tokens, 2, 1 << 20),
          "Tokens of each answer"},
         {"--sequences", flags::TextValue(&flags->sequences, "LIST"),
          "Numbers of sequences, one after the other"},
         {"--runs", flags::IntValue(&flags->runs, 1, 1000),
          "Runs of each number of sequences at most; the median counts"},
         {"--last-token-id", flags::IntValue(&flags->last_token_id, 1, INT32_MAX),
          "The highest id in random prompts"},
         {"--seed", flags::IntValue(&flags->seed, 0, UINT32_MAX), "Seed of the random prompts"}}}},
      "Example:\n  ropeway-bench engine --sequences 1 --runs 1 --input-tokens 16 --output-tokens 4",
      [flags] { return RunEngine(*flags); }};
}

}  // namespace ropeway::bench
