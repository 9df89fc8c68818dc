#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/bench_pieces.h"
#include "bench/bench_priorities_command.h"
#include "bench/deal.h"
#include "bench/load_figures.h"
#include "bench/priorities_report.h"
#include "bench/put_load.h"
#include "bench/random_prompts.h"
#include "bench/service.h"
#include "cli/output.h"

namespace ropeway {
namespace {

constexpr ServiceWeights kWork = {.input = 1, .output = 1};
constexpr int kMaxInFlight = 10'000;
constexpr int kEndless = 100'000;   // Requests of a background, at most.
constexpr int kUnloadedOutput = 8;  // Tokens; the time to the first does not depend on them.
constexpr double kLeadSeconds = 3;  // The background's, until it is at full work.
constexpr int kLlamaPart = 3;       // It gets so much less of each load: it is slower.
// Each load of one server has prompts of its own.
enum RunNumber { kCapacityRun = 1, kUnloadedRun, kOpenRun, kAloneRun, kLowRun, kUrgentRun };

// With --quick, at most.
constexpr int kQuickCapacity = 64;
constexpr int kQuickUnloaded = 40;
constexpr int kQuickOpen = 150;
constexpr int kQuickUrgent = 120;
constexpr double kQuickAloneSeconds = 12;
constexpr int kQuickTexts = 6;

template <typename Measured>
auto Timed(const Figure& where, const Measured& measured) {
  const Timing timing(where);
  return measured();
}

class PrioritiesBench {
 public:
  explicit PrioritiesBench(const BenchPrioritiesFlags& flags)
      : flags_(MadeQuick(flags)), pieces_(flags_.pieces) {}

  Status Run() {
    if (Status status = pieces_.Open(); !status.ok()) return status;
    for (int round = 0; round < flags_.pieces.rounds; ++round) {
      for (const std::string& contestant : Contestants()) {
        if (Status status = All(contestant); !status.ok()) return status;
      }
    }
    return pieces_.CheckContestants();
  }

  std::string Report() { return PrioritiesReport(*pieces_.figures(), flags_.limit_factor); }

 private:
  static BenchPrioritiesFlags MadeQuick(BenchPrioritiesFlags flags) {
    if (!flags.pieces.quick) return flags;
    flags.capacity_requests = std::min(flags.capacity_requests, kQuickCapacity);
    flags.unloaded_requests = std::min(flags.unloaded_requests, kQuickUnloaded);
    flags.open_requests = std::min(flags.open_requests, kQuickOpen);
    flags.urgent_requests = std::min(flags.urgent_requests, kQuickUrgent);
    flags.alone_seconds = std::min(flags.alone_seconds, kQuickAloneSeconds);
    flags.texts = std::min(flags.texts, kQuickTexts);
    return flags;
  }

  // The peer comes last: the loads are made for our capacity.
  std::vector<std::string> Contestants() const {
    if (!flags_.pieces.base_url.empty()) return {priorities::kServer};
    std::vector<std::string> names = {priorities::kRopeway};
    if (!flags_.pieces.llama_server.empty() && !flags_.pieces.quick) {
      names.emplace_back(priorities::kLlama);
    }
    return names;
  }

  StatusOr<TestedServer> StartFor(const std::string& contestant) const {
    if (contestant == priorities::kServer) return pieces_.Reach();
    if (contestant == priorities::kLlama) {
      const int longest = flags_.prompt_tokens + flags_.output_tokens + 16;
      return pieces_.StartLlama(flags_.places, (longest + 255) / 256 * 256);
    }
    return pieces_.StartRopeway({});
  }

