// `ropeway-bench gateway`: what the gateway makes of backends, by itself: requests that are there
// at once, before simulated backends whose calls take a fixed time. `bench/run.py gateway` measures
// it before real ones too.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/output.h"
#include "base/words.h"
#include "bench/bench_flags.h"
#include "bench/commands.h"
#include "bench/rows.h"
#include "bench/simulated_backend.h"
#include "ropeway/gateway.h"

namespace ropeway::bench {
namespace {

constexpr double kEfficiency = 0.93;  // Expected, of the theoretical maximum.
constexpr double kTwoReplicas = 1.9;  // Expected, times one.
constexpr int kMostRequests = 100'000;
constexpr std::chrono::seconds kReadyPatience(10);

struct GatewayBenchFlags {
  int requests = 32;
  double call_ms = 50;
  int runs = 3;
  std::string sizes = "1,2,4,8,16";
  std::string parallel = "1,2,4,8";
  int parallel_size = 4;
  int replica_places = 4;
  bool rows = false;
};

// One way to send the requests.
struct Dispatch {
  std::string part;
  std::string system;
  GatewayOptions options;  // Without models.
  int replicas = 1;
  int places = 1;   // Of each backend.
  int at_once = 1;  // Requests that are under way at once, at most: of all replicas together.
};

// What one way took; the median of several runs.
struct DispatchTime {
  const Dispatch* dispatch = nullptr;
  double seconds = 0;
  double improvement = 1;  // Over the part's baseline.
  double theoretical = 1;  // What it would be if nothing but calls took time.
  double target = 0;       // For the efficiency; 0: it is the baseline.

  double efficiency() const { return improvement / theoretical; }
  const char* verdict() const {
    if (target == 0) return "";
    return efficiency() >= target ? "met" : "missed";
  }
};

Request NumberedRequest(int number) {
  Request request;
  // Too short for a block: no prefix decides where it goes.
  request.prompt = fmt::format("Request {}", number);
  request.max_tokens = 1;
  return request;
}

// A gateway before its simulated backends.
class GatewayBench {
 public:
  static StatusOr<std::unique_ptr<GatewayBench>> Open(const Dispatch& dispatch, double call_ms) {
    auto bench = std::unique_ptr<GatewayBench>(new GatewayBench);
    const std::chrono::nanoseconds call_time(static_cast<int64_t>(call_ms * 1e6));
    GatewayOptions options = dispatch.options;
    // Nothing is rejected for the length of the queue.
    options.queue.max_wait = std::chrono::hours(24);
    options.queue.max_queued_requests = kMostRequests;
    GatewayModel& model = options.models.emplace_back();
    model.name = "simulated";
    for (int i = 0; i < dispatch.replicas; ++i) {
      BackendOptions& backend = model.backends.emplace_back();
      backend.name = fmt::format("simulated-{}", i + 1);
      backend.backend = std::make_shared<SimulatedBackend>(dispatch.places, call_time);
      backend.max_concurrency = dispatch.places;
      bench->backends_.push_back(backend.backend);
    }
    auto gateway = Gateway::Create(options);
    if (!gateway.ok()) return gateway.status();
    bench->gateway_ = *std::move(gateway);
    if (Status status = bench->WaitUntilReady(); !status.ok()) return status;
    return bench;
  }

  // Seconds until so many requests that are there at once are answered.
  StatusOr<double> Seconds(int requests) {
    std::vector<RequestHandle> handles;
    const base::RealClock clock;
    const base::TimePoint begin = clock.Now();
    for (int i = 0; i < requests; ++i) {
      StatusOr<RequestHandle> handle = gateway_->Infer(NumberedRequest(i));
      if (!handle.ok()) return handle.status();
      handles.push_back(*std::move(handle));
    }
    for (const RequestHandle& handle : handles) {
      const StatusOr<Result> result = handle.Wait();
      const Status status = result.ok() ? result.value().status : result.status();
      if (!status.ok()) return status;
    }
    return base::ToSeconds(clock.Now() - begin);
  }

