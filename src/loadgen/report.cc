#include "loadgen/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

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
    text += fmt::format("{:<22}{} requests, of which one was sent {} times", "retries", s.retried,
                        s.most_tries);
    const Distribution& d = s.waited_to_promised;
    if (d.count > 0) {
      text += fmt::format("; they waited {:.2f} to {:.2f} of what they were told, {:.2f} at p50",
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

}  // namespace ropeway::loadgen
