#include "bench/trace_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "bench/load_runner.h"
#include "bench/prefixes_report.h"
#include "bench/queue_growth.h"
#include "bench/replay/replay.h"
#include "bench/session_figures.h"
#include "cli/output.h"

namespace ropeway {
namespace {

constexpr int kCalibrationUsers = 16;
constexpr size_t kCalibrationPart = 8;  // One request in so many; with --quick one in half as many.
constexpr int64_t kLeastDisk = int64_t{256} << 20;
constexpr int kMaxInFlight = 10'000;
constexpr int kQuickPart = 6;  // With --quick the slice is so much shorter.

Duration Work(std::span<const PrefixRequest> requests) {
  const StepTime cost;
  Duration work{};
  for (const PrefixRequest& r : requests)
    work += cost.OfRequest(r.input_tokens, 0, r.output_tokens);
  return work;
}

class SliceBench {
 public:
  SliceBench(const BenchPrefixesFlags& flags, std::span<const PrefixRequest> requests,
             BenchPieces* pieces)
      : flags_(flags), all_(requests), pieces_(pieces) {}

  Status Run() {
    Cut();
    if (slice_.empty()) {
      return InvalidArgument("--slice-start: the trace has no requests there", "slice-start");
    }
    if (Status status = Calibrate(); !status.ok()) return status;
    const auto size = [this](double part, int64_t tokens) {
      return std::to_string(static_cast<int64_t>(part * static_cast<double>(tokens)) *
                            BytesPerToken());
    };
    for (const char* contestant : {prefixes::kOff, prefixes::kOn, prefixes::kWarm}) {
      // From empty caches it says least: most slices share too little within themselves.
      if (flags_.pieces.quick && contestant == std::string(prefixes::kOn)) continue;
      const bool off = contestant == std::string(prefixes::kOff);
      const bool warm = contestant == std::string(prefixes::kWarm);
      const InfiniteCache& found = warm ? warm_ : cold_;
      const int64_t tokens =
          found.distinct_tokens + found.output_tokens + (warm ? warm_up_tokens_ : 0);
      const BenchPieces::DiskFolder disk(flags_.pieces.disk_path);
      std::vector<std::string> extra = Dtype();
      // What is offered is beyond the capacity: a growing queue is what is to be seen.
      extra.insert(extra.end(), {BenchPieces::kRefuseNobody, "--kv-cache-size",
                                 size(flags_.slice_pool, tokens)});
      if (off) {
        extra.insert(extra.end(), {"--prefix-caching", "off"});
      } else {
        extra.insert(extra.end(),
                     {"--kv-disk-path", disk.path(), "--kv-disk-size", DiskSize(tokens)});
      }
      const Status status = pieces_->Measure(
          prefixes::kSlice, contestant,
          [&](const Figure& where) { return Piece(contestant, extra, found, where); });
      if (!status.ok()) return status;
    }
    return {};
  }

 private:
  std::vector<std::string> Dtype() const { return {"--kv-cache-dtype", flags_.kv_cache_dtype}; }

  // Half as much again, for the overhead; and never less than a tier can do with.
  std::string DiskSize(int64_t tokens) const {
    return std::to_string(std::max(kLeastDisk, tokens * BytesPerToken() * 3 / 2));
  }

  // 8-bit numbers with their scales take a little more than half (docs/architecture.md).
  int64_t BytesPerToken() const {
    const int64_t f16 = pieces_->kv_bytes_per_token();
    return flags_.kv_cache_dtype == "f16" ? f16 : f16 * 17 / 32;
  }

  double SliceSeconds() const {
    return flags_.slice_seconds / (flags_.pieces.quick ? kQuickPart : 1);
  }

