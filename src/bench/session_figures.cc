#include "bench/session_figures.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/statistics.h"

namespace ropeway {
namespace {

// Of several turns.
struct Sums {
  double turns = 0;
  double output = 0;
  double prompt = 0;
  double cached = 0;
  bool tells_cached = false;
  double prefilled = 0;
  std::vector<double> ttft;

  void Add(const RequestRecord& record) {
    ++turns;
    output += static_cast<double>(record.output_tokens);
    prompt += static_cast<double>(record.input_tokens);
    cached += static_cast<double>(record.cached_tokens.value_or(0));
    tells_cached = tells_cached || record.cached_tokens.has_value();
    prefilled += static_cast<double>(PrefilledTokens(record));
    if (record.ttft) ttft.push_back(*record.ttft);
  }

  void AddFigures(const Figure& where, Figures* figures) const {
    figures->Add(where, "turns", turns);
    figures->Add(where, "prefilled_tokens", prefilled);
    if (ttft.empty()) return;
    const Distribution times = Describe(ttft);
    figures->Add(where, "ttft_p50_s", times.p50);
    figures->Add(where, "ttft_p90_s", times.p90);
  }
};

}  // namespace

int64_t PrefilledTokens(const RequestRecord& record) {
  return record.input_tokens - record.cached_tokens.value_or(0);
}

void AddSessionFigures(const SessionResult& result, int cpus, const Figure& where,
                       Figures* figures) {
  Sums all;
  std::map<int, Sums> by_turn;
  double failed = 0;
  for (const TurnRecord& turn : result.turns) {
    if (!turn.request.ok()) {
      ++failed;
      continue;
    }
    all.Add(turn.request);
    by_turn[turn.turn].Add(turn.request);
  }
  all.AddFigures(where, figures);
  figures->Add(where, "failed", failed);
  figures->Add(where, "prompt_tokens", all.prompt);
  if (all.tells_cached) figures->Add(where, "cached_tokens", all.cached);
  figures->Add(where, "wall_s", result.wall_seconds);
  if (result.wall_seconds > 0) {
    figures->Add(where, "turns_per_s", all.turns / result.wall_seconds);
    figures->Add(where, "output_tok_per_s", all.output / result.wall_seconds);
    figures->Add(where, "generator_cpu_share", result.cpu_seconds / (result.wall_seconds * cpus));
  }
  for (const auto& [turn, sums] : by_turn) {
    Figure at = where;
    at.x = std::to_string(turn + 1);
    sums.AddFigures(at, figures);
  }
}

}  // namespace ropeway
