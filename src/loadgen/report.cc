#include "loadgen/report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/words.h"

namespace ropeway::loadgen {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string MillisecondRow(const char* name, const Distribution& d) {
  if (d.count == 0) return "";
  return fmt::format("{:<22}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, d.mean * 1e3,
                     d.p50 * 1e3, d.p90 * 1e3, d.p99 * 1e3);
}

// A row per class that had requests.
std::string PhaseRows(const std::optional<ServerMetrics>& server) {
  if (!server) return "";
  std::string text = fmt::format("{:<22}", "server's mean (ms)");
  for (const char* phase : kPhases) text += fmt::format("{:>10}", phase);
  text += "\n";
  for (int i = 0; i < kNumPriorities; ++i) {
    const auto priority = static_cast<Priority>(i);
    if (server->Count(priority) <= 0) continue;
    text += fmt::format(
        "{:<22}", fmt::format("{} ({:.0f})", PriorityName(priority), server->Count(priority)));
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      const std::optional<double> mean = server->Mean(priority, phase);
      text += mean ? fmt::format("{:>10.2f}", *mean * 1e3) : fmt::format("{:>10}", "");
    }
    text += "\n";
  }
  return text + "\n";
}

OrderedJson PhasesJson(const std::optional<ServerMetrics>& server) {
  if (!server) return nullptr;
  OrderedJson json = OrderedJson::object();
  for (int i = 0; i < kNumPriorities; ++i) {
    const auto priority = static_cast<Priority>(i);
    if (server->Count(priority) <= 0) continue;
    OrderedJson* const one = &json[PriorityName(priority)];
    (*one)["count"] = server->Count(priority);
    for (size_t phase = 0; phase < kPhases.size(); ++phase) {
      const std::optional<double> mean = server->Mean(priority, phase);
      (*one)[kPhases[phase]] = mean ? OrderedJson(*mean) : OrderedJson(nullptr);
    }
  }
  return json;
}

std::string Errors(const Summary& s) {
  std::string text;
  for (const auto& [kind, count] : s.errors) {
    text += fmt::format("  {} x {}: {}\n", count, kind, s.first.at(kind));
  }
  return text;
}

std::string Tokens(const char* name, int64_t total, double rate, const Distribution& d) {
  return fmt::format("{:<22}{} ({:.1f}/s); {:.0f} to {:.0f} a request\n", name, total, rate, d.min,
                     d.max);
}

std::string RunLines(const Report& report) {
  if (report.runs.size() < 2) return "";
  std::string text;
  for (size_t i = 0; i < report.runs.size(); ++i) {
    const Summary& s = report.runs[i];
    text += fmt::format("run {}: {:.1f} output tok/s, {:.2f} requests/s, ", i + 1,
                        s.PerSecond(s.output_tokens), s.PerSecond(s.succeeded));
    if (s.ttft.count > 0) text += fmt::format("TTFT p50 {:.1f} ms, ", s.ttft.p50 * 1e3);
    text += fmt::format("e2e p50 {:.1f} ms, {} failed\n", s.e2e.p50 * 1e3, s.failed);
  }
  return text + "\n";
}

std::string Limits(const GoodputLimits& limits) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<double>& limit) {
    if (limit) text += fmt::format(" {} <= {:g} ms", name, *limit * 1e3);
  };
  add("TTFT", limits.ttft);
  add("TPOT", limits.tpot);
  add("e2e", limits.e2e);
  return text;
}

OrderedJson DistributionJson(const Distribution& d) {
  if (d.count == 0) return nullptr;
  return {{"count", d.count}, {"mean", d.mean}, {"min", d.min}, {"p50", d.p50},
          {"p90", d.p90},     {"p99", d.p99},   {"max", d.max}};
}

