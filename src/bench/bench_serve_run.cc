#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "base/system.h"
#include "bench/bench_serve_command.h"
#include "bench/cpu_time.h"
#include "bench/csv_writer.h"
#include "bench/load_options.h"
#include "bench/load_runner.h"
#include "bench/metrics_page.h"
#include "bench/report.h"
#include "bench/server_probe.h"
#include "bench/workload.h"

namespace ropeway {
namespace {

// Open loops without --max-concurrency stop here, where descriptors and ports become the limit.
constexpr int kMaxInFlight = 10'000;

int Fail(const std::string& sentence) {
  std::fputs(fmt::format("ropeway: {}\n", sentence).c_str(), stderr);
  return 1;
}

// The command with its parts; one object a call of RunBenchServe.
class BenchServe {
 public:
  BenchServe(LoadOptions options, std::unique_ptr<HttpClient> client, ServerFacts facts,
             Workload work)
      : options_(std::move(options)),
        client_(std::move(client)),
        facts_(std::move(facts)),
        work_(std::move(work)),
        progress_(stderr, isatty(STDERR_FILENO) != 0) {
    shape_.model = facts_.model;
    shape_.chat = options_.chat;
    shape_.stream = options_.flags.stream;
    shape_.ignore_eos = facts_.ignore_eos;
    shape_.temperature = options_.flags.temperature;
    shape_.priority = options_.priority;
  }

  // All runs. False: Ctrl-C ended them.
  bool Run() {
    if (options_.flags.warmup > 0 && !WarmUp()) return false;
    std::optional<ServerPhases> before = ServerPhasesNow();
    for (int run = 1; run <= options_.flags.runs; ++run) {
      LoadShape load = Shape(run);
      load.keep_text = !options_.flags.csv.empty();
      runs_.push_back(Runner(run, std::move(load)).Run(run, fmt::format("run {}", run)));
      if (before) {  // Else the server tells none.
        std::optional<ServerPhases> after = ServerPhasesNow();
        runs_.back().phases = Between(before, after);
        before = std::move(after);
      }
      if (runs_.back().interrupted) return false;
    }
    return true;
  }

  Report MakeReport() const {
    Report report;
    const BenchServeFlags& f = options_.flags;
    report.url = options_.url.Text();
    report.endpoint = Path();
    report.model = facts_.model;
    report.load = LoadText();
    report.work = work_.Describe();
    report.answer =
        fmt::format("{}, {}, temperature {}", f.stream ? "streamed" : "not streamed",
                    facts_.ignore_eos ? "end tokens ignored" : "ends at end tokens", f.temperature);
    if (!f.priority.empty()) report.answer += ", priority " + f.priority;
    report.notes = facts_.notes;
    report.goodput = options_.goodput;
    report.cpus = MachineCpus();
    std::vector<const RunResult*> all;
    for (const RunResult& run : runs_) {
      all.push_back(&run);
      report.runs.push_back(Summarize({&run}, options_.goodput, report.cpus));
    }
    report.all = Summarize(all, options_.goodput, report.cpus);
    AddNotes(&report);
    return report;
  }

  void WriteRows(std::ostream* out) const {
    WriteCsv(
        runs_, [this](int run, int seq) { return work_.Make(run, seq).Shown(); }, options_.priority,
        out);
  }

 private:
  std::string Path() const { return options_.chat ? "/chat/completions" : "/completions"; }

  bool open_loop() const { return !work_.Arrivals(1).empty(); }

  std::optional<ServerPhases> ServerPhasesNow() const {
    return ReadServerPhases(
        FetchMetrics(options_.url, options_.flags.api_key, options_.flags.insecure));
  }

  LoadShape Shape(int run) const {
    const BenchServeFlags& f = options_.flags;
    LoadShape load;
    load.count = work_.count();
    load.arrivals = work_.Arrivals(run);
    load.timeout = f.timeout;
    load.concurrency = load.arrivals.empty() ? std::max(1, f.users) : kMaxInFlight;
    if (f.max_concurrency > 0) load.concurrency = std::min(load.concurrency, f.max_concurrency);
    return load;
  }

