#include "bench/shared_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/load_runner.h"
#include "bench/prefixes_report.h"
#include "bench/random_prompts.h"
#include "bench/session_figures.h"
#include "core/batch.h"

namespace ropeway {
namespace {

constexpr int kTemplateTokens = 64;  // That a chat template adds, at most.

std::string Messages(const BenchPrefixesFlags& flags, int seq) {
  const RandomPrompts words(flags.pieces.seed, /*as_ids=*/false, /*overhead=*/0);
  const nlohmann::json messages = {
      {{"role", "system"}, {"content", words.Make(0, 0, flags.prompt_tokens).text}},
      {{"role", "user"}, {"content", words.Make(1, seq, flags.tail_tokens).text}}};
  return messages.dump();
}

StatusOr<TestedServer> StartFor(const std::string& contestant, const BenchPrefixesFlags& flags,
                                const BenchPieces& pieces) {
  if (contestant == prefixes::kServer) return pieces.Reach();
  if (contestant == prefixes::kOn) return pieces.StartRopeway({});
  if (contestant == prefixes::kOff) return pieces.StartRopeway({"--prefix-caching", "off"});
  const int longest =
      flags.prompt_tokens + flags.tail_tokens + flags.output_tokens + kTemplateTokens;
  return pieces.StartLlama(flags.users, (longest + 511) / 512 * 512);
}

void AddFigures(const RunResult& run, const BenchPrefixesFlags& flags, const Figure& where,
                Figures* figures) {
  const Summary summary = Summarize({&run}, {}, MachineCpus());
  int64_t prefilled = 0;
  // One prompt, and of each request what stands behind it; blocks are shared as a whole, so up to
  // a block less one token of the prompt is each one's own.
  int64_t bound = flags.prompt_tokens;
  bool tells_cached = false;
  for (const RequestRecord& record : run.records) {
    if (!record.ok()) continue;
    prefilled += PrefilledTokens(record);
    bound += record.input_tokens - flags.prompt_tokens + kBlockTokens - 1;
    tells_cached = tells_cached || record.cached_tokens.has_value();
  }
  figures->Add(where, "requests", static_cast<double>(summary.succeeded));
  figures->Add(where, "failed", static_cast<double>(summary.failed));
  figures->Add(where, "output_tok_per_s", summary.PerSecond(summary.output_tokens));
  figures->Add(where, "output_tokens", static_cast<double>(summary.output_tokens));
  figures->Add(where, "ttft_p50_s", summary.ttft.p50);
  figures->Add(where, "ttft_p90_s", summary.ttft.p90);
  figures->Add(where, "prompt_tokens", static_cast<double>(summary.input_tokens));
  if (tells_cached) figures->Add(where, "prefilled_tokens", static_cast<double>(prefilled));
  figures->Add(where, "prompt_and_tails_tokens", static_cast<double>(bound));
  figures->Add(where, "wall_s", summary.wall_seconds);
  figures->Add(where, "generator_cpu_share", summary.cpu_share);
}

Status Piece(const std::string& contestant, const BenchPrefixesFlags& flags, BenchPieces* pieces,
             const Figure& where) {
  auto server = StartFor(contestant, flags, *pieces);
  if (!server.ok()) return server.status();
  RequestShape shape;
  shape.model = server->facts.model;
  shape.chat = true;
  shape.ignore_eos = server->facts.ignore_eos;
  LoadShape load;
  load.count = flags.requests;
  load.concurrency = flags.users;
  load.timeout = flags.pieces.timeout;
  LoadRunner runner(
      server->client.get(), "/chat/completions", load,
      [&](int seq) {
        Prompt prompt;
        prompt.messages = Messages(flags, seq);
        prompt.max_tokens = flags.output_tokens;
        return RequestBody(shape, prompt, flags.pieces.seed);
      },
      nullptr);
  const RunResult run = [&] {
    const Timing timing(where);
    return runner.Run(1, contestant);
  }();
  if (run.interrupted) return {StatusCode::kCancelled, "interrupted"};
  for (const RequestRecord& record : run.records) {
    if (record.ok()) continue;
    return {StatusCode::kUnavailable, fmt::format("{}: a request failed: {}: {}", contestant,
                                                  record.error_kind, record.error)};
  }
  Figures* const figures = pieces->figures();
  AddFigures(run, flags, where, figures);
  if (!server->command.empty()) figures->Add(where, "command", server->command);
  figures->Add(where, "load",
               fmt::format("{} users, {} requests: a system prompt of {} words that all share, {} "
                           "words each, {} tokens out, seed {}",
                           flags.users, flags.requests, flags.prompt_tokens, flags.tail_tokens,
                           flags.output_tokens, flags.pieces.seed));
  return {};
}

}  // namespace

Status MeasureSharedPrompt(const BenchPrefixesFlags& flags, BenchPieces* pieces) {
  std::vector<std::string> contestants = {prefixes::kOn, prefixes::kOff};
  if (!flags.pieces.llama_server.empty() && !flags.pieces.quick) {
    contestants.emplace_back(prefixes::kLlama);
  }
  if (!flags.pieces.base_url.empty()) contestants = {prefixes::kServer};
  for (const std::string& contestant : contestants) {
    const Status status = pieces->Measure(prefixes::kShared, contestant, [&](const Figure& where) {
      return Piece(contestant, flags, pieces, where);
    });
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace ropeway