  // Takes the slice out of the trace, and what a cache of no bounds would find in it.
  void Cut() {
    const auto before = [this](double seconds) {
      const auto at = std::partition_point(
          all_.begin(), all_.end(), [&](const PrefixRequest& r) { return r.arrival < seconds; });
      return static_cast<size_t>(at - all_.begin());
    };
    const size_t begin = before(flags_.slice_start);
    const size_t end = before(flags_.slice_start + SliceSeconds());
    for (size_t i = begin; i < end; ++i) {
      if (all_[i].input_tokens + all_[i].output_tokens <= flags_.max_request_tokens) {
        slice_.push_back(all_[i]);
      }
    }
    left_out_ = static_cast<int>(end - begin - slice_.size());
    if (slice_.empty()) return;
    cold_ = AskInfiniteCache(slice_, 0, flags_.scale.block_tokens, kBlockTokens);
    std::vector<PrefixRequest> with_before(all_.begin(), all_.begin() + static_cast<long>(begin));
    with_before.insert(with_before.end(), slice_.begin(), slice_.end());
    warm_ = AskInfiniteCache(with_before, begin, flags_.scale.block_tokens, kBlockTokens);
    warm_up_ = WarmUpRequests(all_.first(begin), slice_, flags_.scale.block_tokens);
    for (const PrefixRequest& r : warm_up_) warm_up_tokens_ += r.input_tokens;
  }

  // The seconds that the slice's requests take without a cache, one in a few of them asked.
  Status Calibrate() {
    std::vector<PrefixRequest> sample;
    const size_t part = flags_.pieces.quick ? kCalibrationPart / 2 : kCalibrationPart;
    for (size_t i = 0; i < slice_.size(); i += part) sample.push_back(slice_[i]);
    Note("slice: measuring the capacity without a cache ...\n");
    std::vector<std::string> extra = Dtype();
    extra.insert(extra.end(), {"--prefix-caching", "off"});
    auto server = pieces_->StartRopeway(extra);
    if (!server.ok()) return server.status();
    LoadShape load;
    load.count = static_cast<int>(sample.size());
    load.concurrency = kCalibrationUsers;
    const Figure where{
        .part = prefixes::kSlice, .contestant = "capacity", .x = "", .metric = "", .value = ""};
    const StatusOr<RunResult> run = [&] {
      const Timing timing(where);
      return Ask(*server, sample, std::move(load));
    }();
    if (!run.ok()) return run.status();
    capacity_seconds_ = run->wall_seconds * (ToSeconds(Work(slice_)) / ToSeconds(Work(sample)));
    const double span = slice_.back().arrival - slice_.front().arrival;
    stretch_ = span > 0 ? capacity_seconds_ / flags_.slice_load / span : 1;
    Note(fmt::format("slice: {} requests take {:.0f} s; time stretched {:.2f}x\n", slice_.size(),
                     capacity_seconds_, stretch_));
    return {};
  }

  StatusOr<RunResult> Ask(const TestedServer& server, std::span<const PrefixRequest> requests,
                          LoadShape load) const {
    RequestShape shape;
    shape.model = server.facts.model;
    shape.ignore_eos = true;
    load.timeout = flags_.pieces.timeout;
    LoadRunner runner(
        server.client.get(), "/completions", std::move(load),
        [&](int seq) {
          const PrefixRequest& request = requests[static_cast<size_t>(seq)];
          Prompt prompt;
          prompt.ids = PromptIds(request, flags_.scale.block_tokens);
          prompt.max_tokens = request.output_tokens;
          return RequestBody(shape, prompt, 0);
        },
        nullptr);
    RunResult run = runner.Run(1, "");
    if (run.interrupted) return Status(StatusCode::kCancelled, "interrupted");
    for (const RequestRecord& record : run.records) {
      if (record.ok()) continue;
      return Status(StatusCode::kUnavailable,
                    fmt::format("a request failed: {}: {}", record.error_kind, record.error));
    }
    return run;
  }

  Status Piece(const std::string& contestant, const std::vector<std::string>& extra,
               const InfiniteCache& found, const Figure& where) {
    auto server = pieces_->StartRopeway(extra);
    if (!server.ok()) return server.status();
    if (contestant == prefixes::kWarm && !warm_up_.empty()) {
      LoadShape load;
      load.count = static_cast<int>(warm_up_.size());
      load.concurrency = kCalibrationUsers;
      const auto warmed = Ask(*server, warm_up_, std::move(load));
      if (!warmed.ok()) return warmed.status();
    }
    LoadShape load;
    load.count = static_cast<int>(slice_.size());
    load.concurrency = kMaxInFlight;
    for (const PrefixRequest& r : slice_) {
      load.arrivals.push_back((r.arrival - slice_.front().arrival) * stretch_);
    }
    const CacheWatch caches(server->url);
    const StatusOr<RunResult> run = [&] {
      const Timing timing(where);
      return Ask(*server, slice_, std::move(load));
    }();
    if (!run.ok()) return run.status();
    AddFigures(*run, found, where);
    caches.AddFigures(where, pieces_->figures());
    pieces_->figures()->Add(where, "command", server->command);
    return {};
  }

