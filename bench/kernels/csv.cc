#include "bench/kernels/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "base/csv_field.h"

namespace ropeway {
namespace {

constexpr std::string_view kColumns =
    "cpu,isa,threads,barrier_ns,sweep_gb_per_s,section,model,name,type,k,n,count,rows,sequences,"
    "context,dealt,"
    "repetitions,phases,median_us,min_us,max_us,spread,gops,gb_per_s,bound,share\n";

// Up to `sweep_gb_per_s`.
std::string Setup(const Setting& setting, const Conditions& conditions) {
  return fmt::format("{},{},{},{:.0f},{:.3f},", CsvField(setting.cpu), setting.isa, setting.threads,
                     conditions.barrier_ns, conditions.sweep / 1e9);
}

// From `repetitions` to `spread`, which is (largest - smallest) / median.
std::string Times(const Timing& t) {
  return fmt::format("{},{},{:.3f},{:.3f},{:.3f},{:.4f},", t.repetitions, t.phases, t.median * 1e6,
                     t.least * 1e6, t.most * 1e6, (t.most - t.least) / t.median);
}

std::string Speeds(const Work& work, const Timing& timing) {
  return fmt::format("{:.3f},{:.3f},", (work.int8_ops + work.f32_ops) / timing.median / 1e9,
                     work.bytes / timing.median / 1e9);
}

std::string Share(const Reached& reached) {
  return fmt::format("{},{:.4f}\n", BoundName(reached.bound), reached.share);
}

std::string PeakLine(const Setting& setting, const PeakResult& peak) {
  const bool sweep = peak.what == "sweep";
  const std::string rate = fmt::format("{:.3f}", peak.per_second() / 1e9);
  return fmt::format("{},{},{},{:.0f},,peak,,{},,,,,,,,,", CsvField(setting.cpu), peak.isa,
                     peak.threads, peak.barrier_ns, peak.what) +
         Times(peak.timing) + fmt::format("{},{},,\n", sweep ? "" : rate, sweep ? rate : "");
}

std::string ProductLine(const Setting& setting, std::string_view section, const MatMulResult& r) {
  return Setup(setting, r.conditions) +
         fmt::format("{},{},{},{},{},{},{},{},,,{},", section, CsvField(r.model), r.shape.label,
                     WeightTypeName(r.shape.type), r.shape.k, fmt::join(r.shape.n, "+"),
                     r.shape.count, r.rows, r.by_rows ? "rows" : "columns") +
         Times(r.timing) + Speeds(r.work, r.timing) + Share(r.reached);
}

std::string WeightedLine(const Setting& setting, const WeightedShare& w) {
  return fmt::format("{},{},{},,,", CsvField(setting.cpu), setting.isa, setting.threads) +
         fmt::format("weighted,{},{},,,,,{},,,,,,,,,,{:.3f},,peak,{:.4f}\n", CsvField(w.model),
                     CsvField(NameOf(w)), w.rows, w.ops_per_second / 1e9, w.peak_share);
}

std::string AttentionLine(const Setting& setting, const AttentionResult& r) {
  const AttentionCase& c = r.problem;
  return Setup(setting, r.conditions) +
         fmt::format("attention,{},{},{},{},{}x{},{},{},{},{},,", CsvField(r.model),
                     c.rows == 1 ? "decode" : "prefill", KvTypeName(r.shape.kv_type),
                     r.shape.head_dim, r.shape.num_kv_heads, r.shape.group, r.shape.num_layers,
                     c.rows, c.sequences, c.context) +
         Times(r.timing) + Speeds(r.work, r.timing) + Share(r.reached);
}

}  // namespace

std::string FormatCsv(const Results& results) {
  const Setting& setting = results.setting;
  std::string text(kColumns);
  for (const PeakResult& peak : results.peaks) text += PeakLine(setting, peak);
  for (const MatMulResult& r : results.products) text += ProductLine(setting, "matmul", r);
  for (const WeightedShare& share : WeightedShares(results)) {
    text += WeightedLine(setting, share);
  }
  for (const MatMulResult& r : results.logits) text += ProductLine(setting, "lm-head", r);
  for (const AttentionResult& r : results.attention) text += AttentionLine(setting, r);
  return text;
}

}  // namespace ropeway