  // The capacity and what is below it on a server as it is by default, what is saturated on one
  // with few places, where the classes meet.
  Status All(const std::string& contestant) {
    if (!pieces_.Wants(contestant)) return {};
    auto server = StartFor(contestant);
    if (!server.ok()) return server.status();
    const bool peer = contestant == priorities::kLlama;
    using Part = Status (PrioritiesBench::*)(const TestedServer&, bool, const Figure&);
    const std::vector<std::pair<const char*, Part>> parts = {
        {priorities::kCapacity, &PrioritiesBench::Capacity},
        {priorities::kUnloaded, &PrioritiesBench::Unloaded},
        {priorities::kOpen, &PrioritiesBench::Open},
        {priorities::kAlone, &PrioritiesBench::Alone},
        {priorities::kUrgent, &PrioritiesBench::Urgent}};
    for (const auto& [name, part] : parts) {
      if (std::string_view(name) == priorities::kAlone && contestant == priorities::kRopeway) {
        server->child.reset();
        server = pieces_.StartRopeway({"--max-num-seqs", std::to_string(flags_.places)});
        if (!server.ok()) return server.status();
      }
      const Status status =
          pieces_.Measure(name, contestant, [&, part = part](const Figure& where) -> Status {
            if (Status s = (this->*part)(*server, peer, where); !s.ok()) return s;
            if (!server->command.empty()) pieces_.figures()->Add(where, "command", server->command);
            return {};
          });
      if (!status.ok()) return status;
    }
    server->child.reset();
    if (peer || low_texts_.empty()) return {};
    return CompareTexts(contestant);
  }

  Asked Ask(Priority priority) const {
    return {flags_.prompt_tokens, flags_.output_tokens, priority};
  }

  Load MakeLoad(int run_num, int count) const {
    Load load;
    load.shape.count = count;
    load.shape.timeout = flags_.pieces.timeout;
    load.seed = flags_.pieces.seed;
    load.run_num = run_num;
    load.temperature = flags_.temperature;
    load.asked = [this](int) { return Ask(Priority::kMedium); };
    return load;
  }

  // Of random classes in fixed parts, at random times.
  Load MakeOpenLoad(int run_num, int count, double rate, const std::vector<double>& shares) const {
    Load load = MakeLoad(run_num, count);
    load.shape.arrivals = PoissonArrivals(flags_.pieces.seed, run_num, count, rate);
    load.shape.concurrency = kMaxInFlight;
    load.asked = [this, kinds = DealKinds(Mix64(flags_.pieces.seed, static_cast<uint64_t>(run_num)),
                                          count, shares)](int seq) {
      return Ask(static_cast<Priority>(kinds[static_cast<size_t>(seq)]));
    };
    return load;
  }

  // A closed loop of class low that keeps all places taken and a queue behind them.
  Load MakeLow(int run_num) const {
    Load load = MakeLoad(run_num, kEndless);
    load.shape.concurrency = 2 * flags_.places;
    load.shape.keep_text = true;
    load.asked = [this](int) { return Ask(Priority::kLow); };
    return load;
  }

  int ForPeer(int count, bool peer) const { return peer ? std::max(1, count / kLlamaPart) : count; }

  // The figures of all requests, and of each class at x.
  void AddByClass(const RunResult& run, const Load& load, const Figure& where) {
    for (const Priority cls : {Priority::kHigh, Priority::kMedium, Priority::kLow}) {
      std::vector<const RequestRecord*> records;
      for (const RequestRecord& record : run.records) {
        if (load.asked(record.seq).priority == cls) records.push_back(&record);
      }
      if (records.empty()) continue;
      Figure at = where;
      at.x = PriorityName(cls);
      AddTimes(records, at, pieces_.figures());
    }
  }