  void AddFigures(const RunResult& run, const InfiniteCache& found, const Figure& where) {
    Figures* const figures = pieces_->figures();
    const Summary summary = Summarize({&run}, {}, MachineCpus());
    const QueueGrowth growth = MeasureGrowth(run.records);
    figures->Add(where, "requests", static_cast<double>(summary.succeeded));
    figures->Add(where, "failed", static_cast<double>(summary.failed));
    figures->Add(where, "offered_load", capacity_seconds_ / growth.arrivals_seconds);
    figures->Add(where, "capacity_s", capacity_seconds_);
    figures->Add(where, "arrivals_s", growth.arrivals_seconds);
    figures->Add(where, "drain_s", growth.drain_seconds);
    figures->Add(where, "drain_share", growth.drain_share());
    figures->Add(where, "ttft_p50_s", summary.ttft.p50);
    figures->Add(where, "ttft_p90_s", summary.ttft.p90);
    figures->Add(
        where, "infinite_share",
        static_cast<double>(found.hit_kv_tokens) / static_cast<double>(found.input_tokens));
    int64_t prefilled = 0;
    for (const RequestRecord& record : run.records) prefilled += PrefilledTokens(record);
    figures->Add(where, "prefilled_tokens", static_cast<double>(prefilled));
    for (size_t i = 0; i < growth.in_flight.size(); ++i) {
      Figure at = where;
      at.x = std::to_string(i + 1);
      figures->Add(at, "in_flight", growth.in_flight[i]);
    }
    figures->Add(where, "load",
                 fmt::format("{:g} s of the trace from {:g} s on, {} requests ({} too long left "
                             "out), time stretched {:.2f}x, prompts / {}, answers / {}",
                             SliceSeconds(), flags_.slice_start, slice_.size(), left_out_, stretch_,
                             flags_.scale.input_divisor, flags_.scale.output_divisor));
  }

  const BenchPrefixesFlags& flags_;
  const std::span<const PrefixRequest> all_;
  BenchPieces* const pieces_;
  std::vector<PrefixRequest> slice_;
  int left_out_ = 0;
  InfiniteCache cold_;
  InfiniteCache warm_;
  std::vector<PrefixRequest> warm_up_;
  int64_t warm_up_tokens_ = 0;
  double capacity_seconds_ = 0;
  double stretch_ = 1;
};

}  // namespace

Status MeasureSlice(const BenchPrefixesFlags& flags, std::span<const PrefixRequest> requests,
                    BenchPieces* pieces) {
  return SliceBench(flags, requests, pieces).Run();
}

std::vector<PrefixRequest> WarmUpRequests(std::span<const PrefixRequest> before,
                                          std::span<const PrefixRequest> slice, int block_tokens) {
  std::unordered_set<uint64_t> known;
  for (const PrefixRequest& r : before) known.insert(r.blocks.begin(), r.blocks.end());
  std::vector<PrefixRequest> found;
  for (const PrefixRequest& r : slice) {
    PrefixRequest request;
    for (const uint64_t block : r.blocks) {
      if (!known.contains(block)) break;
      request.blocks.push_back(block);
    }
    // A block's token ids are known as a whole, so the last one is asked for as a whole too.
    request.input_tokens = static_cast<int>(request.blocks.size()) * block_tokens;
    if (!request.blocks.empty()) found.push_back(std::move(request));
  }
  std::stable_sort(found.begin(), found.end(), [](const PrefixRequest& a, const PrefixRequest& b) {
    return a.blocks.size() > b.blocks.size();
  });
  std::unordered_set<uint64_t> warmed;
  std::erase_if(found, [&warmed](const PrefixRequest& r) {
    const bool done = warmed.contains(r.blocks.back());
    warmed.insert(r.blocks.begin(), r.blocks.end());
    return done;
  });
  return found;
}

}  // namespace ropeway
