#include "bench/load_figures.h"

#include <set>
#include <utility>

namespace ropeway {
namespace {

void AddDistribution(const char* name, const Distribution& times, const Figure& where,
                     Figures* figures) {
  if (times.count == 0) return;
  figures->Add(where, std::string(name) + "_p50_s", times.p50);
  figures->Add(where, std::string(name) + "_p90_s", times.p90);
  figures->Add(where, std::string(name) + "_p99_s", times.p99);
}

}  // namespace

void AddTimes(const std::vector<const RequestRecord*>& records, const Figure& where,
              Figures* figures) {
  std::vector<double> ttft;
  std::vector<double> itl;
  std::vector<double> latency;
  for (const RequestRecord* record : records) {
    if (!record->ok()) continue;
    if (record->ttft) ttft.push_back(*record->ttft);
    itl.insert(itl.end(), record->gaps.begin(), record->gaps.end());
    latency.push_back(record->latency);
  }
  figures->Add(where, "requests", static_cast<double>(latency.size()));
  AddDistribution("ttft", Describe(std::move(ttft)), where, figures);
  AddGaps(std::move(itl), where, figures);
  AddDistribution("latency", Describe(std::move(latency)), where, figures);
}

void AddGaps(std::vector<double> gaps, const Figure& where, Figures* figures) {
  figures->Add(where, "itl_samples", static_cast<double>(gaps.size()));
  AddDistribution("itl", Describe(std::move(gaps)), where, figures);
}

void AddLoadFigures(const std::vector<const RunResult*>& runs, int cpus, const Figure& where,
                    Figures* figures) {
  const Summary summary = Summarize(runs, {}, cpus);
  std::vector<const RequestRecord*> records;
  std::set<std::pair<const RunResult*, int64_t>> batches;
  double sizes = 0;
  double sized = 0;
  for (const RunResult* run : runs) {
    for (const RequestRecord& record : run->records) {
      records.push_back(&record);
      if (!record.ok()) continue;
      if (record.batch) batches.emplace(run, *record.batch);
      if (!record.batch_size) continue;
      sizes += static_cast<double>(*record.batch_size);
      ++sized;
    }
  }
  AddTimes(records, where, figures);
  figures->Add(where, "failed", static_cast<double>(summary.failed));
  figures->Add(where, "output_tok_per_s", summary.PerSecond(summary.output_tokens));
  figures->Add(where, "requests_per_s", summary.PerSecond(summary.succeeded));
  figures->Add(where, "prompt_tokens", static_cast<double>(summary.input_tokens));
  figures->Add(where, "output_tokens", static_cast<double>(summary.output_tokens));
  figures->Add(where, "wall_s", summary.wall_seconds);
  figures->Add(where, "generator_cpu_share", summary.cpu_share);
  if (!batches.empty()) figures->Add(where, "batches", static_cast<double>(batches.size()));
  if (sized > 0) figures->Add(where, "batch_size", sizes / sized);
}

}  // namespace ropeway