 private:
  GatewayBench() = default;

  Status WaitUntilReady() const {
    const base::RealClock clock;
    const base::TimePoint limit = clock.Now() + kReadyPatience;
    for (;;) {
      const GatewayHealth health = gateway_->Health();
      if (health.ready) return {};
      if (clock.Now() > limit) return {StatusCode::kUnavailable, health.reason};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // Let go of after the gateway.
  std::vector<std::shared_ptr<Backend>> backends_;
  std::unique_ptr<Gateway> gateway_;
};

StatusOr<double> MedianSeconds(const Dispatch& dispatch, const GatewayBenchFlags& flags) {
  auto bench = GatewayBench::Open(dispatch, flags.call_ms);
  if (!bench.ok()) return bench.status();
  if (auto warm = (*bench)->Seconds(dispatch.at_once); !warm.ok()) return warm.status();
  std::vector<double> seconds;
  for (int i = 0; i < flags.runs; ++i) {
    const StatusOr<double> took = (*bench)->Seconds(flags.requests);
    if (!took.ok()) return took.status();
    seconds.push_back(*took);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

Dispatch BatchDispatch(std::string part, std::string system, int size, int parallel) {
  Dispatch dispatch;
  dispatch.part = std::move(part);
  dispatch.system = std::move(system);
  dispatch.options.batching.dispatch = "batch";
  dispatch.options.batching.max_batch_size = size;
  dispatch.options.batching.max_parallel_batches = parallel;
  dispatch.places = dispatch.at_once = size * parallel;
  return dispatch;
}

Dispatch SerialDispatch(const std::string& part) {
  Dispatch dispatch = BatchDispatch(part, "serial", 1, 1);
  dispatch.options.batching.enable_batching = false;
  return dispatch;
}

Dispatch ReplicaDispatch(int replicas, int places) {
  Dispatch dispatch;
  dispatch.part = "replicas";
  dispatch.system = base::Counted(replicas, "replica");
  dispatch.replicas = replicas;
  dispatch.places = places;
  dispatch.at_once = replicas * places;
  return dispatch;
}

// All ways; the first of each part is its baseline.
StatusOr<std::vector<Dispatch>> AllDispatches(const GatewayBenchFlags& flags) {
  const auto sizes = ParseCounts("--sizes", flags.sizes, 4096);
  if (!sizes.ok()) return sizes.status();
  const auto parallel = ParseCounts("--parallel", flags.parallel, 4096);
  if (!parallel.ok()) return parallel.status();
  std::vector<Dispatch> all = {SerialDispatch("batches")};
  for (const int size : *sizes) {
    all.push_back(BatchDispatch("batches", fmt::format("batch of {}", size), size, 1));
  }
  all.push_back(SerialDispatch("parallel batches"));
  for (const int batches : *parallel) {
    all.push_back(BatchDispatch("parallel batches",
                                fmt::format("{} of {}", batches, flags.parallel_size),
                                flags.parallel_size, batches));
  }
  all.push_back(ReplicaDispatch(1, flags.replica_places));
  all.push_back(ReplicaDispatch(2, flags.replica_places));
  return all;
}

// How many calls follow each other.
double Rounds(const Dispatch& dispatch, int requests) {
  return std::ceil(static_cast<double>(requests) / dispatch.at_once);
}

// Compares each with its part's first.
void CompareWithBaselines(int requests, std::vector<DispatchTime>* times) {
  const DispatchTime* baseline = nullptr;
  for (DispatchTime& time : *times) {
    if (baseline == nullptr || baseline->dispatch->part != time.dispatch->part) {
      baseline = &time;
      continue;
    }
    time.improvement = baseline->seconds / time.seconds;
    time.theoretical = Rounds(*baseline->dispatch, requests) / Rounds(*time.dispatch, requests);
    time.target = time.dispatch->part == "replicas" ? kTwoReplicas / 2 : kEfficiency;
  }
}

void WriteRows(const std::vector<DispatchTime>& times, int requests, base::Output* output) {
  Rows rows([output](const std::string& text) { output->Write(text); });
  for (const DispatchTime& time : times) {
    rows.SetCell(time.dispatch->part, time.dispatch->system, "");
    rows.Add("requests", requests);
    rows.Add("wall_s", time.seconds);
    rows.Add("requests_per_s", requests / time.seconds);
    rows.Add("improvement", time.improvement);
    rows.Add("theoretical_maximum", time.theoretical);
    rows.Add("efficiency", time.efficiency());
    rows.Add("target", time.target);
  }
}

void WriteTable(const std::vector<DispatchTime>& times, const GatewayBenchFlags& flags,
                base::Output* output) {
  output->Write(fmt::format("{} requests at once, {:g} ms per call, medians of {} runs\n",
                            flags.requests, flags.call_ms, flags.runs));
  const std::string* part = nullptr;
  for (const DispatchTime& time : times) {
    if (part == nullptr || *part != time.dispatch->part) {
      part = &time.dispatch->part;
      output->Write(fmt::format("\n{:<18}{:>12}{:>14}{:>13}{:>21}{:>12}  {}\n", *part, "duration s",
                                "requests/s", "improvement", "theoretical maximum", "efficiency",
                                "verdict"));
    }
    output->Write(fmt::format("{:<18}{:>12.3f}{:>14.1f}{:>13.2f}{:>21.2f}{:>10.1f} %  {}\n",
                              time.dispatch->system, time.seconds, flags.requests / time.seconds,
                              time.improvement, time.theoretical, 100 * time.efficiency(),
                              time.verdict()));
  }
}

int RunGatewayBench(const GatewayBenchFlags& flags) {
  const auto dispatches = AllDispatches(flags);
  if (!dispatches.ok()) return base::Fail(dispatches.status());
  std::vector<DispatchTime> times;
  for (const Dispatch& dispatch : *dispatches) {
    const StatusOr<double> seconds = MedianSeconds(dispatch, flags);
    if (!seconds.ok()) return base::Fail(seconds.status());
    DispatchTime& time = times.emplace_back();
    time.dispatch = &dispatch;
    time.seconds = *seconds;
  }
  CompareWithBaselines(flags.requests, &times);
  base::Output output;
  if (flags.rows) {
    WriteRows(times, flags.requests, &output);
  } else {
    WriteTable(times, flags, &output);
  }
  return output.End();
}

}  // namespace

flags::Command GatewayCommand() {
  auto flags = std::make_shared<GatewayBenchFlags>();
  return {
      "gateway",
      "Time the gateway before simulated backends: serial, batches, parallel batches, replicas",
      {{"Flags",
        {{"--requests", flags::IntValue(&flags->requests, 1, kMostRequests),
          "Requests that are there at once"},
         {"--call-ms", flags::NumberValue(&flags->call_ms, 0.1, 100000),
          "What a call of a backend takes, whatever else runs there"},
         {"--runs", flags::IntValue(&flags->runs, 1, 1000), "The median of so many runs counts"},
         {"--sizes", flags::TextValue(&flags->sizes, "LIST"), "Sizes of batches"},
         {"--parallel", flags::TextValue(&flags->parallel, "LIST"), "Numbers of parallel batches"},
         {"--parallel-size", flags::IntValue(&flags->parallel_size, 1, 4096),
          "The size of parallel batches"},
         {"--replica-places", flags::IntValue(&flags->replica_places, 1, 4096),
          "Calls at once of each replica"},
         {"--rows", flags::SwitchValue(&flags->rows), "Print rows of CSV in place of tables"}}}},
      "Expected: 93 % of the theoretical maximum; two replicas 1.9 times one.\n"
      "bench/run.py gateway measures it before real servers, too.",
      [flags] { return RunGatewayBench(*flags); }};
}

}  // namespace ropeway::bench
