#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_fairness_command.h"
#include "bench/bench_pieces.h"
#include "bench/fairness_figures.h"
#include "bench/fairness_report.h"
#include "bench/fairness_sim.h"
#include "bench/load_figures.h"
#include "bench/put_load.h"
#include "bench/tenant_trace.h"
#include "bench/work_file.h"
#include "cli/output.h"
#include "cli/tenant_keys.h"

namespace ropeway {
namespace {

constexpr ServiceWeights kWeights = {.input = 1, .output = 2};
constexpr int kMaxTraceRequests = 1'000'000;
constexpr int kMaxInFlight = 10'000;
constexpr int kMaxClients = 1000;  // Of which each has a key.
constexpr int kLeastSample = 16;   // Requests that the capacity is measured with.
// A window of service is at most this part of the time in which requests arrive.
constexpr double kLargestWindow = 0.5;
constexpr double kQuickDivisor = 2;  // Of lengths, with --quick.

// In turns, so that what changes over minutes meets both alike.
std::vector<const char*> OrderOfPair(int pair) {
  if (pair % 2 == 0) return {fairness::kFair, fairness::kFcfs};
  return {fairness::kFcfs, fairness::kFair};
}

class FairnessBench {
 public:
  explicit FairnessBench(const BenchFairnessFlags& flags)
      : flags_(MadeQuick(flags)), pieces_(flags_.pieces) {}

  Status Run() {
    if (Status status = Check(); !status.ok()) return status;
    if (Status status = pieces_.Open(); !status.ok()) return status;
    for (int round = 0; round < flags_.pieces.rounds; ++round) {
      if (flags_.part != "simulated") {
        if (Status status = Measured(); !status.ok()) return status;
      }
      if (flags_.part != "measured") {
        if (Status status = Simulated(); !status.ok()) return status;
      }
    }
    return pieces_.CheckContestants();
  }

  std::string Report() { return FairnessReport(*pieces_.figures()); }

 private:
  static BenchFairnessFlags MadeQuick(BenchFairnessFlags flags) {
    if (!flags.pieces.quick) return flags;
    flags.pairs = 1;
    flags.length_divisor = static_cast<int>(flags.length_divisor * kQuickDivisor);
    return flags;
  }

  Status Check() {
    if (!flags_.pieces.base_url.empty()) {
      return InvalidArgument("--base-url: fairness starts servers with API keys of its own",
                             "base-url");
    }
    if (flags_.pieces.rounds == 0) return {};
    if (flags_.trace.empty()) return InvalidArgument("--trace: a file is needed", "trace");
    auto trace = ReadTrace(flags_.trace, kMaxTraceRequests, /*max_tokens=*/0);
    if (!trace.ok()) return trace.status();
    auto whole = TenantTrace(*trace, 1, flags_.requests);
    if (!whole.ok()) return whole.status();
    if (CountClients(*whole) > kMaxClients) {
      return InvalidArgument(fmt::format("--trace: at most {} clients are played", kMaxClients),
                             "trace");
    }
    whole_ = *std::move(whole);
    divided_ = *TenantTrace(*trace, flags_.length_divisor, flags_.requests);
    return {};
  }

  FairnessCase MakeCase(const std::vector<TenantRequest>& requests, double time_factor) const {
    FairnessCase made;
    made.requests = requests;
    made.weights = kWeights;
    made.light = LightClients(requests, kWeights, flags_.load);
    made.places = flags_.places;
    const double span = (requests.back().arrival - requests.front().arrival) * time_factor;
    made.half_window = std::min(flags_.half_window, span * kLargestWindow / 2);
    return made;
  }

  std::string LoadText(const FairnessCase& of, double time_factor, int divisor) const {
    return fmt::format(
        "{} requests of {} clients, {} of them light (within a max-min fair share); lengths / {}; "
        "arrivals times {:.4f}: {:g} times the capacity in work (1 x prompt + 2 x output tokens)",
        of.requests.size(), of.light.size(), std::count(of.light.begin(), of.light.end(), true),
        divisor, time_factor, flags_.load);
  }

  // A server whose tenants are the trace's clients, and a client for each of them.
  struct Tenants {
    TestedServer server;
    std::vector<std::unique_ptr<HttpClient>> clients;
  };
  StatusOr<Tenants> StartFor(const char* policy) const {
    auto server =
        pieces_.StartRopeway({"--policy", policy, "--max-num-seqs", std::to_string(flags_.places),
                              BenchPieces::kRefuseNobody, "--api-keys", keys_->path()},
                             keys_->keys().front());
    if (!server.ok()) return server.status();
    Tenants tenants{*std::move(server), {}};
    for (const std::string& key : keys_->keys()) {
      auto client = HttpClient::Open(tenants.server.url, key, /*insecure=*/false);
      if (!client.ok()) return client.status();
      tenants.clients.push_back(*std::move(client));
    }
    return tenants;
  }

  Load MakeLoad(const Tenants& tenants, const std::vector<TenantRequest>& requests,
                int run_num) const {
    Load load;
    load.shape.count = static_cast<int>(requests.size());
    load.shape.timeout = std::max(flags_.pieces.timeout, 3600.0);
    load.seed = flags_.pieces.seed;
    load.run_num = run_num;
    load.asked = [&requests](int seq) {
      const TenantRequest& request = requests[static_cast<size_t>(seq)];
      return Asked{request.input_tokens, request.output_tokens};
    };
    load.client_of = [&tenants, &requests](int seq) {
      const auto client = static_cast<size_t>(requests[static_cast<size_t>(seq)].client);
      return tenants.clients[client].get();
    };
    return load;
  }