OrderedJson SummaryJson(const Summary& s, const GoodputLimits& limits) {
  OrderedJson json = {
      {"succeeded", s.succeeded},
      {"failed", s.failed},
      {"interrupted", s.interrupted},
      {"errors", s.errors},
      {"duration_s", s.wall_seconds},
      {"input_tokens", s.input_tokens},
      {"output_tokens", s.output_tokens},
      {"requests_with_estimated_tokens", s.estimated},
      {"requests_per_s", s.PerSecond(s.succeeded)},
      {"input_tokens_per_s", s.PerSecond(s.input_tokens)},
      {"output_tokens_per_s", s.PerSecond(s.output_tokens)},
      {"ttft_s", DistributionJson(s.ttft)},
      {"itl_s", DistributionJson(s.itl)},
      {"tpot_s", DistributionJson(s.tpot)},
      {"e2e_s", DistributionJson(s.e2e)},
      {"input_tokens_per_request", DistributionJson(s.input_lengths)},
      {"output_tokens_per_request", DistributionJson(s.output_lengths)},
      {"server_phase_means_s", PhasesJson(s.server)},
      {"total_batches",
       s.server && s.server->batches ? OrderedJson(*s.server->batches) : OrderedJson()},
      {"retried", s.retried},
      {"most_tries", s.most_tries},
      {"waited_to_promised", DistributionJson(s.waited_to_promised)},
      {"generator_cpu_s", s.cpu_seconds},
      {"generator_cpu_share", s.cpu_share}};
  if (limits.any()) {
    json["good_requests"] = s.good;
    json["good_requests_per_s"] = s.PerSecond(s.good);
  }
  return json;
}

}  // namespace

std::string ReportText(const Report& r) {
  const Summary& s = r.all;
  std::string text = fmt::format("{}{}, model {}\n{}; {}; {}\n", r.url, r.endpoint, r.model, r.load,
                                 r.work, r.answer);
  for (const std::string& note : r.notes) text += "note: " + note + "\n";
  text += "\n" + RunLines(r);
  text += fmt::format("{:<22}{} succeeded, {} failed", "requests", s.succeeded, s.failed);
  if (s.interrupted > 0) text += fmt::format(", {} interrupted", s.interrupted);
  text += "\n" + Errors(s);
  if (s.retried > 0) {
    text += fmt::format("{:<22}{} requests, each sent up to {} times", "retries", s.retried,
                        s.most_tries);
    const Distribution& d = s.waited_to_promised;
    if (d.count > 0) {
      text += fmt::format("; they waited {:.2f} to {:.2f} times their Retry-After, {:.2f} at p50",
                          d.min, d.max, d.p50);
    }
    text += "\n";
  }
  text += fmt::format("{:<22}{:.2f} s\n", "duration", s.wall_seconds);
  if (s.server && s.server->batches) {
    text += fmt::format("{:<22}{:.0f}\n", "total batches", *s.server->batches);
  }
  if (s.succeeded > 0) {
    text += fmt::format("{:<22}{:.2f} requests/s\n", "throughput", s.PerSecond(s.succeeded));
    text += Tokens("input tokens", s.input_tokens, s.PerSecond(s.input_tokens), s.input_lengths);
    text +=
        Tokens("output tokens", s.output_tokens, s.PerSecond(s.output_tokens), s.output_lengths);
    if (r.goodput.any()) {
      text += fmt::format("{:<22}{:.2f} requests/s: {} of {} within{}\n", "goodput",
                          s.PerSecond(s.good), s.good, s.succeeded + s.failed, Limits(r.goodput));
    }
    text += fmt::format("\n{:<22}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "mean", "p50", "p90",
                        "p99");
    text += MillisecondRow("time to first token", s.ttft);
    text += MillisecondRow("inter-token latency", s.itl);
    text += MillisecondRow("time per output token", s.tpot);
    text += MillisecondRow("end to end", s.e2e);
    text += "\n" + PhaseRows(s.server);
  }
  text += fmt::format("{:<22}{:.2f} % of {} CPUs ({:.3f} CPU seconds)\n", "generator's own CPU",
                      s.cpu_share * 100, r.cpus, s.cpu_seconds);
  return text;
}

