// bench_load: drives one server with a closed loop, prints one JSON line of figures, and writes a
// CSV of all requests where asked. bench/compare.py alternates it between servers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "load_generator.h"

namespace {

using ropeway::bench::LoadOptions;
using ropeway::bench::LoadRecord;
using ropeway::bench::LoadReport;

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

nlohmann::json Summary(const LoadReport& report) {
  int64_t input = 0;
  int64_t output = 0;
  int errors = 0;
  std::string first_error;
  std::vector<double> ttft;
  std::vector<double> gaps;
  std::vector<double> latency;
  for (const LoadRecord& r : report.records) {
    input += r.input_tokens;
    output += r.output_tokens;
    if (!r.error.empty()) {
      if (++errors == 1) first_error = r.error;
      continue;
    }
    ttft.push_back(r.ttft);
    latency.push_back(r.latency);
    gaps.insert(gaps.end(), r.gaps.begin(), r.gaps.end());
  }
  return {{"requests", report.records.size()},
          {"errors", errors},
          {"first_error", first_error},
          {"wall_s", report.wall_seconds},
          {"input_tokens", input},
          {"output_tokens", output},
          {"output_tok_s", static_cast<double>(output) / report.wall_seconds},
          {"ttft_p50_s", Percentile(ttft, 0.5)},
          {"ttft_p99_s", Percentile(ttft, 0.99)},
          {"itl_p50_s", Percentile(gaps, 0.5)},
          {"itl_p99_s", Percentile(gaps, 0.99)},
          {"latency_p50_s", Percentile(latency, 0.5)},
          {"generator_cpu_share", report.cpu_seconds / report.wall_seconds}};
}

void WriteCsv(const std::string& path, const LoadReport& report) {
  std::ofstream out(path);
  out << "seq,status,input_tokens,output_tokens,start_s,ttft_s,latency_s,error\n";
  for (const LoadRecord& r : report.records) {
    std::string error = r.error;
    std::replace(error.begin(), error.end(), '"', '\'');
    out << fmt::format("{},{},{},{},{:.6f},{:.6f},{:.6f},\"{}\"\n", r.seq, r.status, r.input_tokens,
                       r.output_tokens, r.start, r.ttft, r.latency, error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  LoadOptions options;
  std::string csv;
  CLI::App app("Closed-loop load on an OpenAI-compatible server");
  app.add_option("--host", options.host, "Address of the server");
  app.add_option("--port", options.port, "Its port");
  app.add_option("--users", options.users, "Requests in flight")->check(CLI::Range(1, 1024));
  app.add_option("--requests", options.requests, "Requests in all")->check(CLI::Range(1, 1000000));
  app.add_option("--prompt-tokens", options.prompt_tokens, "Tokens of each prompt");
  app.add_option("--output-tokens", options.output_tokens, "Tokens of each answer");
  app.add_option("--seed", options.seed, "Seed of the random prompts");
  app.add_option("--csv", csv, "Write one line per request to this file");
  CLI11_PARSE(app, argc, argv);
  const LoadReport report = RunClosedLoop(options);
  if (!csv.empty()) WriteCsv(csv, report);
  const nlohmann::json summary = Summary(report);
  std::puts(summary.dump().c_str());
  return summary["errors"] == 0 ? 0 : 1;
}
