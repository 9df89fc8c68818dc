#include "bench/bench_prefixes_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string_view>

#include "cli/flags.h"

namespace ropeway {
namespace {

constexpr char kShared[] = "Part shared";
constexpr char kCurves[] = "Part curves";
constexpr char kSlice[] = "Part slice";

void AddTraceFlags(CLI::App* app, BenchPrefixesFlags* f) {
  AddText(app, "--trace", &f->trace, kFilePlaceholder,
          "JSON lines with timestamp, input_length, output_length and hash_ids (Mooncake's); the "
          "parts curves and slice need it")
      ->group("What is measured");
  AddInt(app, "--input-divisor", &f->scale.input_divisor, 1, 1000,
         "The trace's prompts are so many times as long")
      ->group("What is measured");
  AddInt(app, "--output-divisor", &f->scale.output_divisor, 1, 1000, "Likewise, its answers")
      ->group("What is measured");
  AddInt(app, "--block-tokens", &f->scale.block_tokens, 1, 100000,
         "Tokens that one of hash_ids stands for, after that")
      ->group("What is measured");
  AddText(app, "--pools", &f->pools, "LIST", "Sizes of the pool in % of the working set")
      ->group(kCurves);
  AddNumber(app, "--curve-load", &f->curve_load, 0.01, 100,
            "Offered work over the virtual device's capacity, without a cache")
      ->group(kCurves);
  AddInt(app, "--curve-requests", &f->curve_requests, 0, 100000000,
         "Only so many requests from the trace's beginning; 0: all")
      ->group(kCurves);
  AddNumber(app, "--slice-start", &f->slice_start, 0, 1e9, "Seconds of the trace before the slice")
      ->group(kSlice);
  AddNumber(app, "--slice-seconds", &f->slice_seconds, 0.001, 1e9, "Seconds of the trace")
      ->group(kSlice);
  AddNumber(app, "--slice-load", &f->slice_load, 0.01, 100,
            "Offered work over the capacity that is measured without a cache: time is stretched to "
            "that")
      ->group(kSlice);
  AddNumber(app, "--slice-pool", &f->slice_pool, 0.01, 100,
            "The KV cache as part of the slice's working set; a disk tier has room for all")
      ->group(kSlice);
  AddInt(app, "--max-request-tokens", &f->max_request_tokens, 1, 100000000,
         "Leave out requests with more tokens, in and out together")
      ->group(kSlice);
  AddChoice(app, "--kv-cache-dtype", &f->kv_cache_dtype, {"f16", "q8_0"},
            "How the KV cache keeps numbers: f16 or q8_0")
      ->group(kSlice);
}

}  // namespace

CLI::App* AddBenchPrefixes(CLI::App* bench, BenchPrefixesFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "prefixes", "Prompts that begin alike: what it brings to compute what they share once");
  AddBenchPieceFlags(app, &f->pieces);
  AddChoice(app, "--part", &f->part, {"shared", "curves", "slice", "all"},
            "shared: many users behind one long prompt; curves: hit ratios of a whole --trace in "
            "virtual time; slice: a part of it on the real engine; or all")
      ->group("What is measured");
  app->add_flag("--quick", f->pieces.quick, "Our engine only, once, with less of everything")
      ->group("What is measured");
  AddInt(app, "--users", &f->users, 1, 1000, "Users who ask at once")->group(kShared);
  AddInt(app, "--requests", &f->requests, 1, 100000, "Requests of all users together")
      ->group(kShared);
  AddInt(app, "--prompt-tokens", &f->prompt_tokens, 1, 100000, "The prompt that all begin with")
      ->group(kShared);
  AddInt(app, "--tail-tokens", &f->tail_tokens, 1, 100000, "What each user adds")->group(kShared);
  AddInt(app, "--output-tokens", &f->output_tokens, 1, 100000, "Of each answer")->group(kShared);
  AddTraceFlags(app, f);
  app->footer(
      "It starts the servers itself, one after the other, on a machine that should do nothing "
      "else.\ndocs/benchmarks.md explains the figures.\n\n"
      "Example:\n  ropeway-bench prefixes --part shared --users 2 --requests 2 --prompt-tokens 64 "
      "--output-tokens 8");
  return app;
}

StatusOr<std::vector<double>> ParsePools(const std::string& text) {
  std::vector<double> pools;
  std::string_view rest = text;
  for (;;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || !(value > 0 && value <= 100) ||
        (!pools.empty() && value <= pools.back())) {
      return InvalidArgument(
          fmt::format(
              "--pools: expected rising numbers above 0 and up to 100, with commas between, "
              "not '{}'",
              text),
          "pools");
    }
    pools.push_back(value);
    if (word.size() == rest.size()) return pools;
    rest.remove_prefix(word.size() + 1);
  }
}

}  // namespace ropeway
