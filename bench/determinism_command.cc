// `ropeway-bench determinism`: one prompt, asked many times at temperature 0 in the engine's own
// loop amid other requests. Prints JSON lines: what it runs, what each round went through, and at
// the end each distinct output with its count. bench/ropeway_bench/determinism.py judges them.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/output.h"
#include "bench/bench_flags.h"
#include "bench/commands.h"
#include "bench/determinism.h"
#include "engine/model_vocabulary.h"

namespace ropeway::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxPromptTokens = 1024;

struct DeterminismFlags : BenchFlags {
  std::string prompt =
      "Once upon a time, in a village high up in the mountains, there lived an old woman who";
  int asks = 1000;
  int output_tokens = 64;
  int rounds = 10;
  double company = 1;
  uint64_t seed = 1;
};

Json RoundJson(const DeterminismRound& r) {
  const RoundSettings& s = r.settings;
  return {{"kernels", s.kernels->name},
          {"threads", s.threads},
          {"max_num_batched_tokens", s.max_num_batched_tokens},
          {"max_prefill_chunk", s.max_prefill_chunk},
          {"max_num_seqs", s.max_num_seqs},
          {"num_blocks", s.num_blocks},
          {"prefix_caching", s.prefix_caching},
          {"asks", r.asks},
          {"company", r.company},
          {"left", r.left},
          {"steps", r.steps},
          {"rows", r.rows},
          {"most_rows", r.most_rows},
          {"chunked", r.chunked},
          {"most_chunks", r.most_chunks},
          {"preempted", r.preempted},
          {"preemptions", r.preemptions},
          {"distinct", r.distinct}};
}

StatusOr<std::vector<TokenId>> EncodePrompt(const DeterminismFlags& flags) {
  auto file = OpenModelFile(flags);
  if (!file.ok()) return file.status();
  auto tokenizer = engine::LoadTokenizer(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  std::vector<TokenId> ids = (*tokenizer)->Encode(flags.prompt, {});
  if (ids.empty() || ids.size() > kMaxPromptTokens) {
    return InvalidArgument(
        fmt::format("--prompt must have 1 to {} tokens, but has {}", kMaxPromptTokens, ids.size()));
  }
  return ids;
}

int RunDeterminism(const DeterminismFlags& flags) {
  spdlog::set_level(spdlog::level::warn);
  if (const auto kernels = ChooseTable(""); !kernels.ok()) return base::Fail(kernels.status());
  auto prompt = EncodePrompt(flags);
  if (!prompt.ok()) return base::Fail(prompt.status());
  const auto model = LoadModel(flags);
  if (!model.ok()) return base::Fail(model.status());
  DeterminismEngineOptions options;
  options.prompt = *std::move(prompt);
  options.asks = flags.asks;
  options.output_tokens = flags.output_tokens;
  options.rounds = std::min(flags.rounds, flags.asks);
  options.company = flags.company;
  options.kv_type = *kernels::KvTypeByName(flags.kv_cache_dtype.c_str());
  options.seed = flags.seed;
  if (DeterminismEngine::LongestRequest(options) > (*model)->model()->max_positions()) {
    return base::Fail(fmt::format(
        "--output-tokens: the model holds {} tokens, but the requests are of up to {}",
        (*model)->model()->max_positions(), DeterminismEngine::LongestRequest(options)));
  }
  base::Output output;
  const auto print = [&output](const Json& json) {
    output.Write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  };
  print({{"model", flags.model},
         {"prompt", flags.prompt},
         {"prompt_tokens", options.prompt.size()},
         {"output_tokens", flags.output_tokens},
         {"kv_cache_dtype", flags.kv_cache_dtype},
         {"seed", flags.seed}});
  DeterminismEngine engine(*model, options, TablesToAsk());
  const Status status = engine.Run([&](const DeterminismRound& round) {
    print({{"round", RoundJson(round)}});
  });
  if (!status.ok()) return base::Fail(status);
  for (const DeterminismOutput& one : engine.outputs()) {
    print({{"output", {{"count", one.count}, {"tokens", one.tokens}, {"logprobs", one.logprobs}}}});
  }
  const int code = output.End();
  return engine.outputs().size() == 1 ? code : 1;
}

}  // namespace

flags::Command DeterminismCommand() {
  auto flags = std::make_shared<DeterminismFlags>();
  return {"determinism",
          "Ask one prompt many times amid other requests and print the outputs",
          {{"Flags",
            {{"--model,-m", flags::TextValue(&flags->model, "FILE"),
              "GGUF file, or the name of a model that was fetched"},
             KvTypeFlag(&flags->kv_cache_dtype),
             {"--prompt", flags::TextValue(&flags->prompt, "TEXT").NotEmpty(),
              "The prompt as it is: no chat template"},
             {"--asks", flags::IntValue(&flags->asks, 1, 1'000'000), "How often it is asked"},
             {"--output-tokens", flags::IntValue(&flags->output_tokens, 1, 4096),
              "Tokens of each answer"},
             {"--company", flags::NumberValue(&flags->company, 0, 100),
              "Other requests for each ask, on average"},
             {"--rounds", flags::IntValue(&flags->rounds, 1, 1000),
              "Engines one after the other, each with other threads, steps, chunks and memory"},
             {"--seed", flags::IntValue(&flags->seed, 0, INT64_MAX), "Of all that is random"}}}},
          "The answers are of temperature 0. The exit code is 0 if they are all the same, in "
          "tokens and "
          "log-probabilities.\n\n"
          "Example:\n  ropeway-bench determinism --asks 20 --rounds 4 --output-tokens 16",
          [flags] { return RunDeterminism(*flags); }};
}

}  // namespace ropeway::bench