std::string ReportJson(const Report& r) {
  OrderedJson runs = OrderedJson::array();
  for (const Summary& run : r.runs) runs.push_back(SummaryJson(run, r.goodput));
  const OrderedJson json = {
      {"url", r.url},     {"endpoint", r.endpoint}, {"model", r.model},
      {"load", r.load},   {"work", r.work},         {"answer", r.answer},
      {"notes", r.notes}, {"cpus", r.cpus},         {"all", SummaryJson(r.all, r.goodput)},
      {"runs", runs}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

namespace {

constexpr char kCsvHeader[] =
    "run_num,seq,status,batch_num,input_tokens,output_tokens,total_tokens,latency,ttft,"
    "tokens_per_sec,prompt,output_prompt,error,error_kind,due,tpot,tokens_estimated,"
    "queue_time,formation_time,prefill_time,decode_time,output_time\r\n";

std::string OrEmpty(const std::optional<double>& value) {
  return value ? fmt::format("{:.6f}", *value) : "";
}

void WriteRow(const RequestRecord& r, const std::string& prompt, std::ostream* out) {
  const std::string rate =
      r.ok() && r.latency > 0
          ? fmt::format("{:.3f}", static_cast<double>(r.output_tokens) / r.latency)
          : "";
  *out << fmt::format("{},{},{},{},{},{},{},{:.6f},{},{},", r.run_num, r.seq, r.status,
                      r.batch_num ? std::to_string(*r.batch_num) : "", r.input_tokens,
                      r.output_tokens, r.input_tokens + r.output_tokens, r.latency, OrEmpty(r.ttft),
                      rate)
       << base::CsvField(prompt) << ',' << base::CsvField(r.output) << ','
       << base::CsvField(r.error)
       << fmt::format(",{},{:.6f},{},{}", base::CsvField(r.error_kind), r.due,
                      OrEmpty(TimePerOutputToken(r)), r.estimated ? 1 : 0);
  for (const std::optional<double>& time : r.phases) *out << ',' << OrEmpty(time);
  *out << "\r\n";
}

// Seconds to the microsecond.
double Rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

template <typename T>
OrderedJson OrNull(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson RecordJson(const RequestRecord& r, const std::string& prompt) {
  OrderedJson gaps = OrderedJson::array();
  for (const float gap : r.gaps) gaps.push_back(Rounded(gap));
  OrderedJson times = OrderedJson::object();
  for (size_t i = 0; i < kPhases.size(); ++i) {
    if (r.phases[i]) times[kPhases[i]] = Rounded(*r.phases[i]);
  }
  return {{"run", r.run_num},
          {"seq", r.seq},
          {"conversation", r.conversation},
          {"turn", r.turn},
          {"status", r.status},
          {"error_kind", r.error_kind},
          {"error", r.error},
          {"due", Rounded(r.due)},
          {"latency", Rounded(r.latency)},
          {"ttft", r.ttft ? OrderedJson(Rounded(*r.ttft)) : OrderedJson(nullptr)},
          {"gaps", std::move(gaps)},
          {"input_tokens", r.input_tokens},
          {"output_tokens", r.output_tokens},
          {"cached_tokens", OrNull(r.cached_tokens)},
          {"estimated", r.estimated},
          {"batch_num", OrNull(r.batch_num)},
          {"batch", OrNull(r.batch)},
          {"batch_size", OrNull(r.batch_size)},
          {"times", std::move(times)},
          {"tries", r.tries},
          {"promised", OrNull(r.promised)},
          {"waited", Rounded(r.waited)},
          {"prompt", prompt},
          {"output", r.output}};
}

void WriteLine(const OrderedJson& json, std::ostream* out) {
  *out << json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
}

}  // namespace

void WriteCsv(const std::vector<RunResult>& runs, const PromptOf& prompt_of, std::ostream* out) {
  *out << kCsvHeader;
  for (const RunResult& run : runs) {
    for (const RequestRecord& record : run.records) WriteRow(record, prompt_of(record), out);
  }
}

void WriteRecords(const std::vector<RunResult>& runs, const PromptOf& prompt_of,
                  std::ostream* out) {
  for (size_t i = 0; i < runs.size(); ++i) {
    WriteLine({{"run", i + 1},
               {"begin", base::ToSeconds(runs[i].begin)},
               {"wall_s", runs[i].wall_seconds},
               {"cpu_s", runs[i].cpu_seconds},
               {"interrupted", runs[i].interrupted}},
              out);
    for (const RequestRecord& record : runs[i].records) {
      WriteLine(RecordJson(record, prompt_of(record)), out);
    }
  }
}

}  // namespace ropeway::loadgen