  Status Capacity(const TestedServer& server, bool peer, const Figure& where) {
    Load load = MakeLoad(kCapacityRun, ForPeer(flags_.capacity_requests, peer));
    load.shape.concurrency = 2 * flags_.places;
    const auto run = Timed(where, [&] { return PutLoad(server.target(), load); });
    if (!run.ok()) return run.status();
    Figures* const figures = pieces_.figures();
    AddLoadFigures({&*run}, MachineCpus(), where, figures);
    const double work = SteadyRate(run->records, kWork);
    const double capacity = work / (flags_.prompt_tokens + flags_.output_tokens);
    figures->Add(where, "work_per_s", work);
    figures->Add(where, "capacity_per_s", capacity);
    figures->Add(
        where, "load",
        fmt::format("prompts of {} tokens, {} out; {} requests, {} in flight", flags_.prompt_tokens,
                    flags_.output_tokens, load.shape.count, load.shape.concurrency));
    // A peer gets the load that we get.
    if (!peer || capacity_ <= 0) capacity_ = capacity;
    if (capacity_ > 0) return {};
    return {StatusCode::kUnavailable, "no capacity could be measured"};
  }

  Status Unloaded(const TestedServer& server, bool peer, const Figure& where) {
    Load load = MakeLoad(kUnloadedRun, ForPeer(flags_.unloaded_requests, peer));
    load.shape.concurrency = 1;
    load.asked = [this](int) {
      return Asked{flags_.prompt_tokens, std::min(kUnloadedOutput, flags_.output_tokens),
                   Priority::kHigh};
    };
    const auto run = Timed(where, [&] { return PutLoad(server.target(), load); });
    if (!run.ok()) return run.status();
    AddLoadFigures({&*run}, MachineCpus(), where, pieces_.figures());
    pieces_.figures()->Add(where, "load",
                           fmt::format("{} requests, one after the other", load.shape.count));
    return {};
  }

  Status Open(const TestedServer& server, bool peer, const Figure& where) {
    const double rate = flags_.open_load * capacity_;
    const Load load = MakeOpenLoad(kOpenRun, ForPeer(flags_.open_requests, peer), rate, {1, 1, 1});
    const SchedulerWatch watch(&server);
    const auto run = Timed(where, [&] { return PutLoad(server.target(), load); });
    if (!run.ok()) return run.status();
    Figures* const figures = pieces_.figures();
    AddLoadFigures({&*run}, MachineCpus(), where, figures);
    AddByClass(*run, load, where);
    watch.AddFigures(where, figures);
    figures->Add(where, "offered_load", flags_.open_load);
    figures->Add(where, "load",
                 fmt::format("Poisson, {:.2f} requests/s, a third of each class", rate));
    return {};
  }

  Status Alone(const TestedServer& server, bool /*peer*/, const Figure& where) {
    const SchedulerWatch watch(&server);
    const double seconds = kLeadSeconds + flags_.alone_seconds;
    const auto run =
        Timed(where, [&] { return PutLoadFor(server.target(), MakeLow(kAloneRun), seconds); });
    if (!run.ok()) return run.status();
    Figures* const figures = pieces_.figures();
    AddLoadFigures({&*run}, MachineCpus(), where, figures);
    watch.AddFigures(where, figures);
    const ServiceTrail trail = TrailOf(run->records, kWork);
    figures->Add(where, "work_per_s",
                 trail.Between(kLeadSeconds, seconds) / (seconds - kLeadSeconds));
    figures->Add(where, "load",
                 fmt::format("class low in a closed loop, {} in flight", 2 * flags_.places));
    return {};
  }

