#include "bench/kernels/peak_bench.h"

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

namespace ropeway::bench {
namespace {

// Long beside a barrier, and short beside a time slice.
constexpr double kPhaseSeconds = 1e-3;

// What the loops return goes here, one cache line a worker.
struct alignas(64) LoopResult {
  volatile uint64_t value = 0;
};

Rate MeasureLoop(uint64_t (*loop)(int64_t), double ops, base::WorkerTeam* team,
                 const TimingBudget& budget) {
  using Clock = std::chrono::steady_clock;
  std::vector<LoopResult> results(static_cast<size_t>(team->size()));
  int64_t rounds = 64;
  for (double seconds = 0; seconds < kPhaseSeconds / 2; rounds *= 2) {
    const Clock::time_point begin = Clock::now();
    results[0].value = loop(rounds);
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  Rate rate;
  rate.work = ops * static_cast<double>(rounds) * team->size();
  rate.timing = TimePhases(team, budget, [&](int worker, int) {
    results[static_cast<size_t>(worker)].value = loop(rounds);
  });
  // The best repetition: one that had to share a core is no limit of the machine.
  rate.per_second = rate.work / rate.timing.least;
  return rate;
}

}  // namespace

Rate MeasureInt8(const PeakLoops& loops, base::WorkerTeam* team, const TimingBudget& budget) {
  return MeasureLoop(loops.int8_dot, loops.int8_ops, team, budget);
}

Rate MeasureF32(const PeakLoops& loops, base::WorkerTeam* team, const TimingBudget& budget) {
  return MeasureLoop(loops.f32_fma, loops.f32_ops, team, budget);
}

StatusOr<MemorySweep> MemorySweep::Make(const PeakLoops& loops, size_t bytes,
                                        base::WorkerTeam* team) {
  const auto workers = static_cast<size_t>(team->size());
  const size_t part = (bytes / workers / kSweepBytes + 1) * kSweepBytes;
  auto arena = base::PageArena::Make(part * workers);
  if (!arena.ok()) return arena.status();
  MemorySweep sweep(loops, part, *std::move(arena), team);
  // Untouched pages are all the same page of zeros.
  team->Run([&](int worker) { std::memset(sweep.PartOf(worker), 1, part); });
  return sweep;
}

MemorySweep::MemorySweep(const PeakLoops& loops, size_t part, base::PageArena arena,
                         base::WorkerTeam* team)
    : loops_(&loops), part_(part), arena_(std::move(arena)), team_(team) {}

std::byte* MemorySweep::PartOf(int worker) const {
  return arena_.data() + static_cast<size_t>(worker) * part_;
}

Rate MemorySweep::Measure(const TimingBudget& budget) const {
  std::vector<LoopResult> results(static_cast<size_t>(team_->size()));
  Rate rate;
  rate.work = static_cast<double>(part_) * team_->size();
  rate.timing = TimePhases(team_, budget, [&](int worker, int) {
    results[static_cast<size_t>(worker)].value = loops_->sweep(PartOf(worker), part_);
  });
  rate.per_second = rate.work / rate.timing.median;
  return rate;
}

}  // namespace ropeway::bench