  Status Measured() {
    auto keys = TenantKeys::Make(CountClients(divided_));
    if (!keys.ok()) return keys.status();
    keys_ = *std::move(keys);
    if (Status status = Capacity(); !status.ok()) return status;
    if (capacity_ <= 0) {
      return InvalidArgument("--contestant: the capacity is measured with priority+fair",
                             "contestant");
    }
    const double factor = TimeFactor(divided_, kWeights, capacity_, flags_.load);
    for (int pair = 0; pair < flags_.pairs; ++pair) {
      for (const char* policy : OrderOfPair(pair)) {
        const Status status =
            pieces_.Measure(fairness::kMeasured, policy,
                            [&](const Figure& where) { return Piece(policy, factor, where); });
        if (!status.ok()) return status;
      }
    }
    return {};
  }

  // Units of work per second, in a closed loop of a part of the trace.
  Status Capacity() {
    std::vector<TenantRequest> sample;
    const size_t part = std::max<size_t>(
        1, std::min(static_cast<size_t>(flags_.capacity_part), divided_.size() / kLeastSample));
    for (size_t i = 0; i < divided_.size(); i += part) sample.push_back(divided_[i]);
    return pieces_.Measure(
        fairness::kCapacity, fairness::kFair, [&](const Figure& where) -> Status {
          const auto tenants = StartFor(fairness::kFair);
          if (!tenants.ok()) return tenants.status();
          Load load = MakeLoad(*tenants, sample, 0);
          load.shape.concurrency = 2 * flags_.places;
          const StatusOr<RunResult> run = [&] {
            const Timing timing(where);
            return PutLoad(tenants->server.target(), load);
          }();
          if (!run.ok()) return run.status();
          capacity_ = SteadyRate(run->records, kWeights);
          Figures* const figures = pieces_.figures();
          AddLoadFigures({&*run}, MachineCpus(), where, figures);
          figures->Add(where, "work_per_s", capacity_);
          figures->Add(where, "command", tenants->server.command);
          figures->Add(where, "load",
                       fmt::format("one request in {}, {} in flight: {:.1f} units of work per "
                                   "second",
                                   part, load.shape.concurrency, capacity_));
          if (capacity_ > 0) return {};
          return {StatusCode::kUnavailable, "no capacity could be measured"};
        });
  }

  Status Piece(const char* policy, double factor, const Figure& where) {
    const auto tenants = StartFor(policy);
    if (!tenants.ok()) return tenants.status();
    Load load = MakeLoad(*tenants, divided_, 1);
    load.shape.concurrency = kMaxInFlight;
    for (const TenantRequest& request : divided_) {
      load.shape.arrivals.push_back(request.arrival * factor);
    }
    const SchedulerWatch watch(&tenants->server);
    const StatusOr<RunResult> run = [&] {
      const Timing timing(where);
      return PutLoad(tenants->server.target(), load);
    }();
    if (!run.ok()) return run.status();
    Figures* const figures = pieces_.figures();
    const FairnessCase made = MakeCase(divided_, factor);
    AddFairnessFigures(run->records, made, where, figures);
    watch.AddFigures(where, figures);
    figures->Add(where, "generator_cpu_share",
                 run->cpu_seconds / (run->wall_seconds * MachineCpus()));
    figures->Add(where, "command", tenants->server.command);
    figures->Add(where, "load", LoadText(made, factor, flags_.length_divisor));
    return {};
  }

  // The device's capacity is measured like a server's: with everything there at once.
  Status Simulated() {
    const auto all = SimulateTenants(whole_, fairness::kFcfs, flags_.places, 0);
    if (!all.ok()) return all.status();
    double end = 0;
    for (const RequestRecord& record : *all) end = std::max(end, record.due + record.latency);
    const double factor = TimeFactor(whole_, kWeights, WorkOf(whole_, kWeights) / end, flags_.load);
    const FairnessCase made = MakeCase(whole_, factor);
    for (const char* policy : {fairness::kFair, fairness::kFcfs}) {
      const Status status =
          pieces_.Measure(fairness::kSimulated, policy, [&](const Figure& where) -> Status {
            const auto records = SimulateTenants(whole_, policy, flags_.places, factor);
            if (!records.ok()) return records.status();
            AddFairnessFigures(*records, made, where, pieces_.figures());
            pieces_.figures()->Add(where, "load", LoadText(made, factor, 1));
            return {};
          });
      if (!status.ok()) return status;
    }
    return {};
  }

  const BenchFairnessFlags flags_;
  BenchPieces pieces_;
  std::vector<TenantRequest> whole_;
  std::vector<TenantRequest> divided_;  // With shorter prompts and answers.
  std::unique_ptr<TenantKeys> keys_;
  double capacity_ = 0;
};

}  // namespace

int RunBenchFairness(const BenchFairnessFlags& flags) {
  FairnessBench bench(flags);
  if (const Status status = bench.Run(); !status.ok()) return Fail(status);
  Output output;
  output.Write(bench.Report());
  return output.End();
}

}  // namespace ropeway
