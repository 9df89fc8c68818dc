#include "bench/trace_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "bench/prefixes_report.h"
#include "bench/replay/replay.h"
#include "cli/output.h"

namespace ropeway {
namespace {

// A point of a curve.
struct Point {
  std::string contestant;
  std::string x;  // "": no bounds.
  ReplayOptions options;
  StatusOr<ReplayResult> result = Status(StatusCode::kInternal, "not run");
  double seconds = 0;
};

// Time is stretched so that the requests keep a device of this cost busy for `load` of it.
double Stretch(std::span<const PrefixRequest> requests, const StepTime& cost, double load) {
  Duration work{};
  for (const PrefixRequest& r : requests)
    work += cost.OfRequest(r.input_tokens, 0, r.output_tokens);
  const double span = requests.back().arrival - requests.front().arrival;
  return span > 0 ? ToSeconds(work) / load / span : 1;
}

// KV blocks of the prompts, each once, and of all answers.
int32_t WorkingSetBlocks(const InfiniteCache& cache) {
  return static_cast<int32_t>((cache.distinct_tokens + cache.output_tokens) / kBlockTokens) + 1;
}

std::vector<Point> MakePoints(const std::vector<double>& pools, int32_t working_set,
                              size_t requests) {
  std::vector<Point> points;
  Point& all = points.emplace_back();
  all.contestant = prefixes::kInfinite;
  // Each answer may end in a block of its own.
  all.options.pool_blocks = working_set + 2 * static_cast<int32_t>(requests);
  for (const double per_cent : pools) {
    for (const bool tier : {false, true}) {
      for (const auto& [name, eviction] :
           {std::pair("cost", EvictionPolicy::kCost), std::pair("LRU", EvictionPolicy::kLru)}) {
        Point& point = points.emplace_back();
        point.contestant = fmt::format("{}{}", name, tier ? ", tier" : "");
        point.x = fmt::format("{:g}", per_cent);
        point.options.pool_blocks = static_cast<int32_t>(std::ceil(working_set * per_cent / 100));
        point.options.eviction = eviction;
        // A tier has copies of what is in the pool too, so it is given room for everything.
        if (tier)
          point.options.tier_blocks = static_cast<size_t>(points.front().options.pool_blocks);
      }
    }
  }
  return points;
}

void RunPoint(const BenchPrefixesFlags& flags, std::span<const PrefixRequest> requests,
              double stretch, Point* point) {
  const RealClock clock;
  const TimePoint begin = clock.Now();
  point->result = Replay(point->options, requests.size(), [&](size_t i) {
    const PrefixRequest& asked = requests[i];
    ReplayRequest request;
    request.arrival =
        TimePoint(static_cast<int64_t>((asked.arrival - requests[0].arrival) * stretch * 1e9));
    request.prompt = PromptIds(asked, flags.scale.block_tokens);
    request.output_tokens = asked.output_tokens;
    return request;
  });
  point->seconds = ToSeconds(clock.Now() - begin);
}

void AddFigures(const Point& point, int round, Figures* figures) {
  const Figure where{.part = prefixes::kCurves,
                     .contestant = point.contestant,
                     .round = round,
                     .x = point.x,
                     .metric = "",
                     .value = ""};
  const ReplayResult& r = *point.result;
  figures->Add(where, "hit_share", r.hit_share());
  figures->Add(where, "saved_share", r.saved_share());
  figures->Add(where, "tier_share",
               static_cast<double>(r.tier_tokens) / static_cast<double>(r.prompt_tokens));
  figures->Add(where, "pool_blocks", point.options.pool_blocks);
  figures->Add(where, "computed_tokens", static_cast<double>(r.computed_rows));
  figures->Add(where, "steps", static_cast<double>(r.steps));
  figures->Add(where, "preemptions", static_cast<double>(r.preemptions));
  figures->Add(where, "virtual_s", ToSeconds(r.makespan));
  figures->Add(where, "real_s", point.seconds);
}

}  // namespace

Status MeasureCurves(const BenchPrefixesFlags& flags, std::span<const PrefixRequest> requests,
                     BenchPieces* pieces) {
  const auto pools = ParsePools(flags.pools);
  if (!pools.ok()) return pools.status();
  if (flags.curve_requests > 0) {
    requests = requests.first(std::min(requests.size(), static_cast<size_t>(flags.curve_requests)));
  }
  const InfiniteCache cache = AskInfiniteCache(requests, 0, flags.scale.block_tokens, kBlockTokens);
  const StepTime cost;
  const double stretch = Stretch(requests, cost, flags.curve_load);
  std::vector<Point> points = MakePoints(*pools, WorkingSetBlocks(cache), requests.size());
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < MachineCpus(); ++i) {
      workers.emplace_back([&] {
        for (size_t p = next++; p < points.size(); p = next++) {
          RunPoint(flags, requests, stretch, &points[p]);
          Note(fmt::format("curves, {} {}: {:.1f} s\n", points[p].contestant, points[p].x,
                           points[p].seconds));
        }
      });
    }
  }
  Figures* const figures = pieces->figures();
  const int round = figures->Rounds(prefixes::kCurves, prefixes::kInfinite) + 1;
  for (const Point& point : points) {
    if (!point.result.ok()) return point.result.status();
    AddFigures(point, round, figures);
  }
  const Figure where{.part = prefixes::kCurves,
                     .contestant = prefixes::kInfinite,
                     .round = round,
                     .x = "",
                     .metric = "",
                     .value = ""};
  const auto input = static_cast<double>(cache.input_tokens);
  figures->Add(where, "hit_share_by_hand", static_cast<double>(cache.hit_tokens) / input);
  figures->Add(where, "hit_share_by_hand_in_kv_blocks",
               static_cast<double>(cache.hit_kv_tokens) / input);
  figures->Add(where, "load",
               fmt::format("{} requests, {} input tokens, working set {} blocks of {} tokens; time "
                           "stretched {:.2f}x to {:g} of the virtual device's capacity",
                           requests.size(), cache.input_tokens, WorkingSetBlocks(cache),
                           kBlockTokens, stretch, flags.curve_load));
  return {};
}

}  // namespace ropeway
