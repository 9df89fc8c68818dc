// What the disk tier costs on this machine: CPU time per megabyte written and read, bandwidths, how
// long a flush takes, and the space that is taken beside the blocks.
//
// Run it on a machine that does nothing else. The process's CPU time is printed beside the tier's
// own account of it: the latter paces the writes.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "kvcache/disk_tier.h"

namespace {

using ropeway::BlockName;
using ropeway::DiskTier;

const ropeway::RealClock clock_;

double Now() { return ropeway::ToSeconds(clock_.Now()); }

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Sleep(int microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

BlockName Name(uint64_t i) {
  BlockName name;
  std::mt19937_64 random(i);
  for (size_t k = 0; k < 32; k += 8) {
    const uint64_t word = random();
    std::memcpy(name.bytes.data() + k, &word, 8);
  }
  return name;
}

struct Settings {
  std::string path;
  uint64_t blocks = 500;
  size_t block_bytes = 368'640;
  uint64_t per_flush = 20;
};

std::unique_ptr<DiskTier> Open(const Settings& settings) {
  ropeway::DiskTierOptions options{.path = settings.path,
                                   .capacity_bytes = int64_t{8} << 30,
                                   .block_bytes = settings.block_bytes,
                                   .write_rate = int64_t{1} << 40,
                                   .clock = &clock_};
  auto tier = DiskTier::Open(options);
  if (!tier.ok()) {
    fmt::print(stderr, "{}\n", tier.status().message());
    std::exit(1);
  }
  return *std::move(tier);
}

void Write(const Settings& settings, DiskTier* tier) {
  std::vector<std::byte> block(settings.block_bytes);
  std::mt19937_64 random(1);
  for (std::byte& byte : block) byte = static_cast<std::byte>(random());
  const double start = Now();
  const double cpu = ProcessCpuSeconds();
  double put_seconds = 0;
  for (uint64_t i = 0; i < settings.blocks; ++i) {
    std::memcpy(block.data(), &i, sizeof i);
    const double before = Now();
    while (!tier->Put(Name(i), block)) Sleep(200);
    put_seconds += Now() - before;
    if ((i + 1) % settings.per_flush == 0) tier->Flush();
  }
  tier->Flush();
  while (tier->Usage().pending_bytes > 0) Sleep(200);
  const double seconds = Now() - start;
  const auto usage = tier->Usage();
  const double mb = static_cast<double>(usage.written_bytes) / 1e6;
  fmt::print(
      "written: {:.0f} MB at {:.0f} MB/s in {} flushes; CPU ms per MB: {:.3f} of the process (the "
      "bench's own copies included), {:.3f} of the tier's threads\n",
      mb, mb / seconds, tier->flushes(), (ProcessCpuSeconds() - cpu) * 1e3 / mb,
      usage.cpu_seconds * 1e3 / mb);
  fmt::print("space: {:.2f} % more than the blocks\n",
             100.0 * (static_cast<double>(usage.bytes) / (mb * 1e6) - 1));
}

void Read(const Settings& settings, DiskTier* tier, const char* what) {
  std::vector<BlockName> names;
  for (uint64_t i = 0; i < settings.blocks; ++i) names.push_back(Name(i));
  const double start = Now();
  const double cpu = tier->Usage().cpu_seconds;
  tier->Get(1, names);
  uint64_t read = 0;
  for (uint64_t got = 0; got < names.size();) {
    for (const ropeway::KvRead& one : tier->TakeReads(16)) {
      read += one.bytes.size();
      ++got;
    }
    Sleep(20);
  }
  const double mb = static_cast<double>(read) / 1e6;
  fmt::print("read, {}: {:.0f} MB at {:.0f} MB/s; CPU ms per MB: {:.3f} of the tier's threads\n",
             what, mb, mb / (Now() - start), (tier->Usage().cpu_seconds - cpu) * 1e3 / mb);
}

// One sequence's end: a few blocks, then Flush; how long until they outlive the process.
void FlushLatency(const Settings& settings, DiskTier* tier) {
  std::vector<std::byte> block(settings.block_bytes);
  std::vector<double> seconds;
  for (uint64_t round = 0; round < 20; ++round) {
    Sleep(250'000);  // The last flush is longer ago than the interval.
    const double start = Now();
    for (uint64_t i = 0; i < 5; ++i) tier->Put(Name(1'000'000 + round * 5 + i), block);
    tier->Flush();
    while (tier->Usage().pending_bytes > 0) Sleep(100);
    seconds.push_back(Now() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("flush of 5 blocks: median {:.1f} ms, longest {:.1f} ms\n", seconds[10] * 1e3,
             seconds.back() * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("What the disk tier costs on this machine");
  app.add_option("--path", settings.path, "An empty or new directory; emptied afterwards")
      ->required();
  app.add_option("--blocks", settings.blocks, "How many are written")->capture_default_str();
  app.add_option("--block-bytes", settings.block_bytes, "Of one block")->capture_default_str();
  app.add_option("--per-flush", settings.per_flush, "Blocks between two Flush")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  {
    const auto tier = Open(settings);
    Write(settings, tier.get());
    Read(settings, tier.get(), "files in the page cache");
    FlushLatency(settings, tier.get());
  }
  const double start = Now();
  {
    const auto tier = Open(settings);
    fmt::print("opened in {:.0f} ms with {} blocks\n", (Now() - start) * 1e3, tier->Usage().blocks);
  }
  std::filesystem::remove_all(settings.path);
  return 0;
}