  Status Urgent(const TestedServer& server, bool peer, const Figure& where) {
    const double load_share = flags_.high_load + flags_.medium_load;
    const Load urgent =
        MakeOpenLoad(kUrgentRun, ForPeer(flags_.urgent_requests, peer), load_share * capacity_,
                     {flags_.high_load, flags_.medium_load});
    const SchedulerWatch watch(&server);
    auto runs = Timed(where, [&] {
      return PutLoadBeside(server.target(), MakeLow(kLowRun), kLeadSeconds, urgent);
    });
    if (!runs.ok()) return runs.status();
    Figures* const figures = pieces_.figures();
    AddByClass(runs->foreground, urgent, where);
    Figure at = where;
    at.x = "low";
    std::vector<const RequestRecord*> low;
    for (const RequestRecord& record : runs->background.records) low.push_back(&record);
    AddTimes(low, at, figures);
    watch.AddFigures(where, figures);

    ServiceTrail trail(kWork);
    for (const RequestRecord& record : runs->background.records) trail.Add(record);
    for (const RequestRecord& record : runs->foreground.records) trail.Add(record, runs->offset());
    trail.Close();
    const double begin = runs->offset();
    const double span = urgent.shape.arrivals.back();
    figures->Add(where, "work_per_s", span > 0 ? trail.Between(begin, begin + span) / span : 0);
    figures->Add(where, "wall_s", runs->background.wall_seconds);
    // Both loads are this process's.
    figures->Add(where, "generator_cpu_share",
                 runs->background.cpu_seconds / (runs->background.wall_seconds * MachineCpus()));
    figures->Add(where, "offered_load", load_share);
    figures->Add(where, "load",
                 fmt::format("class low in a closed loop, {} in flight; Poisson, {:g} of the "
                             "capacity of class high and {:g} of medium",
                             2 * flags_.places, flags_.high_load, flags_.medium_load));
    if (!peer) KeepTexts(std::move(runs->background.records));
    return {};
  }

  // The requests that paused longest between two tokens.
  void KeepTexts(std::vector<RequestRecord> records) {
    const auto pause = [](const RequestRecord& record) {
      return record.gaps.empty() ? 0.0F : *std::max_element(record.gaps.begin(), record.gaps.end());
    };
    std::stable_sort(records.begin(), records.end(),
                     [&](const auto& a, const auto& b) { return pause(a) > pause(b); });
    records.resize(std::min(records.size(), static_cast<size_t>(flags_.texts)));
    low_texts_ = std::move(records);
    longest_gap_ = low_texts_.empty() ? 0 : pause(low_texts_.front());
    least_longest_gap_ = low_texts_.empty() ? 0 : pause(low_texts_.back());
  }

  // Asks for the kept texts again, one after the other, on a new server.
  Status CompareTexts(const std::string& contestant) {
    Note("comparing texts ...\n");
    auto server = StartFor(contestant);
    if (!server.ok()) return server.status();
    const Load low = MakeLow(kLowRun);
    int different = 0;
    for (const RequestRecord& record : low_texts_) {
      Load one = low;
      one.shape.count = 1;
      one.shape.concurrency = 1;
      // The prompt is that of its number.
      const std::string body = BodyOf(server->target(), low, record.seq);
      one.body_of = [&body](int) { return body; };
      const auto run = PutLoad(server->target(), one);
      if (!run.ok()) return run.status();
      if (run->records.front().output != record.output) ++different;
    }
    Figures* const figures = pieces_.figures();
    const Figure where{.part = priorities::kUrgent,
                       .contestant = contestant,
                       .round = figures->Rounds(priorities::kUrgent, contestant),
                       .x = "",
                       .metric = "",
                       .value = ""};
    figures->Add(where, "texts_compared", static_cast<double>(low_texts_.size()));
    figures->Add(where, "texts_different", different);
    figures->Add(where, "longest_gap_s", longest_gap_);
    figures->Add(where, "least_longest_gap_s", least_longest_gap_);
    low_texts_.clear();
    return pieces_.Save();
  }

  const BenchPrioritiesFlags flags_;
  BenchPieces pieces_;
  double capacity_ = 0;  // Requests per second.
  std::vector<RequestRecord> low_texts_;
  double longest_gap_ = 0;
  double least_longest_gap_ = 0;
};

}  // namespace

int RunBenchPriorities(const BenchPrioritiesFlags& flags) {
  PrioritiesBench bench(flags);
  if (const Status status = bench.Run(); !status.ok()) return Fail(status);
  Output output;
  output.Write(bench.Report());
  return output.End();
}

}  // namespace ropeway
