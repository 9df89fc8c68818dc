// How fast is the whole engine alone: queue, scheduler, forward pass, sampler, detokenizing and the
// results that the public API hands back; no HTTP. For each number of sequences it lets the engine
// answer so many random prompts twice: with one token each (that is the prefill) and with all. It
// prints one line of CSV per number of sequences; bench/openvino_engine.py does the same with
// OpenVINO GenAI.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench_flags.h"
#include "ropeway/engine.h"

namespace ropeway {
namespace {

struct Flags {
  std::string model;
  int threads = 2;
  int input_tokens = 128;
  int output_tokens = 64;
  std::vector<int> sequences = {1, 8, 16, 32};
  int runs = 3;
  double seconds = 2;
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
  EngineBench(Engine* engine, const Flags& flags)
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
    const auto begin = std::chrono::steady_clock::now();
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
    run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
  const Flags flags_;
  std::mt19937 random_;
};

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Times the whole engine, without HTTP"};
  app.add_option("--model", flags.model, "GGUF file")->required();
  app.add_option("--threads", flags.threads, "compute threads")->check(kThreadsRange);
  app.add_option("--input-tokens", flags.input_tokens, "of each prompt")
      ->check(CLI::PositiveNumber);
  app.add_option("--output-tokens", flags.output_tokens, "of each answer; at least 2")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--sequences", flags.sequences, "numbers of sequences, one after the other")
      ->check(CLI::PositiveNumber);
  app.add_option("--runs", flags.runs, "of each number of sequences at most; the median counts")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", flags.seconds, "no further run begins after so many")
      ->check(kSecondsRange);
  app.add_option("--last-token-id", flags.last_token_id, "the highest id in random prompts")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", flags.seed, "of the random prompts");
  if (const std::optional<int> code = ParseFlags(&app, argc, argv)) return *code;

  EngineOptions options;
  options.model.path = flags.model;
  options.threads = flags.threads;
  auto engine = Engine::Create(options);
  if (!engine.ok()) {
    fmt::print(stderr, "{}\n", engine.status().message());
    return 1;
  }
  EngineBench bench(engine->get(), flags);
  if (!bench.Measure(1, 8) || !bench.Measure(8, 4)) return 1;  // Warms up.
  fmt::print("sequences,input_tokens,output_tokens,one_token_s,all_tokens_s\n");
  for (const int sequences : flags.sequences) {
    const std::optional<Run> one = bench.Measure(sequences, 1);
    const std::optional<Run> all = one ? bench.Measure(sequences, flags.output_tokens) : one;
    if (!all) return 1;
    fmt::print("{},{},{},{:.6f},{:.6f}\n", sequences, all->input_tokens, all->output_tokens,
               one->seconds, all->seconds);
  }
  return 0;
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) { return ropeway::Main(argc, argv); }
