#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "base/system.h"
#include "base/words.h"
#include "loadgen/load_options.h"
#include "loadgen/load_runner.h"
#include "loadgen/report.h"
#include "loadgen/server_probe.h"
#include "loadgen/workload.h"

namespace ropeway::loadgen {
namespace {

// Open loops without --max-concurrency stop here, where descriptors and ports become the limit.
constexpr int kMaxInFlight = 10'000;

using Clients = std::vector<std::unique_ptr<net::HttpClient>>;

// The command with its parts; one object per call of RunBenchServe.
class BenchServe {
 public:
  BenchServe(LoadOptions options, Clients clients, ServerFacts facts, Workload work)
      : options_(std::move(options)),
        clients_(std::move(clients)),
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

  // All runs. Returns false if Ctrl-C ended them.
  bool Run() {
    if (options_.flags.warmup > 0 && !WarmUp()) return false;
    std::optional<ServerMetrics> before = ServerMetricsNow();
    for (int run = 1; run <= options_.flags.runs; ++run) {
      LoadPlan plan = Plan(run);
      plan.keep_text = !options_.flags.csv.empty() || !options_.flags.records.empty();
      runs_.push_back(RunLoad(plan, run, progress(), fmt::format("run {}", run)));
      if (before) {  // Otherwise the server has none.
        std::optional<ServerMetrics> after = ServerMetricsNow();
        runs_.back().server = Between(before, after);
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

  void WriteFiles(std::ofstream* csv, std::ofstream* records) const {
    const PromptOf prompt_of = [this](const RequestRecord& record) { return work_.Shown(record); };
    if (csv->is_open()) WriteCsv(runs_, prompt_of, csv);
    if (records->is_open()) WriteRecords(runs_, prompt_of, records);
  }

 private:
  std::string Path() const { return options_.chat ? "/chat/completions" : "/completions"; }

  bool open_loop() const { return !work_.Arrivals(1).empty(); }

  std::optional<ServerMetrics> ServerMetricsNow() const {
    return ReadServerMetrics(
        FetchMetrics(options_.url, options_.flags.api_key, options_.flags.insecure));
  }

  Progress* progress() { return options_.flags.progress ? &progress_ : nullptr; }

  LoadPlan Plan(int run) const {
    const BenchServeFlags& f = options_.flags;
    LoadPlan plan;
    plan.count = work_.count();
    plan.arrivals = work_.Arrivals(run);
    plan.concurrency = plan.arrivals.empty() ? std::max(1, f.users) : kMaxInFlight;
    if (f.max_concurrency > 0) plan.concurrency = std::min(plan.concurrency, f.max_concurrency);
    plan.timeout = f.timeout;
    plan.retries = f.retries;
    plan.duration = f.duration;
    plan.think_time = f.think_time;
    plan.user_interval = f.user_interval;
    plan.seed = f.seed;
    plan.path = Path();
    plan.turns_of = [this](int seq) { return work_.TurnsOf(seq); };
    plan.body_of = [this, run](int seq, int turn, const std::vector<std::string>& answers) {
      const auto seed = options_.flags.seed + static_cast<uint64_t>(seq);
      return RequestBody(shape_, work_.Make(run, seq, turn, answers), seed);
    };
    plan.client_of = [this](int seq) {
      const auto client = static_cast<size_t>(work_.ClientOf(seq));
      return clients_[clients_.size() == 1 ? 0 : client].get();
    };
    return plan;
  }

  // A closed loop with prompts of its own. Returns false if Ctrl-C ended it.
  bool WarmUp() {
    LoadPlan plan = Plan(0);
    plan.count = options_.flags.warmup;
    plan.arrivals.clear();
    plan.duration = 0;
    plan.concurrency = std::min(plan.concurrency, plan.count);
    return !RunLoad(plan, 0, progress(), "warm-up").interrupted;
  }

  std::string LoadText() const {
    const BenchServeFlags& f = options_.flags;
    std::string text;
    if (!open_loop()) {
      const int users = std::max(1, f.users);
      text = "closed loop, " + base::Counted(users, "user");
    } else if (f.request_rate > 0) {
      text = fmt::format("open loop, {} requests/s (Poisson)", f.request_rate);
    } else {
      text = fmt::format("open loop, the trace's arrivals at {}x", f.trace_speed);
    }
    if (f.max_concurrency > 0) text += fmt::format(", at most {} in flight", f.max_concurrency);
    return text + fmt::format("; {} a run, {}, seed {}", base::Counted(work_.count(), "request"),
                              base::Counted(f.runs, "run"), f.seed);
  }

  void AddNotes(Report* report) const {
    const Summary& all = report->all;
    if (all.estimated > 0) {
      report->notes.push_back(
          fmt::format("The server counted no tokens for {} requests: each piece of text that "
                      "arrived counts as one output token, and their input tokens are unknown (0).",
                      all.estimated));
    }
    if (all.cpu_share > kMaxCpuShare) {
      report->notes.push_back(
          fmt::format("The load generator itself used {:.1f} % of this machine's CPUs: above "
                      "{:.0f} % it slows down a "
                      "server on the same machine. Run it on another machine, or with less load.",
                      all.cpu_share * 100, kMaxCpuShare * 100));
    }
  }

  const LoadOptions options_;
  const Clients clients_;  // One, or one per client of the trace.
  const ServerFacts facts_;
  const Workload work_;
  RequestShape shape_;
  Progress progress_;
  std::vector<RunResult> runs_;
};

// Opens a file for a result before the load, so that it fails now rather than after it.
Status OpenFile(const std::string& path, std::ofstream* file) {
  if (path.empty()) return {};
  file->open(path, std::ios::binary | std::ios::trunc);
  if (file->is_open()) return {};
  return InvalidArgument(fmt::format("Cannot write '{}'.", path));
}

// A client for each key of --client-keys, or the one of --api-key.
StatusOr<Clients> OpenClients(const LoadOptions& options) {
  std::vector<std::string> keys;
  if (options.flags.client_keys.empty()) {
    keys.push_back(options.flags.api_key);
  } else {
    std::ifstream file(options.flags.client_keys);
    for (std::string key; std::getline(file, key);) keys.push_back(key);
    if (keys.empty()) {
      return InvalidArgument(fmt::format("--client-keys: '{}' contains no keys, or cannot be read.",
                                         options.flags.client_keys),
                             "client-keys");
    }
  }
  Clients clients;
  for (const std::string& key : keys) {
    auto client = net::HttpClient::Open(options.url, key, options.flags.insecure);
    if (!client.ok()) return client.status();
    clients.push_back(*std::move(client));
  }
  return clients;
}

Status CheckClients(const LoadOptions& options, const Clients& clients, const Workload& work) {
  const auto keys = static_cast<int>(clients.size());
  if (options.flags.client_keys.empty() || work.clients() <= keys) return {};
  return InvalidArgument(
      fmt::format("--client-keys has {} keys, but the trace has {} clients.", keys, work.clients()),
      "client-keys");
}

Status RunChecked(const BenchServeFlags& flags, int* code) {
  auto options = CheckFlags(flags);
  if (!options.ok()) return options.status();
  std::ofstream csv;
  std::ofstream json;
  std::ofstream records;
  for (const auto& [path, file] : {std::pair(&flags.csv, &csv), std::pair(&flags.json, &json),
                                   std::pair(&flags.records, &records)}) {
    if (Status status = OpenFile(*path, file); !status.ok()) return status;
  }
  base::RaiseDescriptorLimit();

  auto clients = OpenClients(*options);
  if (!clients.ok()) return clients.status();
  auto facts = ProbeServer(*clients->front(), *options);
  if (!facts.ok()) return facts.status();
  auto work = Workload::Open(*options, *facts);
  if (!work.ok()) return work.status();
  if (Status status = CheckClients(*options, *clients, *work); !status.ok()) return status;

  BenchServe bench(*std::move(options), *std::move(clients), *std::move(facts), *std::move(work));
  if (!bench.Run()) {
    std::fputs("ropeway: Interrupted; the report covers the requests that ended.\n", stderr);
  }
  const Report report = bench.MakeReport();
  std::fputs(ReportText(report).c_str(), stdout);
  bench.WriteFiles(&csv, &records);
  if (json.is_open()) json << ReportJson(report);
  for (std::ofstream* file : {&csv, &json, &records}) {
    file->flush();
    if (!file->good()) return {StatusCode::kUnavailable, "The results could not be written."};
  }
  if (std::fflush(stdout) != 0) {
    return {StatusCode::kUnavailable, "The results could not be written."};
  }
  *code = report.all.succeeded > 0 ? 0 : 1;
  return {};
}

}  // namespace

int RunBenchServe(const BenchServeFlags& flags) {
  int code = 1;
  if (const Status status = RunChecked(flags, &code); !status.ok()) {
    std::fputs(fmt::format("ropeway: {}\n", status.message()).c_str(), stderr);
    return 1;
  }
  return code;
}

}  // namespace ropeway::loadgen
