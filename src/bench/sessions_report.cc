#include "bench/sessions_report.h"

#include <fmt/format.h>

#include <optional>

#include "bench/figure_report.h"

namespace ropeway {
namespace {

using namespace sessions;  // NOLINT(google-build-using-namespace): names of this file's subject.

std::optional<double> TurnsPerSecond(const Figures& f, const char* part, const char* contestant) {
  return f.Median(part, contestant, "", "turns_per_s");
}

std::string Of(const char* form, std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return "";
  return fmt::format(fmt::runtime(form), *a, *b);
}

Verdict StatefulOverStateless(const Figures& f, const char* part) {
  const auto with = TurnsPerSecond(f, part, kStateful);
  const auto without = TurnsPerSecond(f, part, kStateless);
  Verdict verdict;
  verdict.title = fmt::format("{}: turns/s, stateful over stateless", part);
  verdict.measured = Ratio(with, without);
  verdict.target = 2.5;
  verdict.how = Of("{:.2f} / {:.2f} turns/s", with, without);
  return verdict;
}

Verdict LastTurnOverFirst(const Figures& f) {
  std::string last = "1";
  for (const std::string& x : f.Places(kChats, "ttft_p50_s")) {
    if (x.size() > last.size() || (x.size() == last.size() && x > last)) last = x;
  }
  const auto first_ttft = f.Median(kChats, kStateful, "1", "ttft_p50_s");
  const auto last_ttft = f.Median(kChats, kStateful, last, "ttft_p50_s");
  Verdict verdict;
  verdict.title = fmt::format("chats: TTFT of turn {} over turn 1, stateful", last);
  verdict.measured = Ratio(last_ttft, first_ttft);
  verdict.target = 1.5;
  verdict.at_most = true;
  verdict.how = Of("{:.3f} / {:.3f} s", last_ttft, first_ttft);
  return verdict;
}

Verdict ThirdOverUnlimited(const Figures& f) {
  const auto third = TurnsPerSecond(f, kPool, kThird);
  const auto all = TurnsPerSecond(f, kPool, kUnlimited);
  Verdict verdict;
  verdict.title = "pool: turns/s, a third of the chats in the pool and disk over all in the pool";
  verdict.measured = Ratio(third, all);
  verdict.target = 0.8;
  verdict.how = Of("{:.2f} / {:.2f} turns/s", third, all);
  return verdict;
}

Verdict NextTurnOverPrefill(const Figures& f) {
  const auto next = f.Median(kRestart, kNextTurn, "", "ttft_p50_s");
  const auto full = f.Median(kRestart, kPrefill, "", "ttft_p50_s");
  Verdict verdict;
  verdict.title = "restart: TTFT of the next turn over a full prefill";
  verdict.measured = Ratio(next, full);
  verdict.target = 0.2;
  verdict.at_most = true;
  verdict.how = Of("{:.3f} / {:.3f} s", next, full);
  return verdict;
}

std::vector<FigureColumn> Columns() {
  return {{"turns", "turns"},
          {"failed", "failed"},
          {"turns/s", "turns_per_s", 1, 2},
          {"output tok/s", "output_tok_per_s", 1, 1},
          {"TTFT p50 s", "ttft_p50_s", 1, 3},
          {"TTFT p90 s", "ttft_p90_s", 1, 3},
          {"prompt tokens", "prompt_tokens"},
          {"prefilled", "prefilled_tokens"},
          {"cached %", "cached_share", 100, 1},
          {"from the pool %", "pool_share", 100, 1},
          {"from disk %", "disk_share", 100, 1},
          {"wall s", "wall_s", 1, 1},
          {"disk settled after s", "settle_s", 1, 1},
          {"others % of CPUs", "others_cpu_share", 100, 1},
          {"generator % of CPUs", "generator_cpu_share", 100, 2}};
}

}  // namespace

std::vector<Verdict> SessionVerdicts(const Figures& figures) {
  std::vector<Verdict> verdicts;
  const auto ran = [&](const char* part) { return !figures.Contestants(part).empty(); };
  if (ran(kChats)) {
    verdicts.push_back(StatefulOverStateless(figures, kChats));
    verdicts.push_back(LastTurnOverFirst(figures));
  }
  if (ran(kPool)) verdicts.push_back(ThirdOverUnlimited(figures));
  if (ran(kRestart)) verdicts.push_back(NextTurnOverPrefill(figures));
  return verdicts;
}

std::string SessionsReport(const Figures& figures) {
  std::string text = ReportHead("Chats of several turns", figures);
  text += VerdictTable(SessionVerdicts(figures));
  for (const char* part : {kChats, kDialogues, kPool, kRestart}) {
    const std::string table = ContestantTable(figures, part, Columns());
    if (table.empty()) continue;
    text += fmt::format("\n## {}\n\n{}", part, table);
    if (part == kRestart) continue;
    const std::string ttft =
        PlaceTable(figures, part, "turn", {"Median TTFT by turn, seconds:", "ttft_p50_s", 1, 3});
    const std::string prefilled = PlaceTable(
        figures, part, "turn", {"Tokens prefilled by turn, all users:", "prefilled_tokens"});
    text += "\n" + ttft + "\n" + prefilled;
  }
  return text;
}

}  // namespace ropeway
