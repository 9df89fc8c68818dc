// Measures the disk tier on this machine: CPU time per megabyte written and read, bandwidths, how
// long a flush takes, and the space that is taken beside the blocks. The process's CPU time is
// measured beside the tier's own account of it, because the latter paces the writes.
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/output.h"
#include "bench/commands.h"
#include "bench/rows.h"
#include "bench/timing.h"
#include "flags/flag.h"
#include "kvcache/disk_tier.h"

namespace ropeway::bench {
namespace {

double DiskClockSeconds() {
  static const base::RealClock clock;
  return base::ToSeconds(clock.Now());
}

// User and system time of this process.
double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void SleepMicros(int microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

core::BlockName NameOfBlock(uint64_t i) {
  core::BlockName name;
  std::mt19937_64 random(i);
  for (size_t k = 0; k < 32; k += 8) {
    const uint64_t word = random();
    std::memcpy(name.bytes.data() + k, &word, 8);
  }
  return name;
}

struct DiskTierFlags {
  std::string path;
  uint64_t blocks = 500;
  size_t block_bytes = 368'640;
  uint64_t per_flush = 20;
};

StatusOr<std::unique_ptr<kvcache::DiskTier>> OpenTier(const DiskTierFlags& flags) {
  static const base::RealClock clock;
  StatusOr<std::unique_ptr<kvcache::DiskTier>> tier = kvcache::DiskTier::Open(
      {.cache = {.disk_path = flags.path, .disk_write_rate = int64_t{1} << 40},
       .block_bytes = flags.block_bytes,
       .clock = &clock});
  if (tier.ok() && !(*tier)->Usage().on) {
    return Status(StatusCode::kUnavailable, flags.path + ": the disk is full");
  }
  return tier;
}

void WriteBlocks(const DiskTierFlags& flags, kvcache::DiskTier* tier, Rows* rows) {
  std::vector<std::byte> block(flags.block_bytes);
  std::mt19937_64 random(1);
  for (std::byte& byte : block) byte = static_cast<std::byte>(random());
  const double start = DiskClockSeconds();
  const double cpu = ProcessCpuSeconds();
  for (uint64_t i = 0; i < flags.blocks; ++i) {
    std::memcpy(block.data(), &i, sizeof i);
    while (!tier->Put(NameOfBlock(i), block)) SleepMicros(200);
    if ((i + 1) % flags.per_flush == 0) tier->Flush();
  }
  tier->Flush();
  while (tier->Usage().pending_bytes > 0) SleepMicros(200);
  const double seconds = DiskClockSeconds() - start;
  const auto usage = tier->Usage();
  const double mb = static_cast<double>(usage.written_bytes) / 1e6;
  rows->SetCell("disk-tier", "ropeway", "write");
  rows->Add("mb", mb);
  rows->Add("mb_per_s", mb / seconds);
  rows->Add("flushes", static_cast<double>(tier->flushes()));
  // Of the whole process: the benchmark's own copies are included.
  rows->Add("process_cpu_ms_per_mb", (ProcessCpuSeconds() - cpu) * 1e3 / mb);
  rows->Add("tier_cpu_ms_per_mb", usage.cpu_seconds * 1e3 / mb);
  rows->Add("space_overhead_share", static_cast<double>(usage.bytes) / (mb * 1e6) - 1);
}

void ReadBlocks(const DiskTierFlags& flags, kvcache::DiskTier* tier, Rows* rows) {
  std::vector<core::BlockName> names;
  for (uint64_t i = 0; i < flags.blocks; ++i) names.push_back(NameOfBlock(i));
  const double start = DiskClockSeconds();
  const double cpu = tier->Usage().cpu_seconds;
  tier->Get(1, names);
  uint64_t read = 0;
  for (uint64_t got = 0; got < names.size();) {
    for (const kvcache::KvRead& one : tier->TakeReads(16)) {
      read += one.bytes.size();
      ++got;
    }
    SleepMicros(20);
  }
  const double mb = static_cast<double>(read) / 1e6;
  // The files are in the page cache.
  rows->SetCell("disk-tier", "ropeway", "read");
  rows->Add("mb", mb);
  rows->Add("mb_per_s", mb / (DiskClockSeconds() - start));
  rows->Add("tier_cpu_ms_per_mb", (tier->Usage().cpu_seconds - cpu) * 1e3 / mb);
}

// One sequence's end: a few blocks, then Flush; how long until they outlive the process.
void FlushLatency(const DiskTierFlags& flags, kvcache::DiskTier* tier, Rows* rows) {
  std::vector<std::byte> block(flags.block_bytes);
  std::vector<double> seconds;
  for (uint64_t round = 0; round < 20; ++round) {
    SleepMicros(250'000);  // The last flush is longer ago than the interval.
    const double start = DiskClockSeconds();
    for (uint64_t i = 0; i < 5; ++i) tier->Put(NameOfBlock(1'000'000 + round * 5 + i), block);
    tier->Flush();
    while (tier->Usage().pending_bytes > 0) SleepMicros(100);
    seconds.push_back(DiskClockSeconds() - start);
  }
  const Timing timing = Summarize(std::move(seconds));
  rows->SetCell("disk-tier", "ropeway", "flush of 5 blocks");
  rows->Add("median_ms", timing.median * 1e3);
  rows->Add("max_ms", timing.most * 1e3);
}

int RunDiskTier(const DiskTierFlags& flags) {
  base::Output output;
  Rows rows([&output](const std::string& text) { output.Write(text); });
  {
    const auto tier = OpenTier(flags);
    if (!tier.ok()) return base::Fail(tier.status());
    WriteBlocks(flags, tier->get(), &rows);
    ReadBlocks(flags, tier->get(), &rows);
    FlushLatency(flags, tier->get(), &rows);
  }
  const double start = DiskClockSeconds();
  {
    const auto tier = OpenTier(flags);
    if (!tier.ok()) return base::Fail(tier.status());
    rows.SetCell("disk-tier", "ropeway", "open");
    rows.Add("ms", (DiskClockSeconds() - start) * 1e3);
    rows.Add("blocks", static_cast<double>((*tier)->Usage().blocks));
  }
  std::filesystem::remove_all(flags.path);
  return output.End();
}

}  // namespace

flags::Command DiskTierCommand() {
  auto flags = std::make_shared<DiskTierFlags>();
  return {
      "disk-tier",
      "Measure the disk tier on this machine",
      {{"Flags",
        {{"--path", flags::TextValue(&flags->path, "DIR").Required(),
          "An empty or new directory; removed afterwards"},
         {"--blocks", flags::IntValue(&flags->blocks, 1, 1 << 24), "Blocks that are written"},
         {"--block-bytes", flags::IntValue(&flags->block_bytes, 8, 1 << 30), "Bytes of one block"},
         {"--per-flush", flags::IntValue(&flags->per_flush, 1, 1 << 24),
          "Blocks between two flushes"}}}},
      "Example:\n  ropeway-bench disk-tier --path disk-tier --blocks 20",
      [flags] { return RunDiskTier(*flags); }};
}

}  // namespace ropeway::bench