  LoadRunner Runner(int run, LoadShape load) {
    return LoadRunner(
        client_.get(), Path(), std::move(load),
        [this, run](int seq) {
          const auto seed = options_.flags.seed + static_cast<uint64_t>(seq);
          return RequestBody(shape_, work_.Make(run, seq), seed);
        },
        options_.flags.progress ? &progress_ : nullptr);
  }

  // A closed loop, whatever follows, with prompts of its own. False: Ctrl-C ended it.
  bool WarmUp() {
    LoadShape load = Shape(0);
    load.count = options_.flags.warmup;
    load.arrivals.clear();
    load.concurrency = std::min(load.concurrency, std::max(load.count, 1));
    return !Runner(0, std::move(load)).Run(0, "warm-up").interrupted;
  }

  std::string LoadText() const {
    const BenchServeFlags& f = options_.flags;
    std::string text;
    if (!open_loop()) {
      const int users = std::max(1, f.users);
      text = fmt::format("closed loop, {} user{}", users, users == 1 ? "" : "s");
    } else if (f.request_rate > 0) {
      text = fmt::format("open loop, {} requests/s (Poisson)", f.request_rate);
    } else {
      text = fmt::format("open loop, the trace's arrivals at {}x", f.trace_speed);
    }
    if (f.max_concurrency > 0) text += fmt::format(", at most {} in flight", f.max_concurrency);
    return text + fmt::format("; {} requests a run, {} run{}, seed {}", work_.count(), f.runs,
                              f.runs == 1 ? "" : "s", f.seed);
  }

  void AddNotes(Report* report) const {
    const Summary& all = report->all;
    if (all.estimated > 0) {
      report->notes.push_back(
          fmt::format("The server counted no tokens for {} requests: their output tokens are the "
                      "pieces of text that arrived, their input tokens unknown (0).",
                      all.estimated));
    }
    if (all.cpu_share > kMaxCpuShare) {
      report->notes.push_back(fmt::format(
          "The load generator itself took {:.1f} % of the machine: above {:.0f} % it slows down a "
          "server on the same machine. Run it on another one, or with less load.",
          all.cpu_share * 100, kMaxCpuShare * 100));
    }
  }

  const LoadOptions options_;
  const std::unique_ptr<HttpClient> client_;
  const ServerFacts facts_;
  const Workload work_;
  RequestShape shape_;
  Progress progress_;
  std::vector<RunResult> runs_;
};

// Opens a file for a result before there is one: better to fail now than after the load.
bool OpenFile(const std::string& path, std::ofstream* file) {
  if (!path.empty()) file->open(path, std::ios::binary | std::ios::trunc);
  return path.empty() || file->is_open();
}

int WriteResults(const BenchServe& bench, const Report& report, std::ofstream* csv,
                 std::ofstream* json) {
  std::fputs(ReportText(report).c_str(), stdout);
  if (csv->is_open()) bench.WriteRows(csv);
  if (json->is_open()) *json << ReportJson(report);
  csv->flush();
  json->flush();
  if (!csv->good() || !json->good() || std::fflush(stdout) != 0) {
    return Fail("The results could not be written.");
  }
  return report.all.succeeded > 0 ? 0 : 1;
}

}  // namespace

int RunBenchServe(const BenchServeFlags& flags) {
  auto options = CheckFlags(flags);
  if (!options.ok()) return Fail(options.status().message());
  std::ofstream csv;
  std::ofstream json;
  if (!OpenFile(flags.csv, &csv)) return Fail(fmt::format("'{}' cannot be written.", flags.csv));
  if (!OpenFile(flags.json, &json)) return Fail(fmt::format("'{}' cannot be written.", flags.json));
  RaiseDescriptorLimit();

  auto client = HttpClient::Open(options->url, flags.api_key, flags.insecure);
  if (!client.ok()) return Fail(client.status().message());
  auto facts = ProbeServer(**client, *options);
  if (!facts.ok()) return Fail(facts.status().message());
  auto work = Workload::Open(*options, *facts);
  if (!work.ok()) return Fail(work.status().message());

  BenchServe bench(*std::move(options), *std::move(client), *std::move(facts), *std::move(work));
  if (!bench.Run()) std::fputs("ropeway: Interrupted; the figures are of what ended.\n", stderr);
  return WriteResults(bench, bench.MakeReport(), &csv, &json);
}

}  // namespace ropeway
