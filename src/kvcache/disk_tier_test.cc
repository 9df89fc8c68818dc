#include "kvcache/disk_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "kvcache/disk_directory.h"
#include "kvcache/test_disk_tier.h"

namespace ropeway::kvcache {
namespace {

using testing::HasSubstr;
using testing::Not;

void Sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

std::vector<core::BlockName> TestNames(uint64_t first, uint64_t last) {
  std::vector<core::BlockName> names;
  for (uint64_t i = first; i < last; ++i) names.push_back(TestName(i));
  return names;
}

TEST(DiskTier, GivesBackWhatWasPut) {
  const TestFolder folder;
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_FALSE(tier->Contains(TestName(1)));
  PutAll(tier.get(), 0, 20);
  EXPECT_TRUE(tier->Contains(TestName(1)));
  EXPECT_EQ(CountRight(tier.get(), 0, 20), 20);  // From the queue or the memtable.
  FlushAll(tier.get());
  EXPECT_EQ(CountRight(tier.get(), 0, 20), 20);  // From the disk.
  const KvTierUsage usage = tier->Usage();
  EXPECT_TRUE(usage.on);
  EXPECT_EQ(usage.blocks, 20U);
  EXPECT_EQ(usage.written_bytes, 20 * kTestBlockBytes);
  EXPECT_EQ(usage.read_bytes, 40 * kTestBlockBytes);
  EXPECT_EQ(usage.rejected_blocks, 0U);
  EXPECT_EQ(usage.pending_bytes, 0U);
  EXPECT_GT(usage.bytes, 20 * kTestBlockBytes);
  EXPECT_GT(usage.cpu_seconds, 0);
}

TEST(DiskTier, ADuplicateIsTrueAndFree) {
  const TestFolder folder;
  const auto tier = OpenTier(TestOptions(folder.path()));
  PutAll(tier.get(), 0, 1);
  PutAll(tier.get(), 0, 1);
  FlushAll(tier.get());
  EXPECT_TRUE(tier->Put(TestName(0), TestBlock(0)));
  EXPECT_EQ(tier->Usage().pending_bytes, 0U);
  FlushAll(tier.get());
  EXPECT_EQ(tier->Usage().written_bytes, kTestBlockBytes);
}

TEST(DiskTier, TakesBlocksOfTheirLengthOrShorter) {
  const TestFolder folder;
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_FALSE(tier->Put(TestName(1), {}));
  EXPECT_FALSE(tier->Put(TestName(1), TestBlock(1, kTestBlockBytes + 1)));
  EXPECT_TRUE(tier->Put(TestName(1), TestBlock(1, 5)));
  EXPECT_EQ(ReadOne(tier.get(), TestName(1)), TestBlock(1, 5));
}

TEST(DiskTier, AReadEndsAtTheFirstThatIsMissing) {
  const TestFolder folder;
  const auto tier = OpenTier(TestOptions(folder.path()));
  PutAll(tier.get(), 0, 5);
  const std::vector<KvRead> reads =
      ReadMany(tier.get(), {TestName(0), TestName(1), TestName(99), TestName(2)});
  ASSERT_EQ(reads.size(), 3U);
  EXPECT_EQ(reads[1].bytes, TestBlock(1));
  EXPECT_TRUE(reads[2].bytes.empty());
  EXPECT_EQ(tier->Usage().rejected_blocks, 0U);  // Not there is not broken.
}

TEST(DiskTier, WakesAndCancels) {
  const TestFolder folder;
  const auto tier = OpenTier(TestOptions(folder.path()));
  PutAll(tier.get(), 0, 50);
  FlushAll(tier.get());
  std::atomic<int> wakes = 0;
  tier->SetWake([&wakes] { ++wakes; });
  ASSERT_TRUE(tier->Get(1, TestNames(0, 50)));
  while (wakes == 0) Sleep(1);
  tier->Cancel(1);
  EXPECT_TRUE(tier->TakeReads(100).empty());
  ASSERT_TRUE(tier->Get(1, {TestName(7)}));
  std::vector<KvRead> reads;
  while ((reads = tier->TakeReads(100)).empty()) Sleep(1);
  ASSERT_EQ(reads.size(), 1U);
  EXPECT_EQ(reads[0].bytes, TestBlock(7));
  tier->SetWake(nullptr);
  const int before = wakes;
  EXPECT_TRUE(ReadOne(tier.get(), TestName(8)));
  EXPECT_EQ(wakes, before);
}

TEST(DiskTier, WhatIsErasedIsGoneAlsoAfterARestart) {
  const TestFolder folder;
  {
    const auto tier = OpenTier(TestOptions(folder.path()));
    PutAll(tier.get(), 0, 4);
    tier->Erase(TestName(0));  // Queued, perhaps.
    FlushAll(tier.get());
    tier->Erase(TestName(1));
    EXPECT_FALSE(tier->Contains(TestName(1)));
    EXPECT_FALSE(ReadOne(tier.get(), TestName(1)));
    PutAll(tier.get(), 1, 2);
    tier->Erase(TestName(2));
    EXPECT_TRUE(ReadOne(tier.get(), TestName(1)));
    FlushAll(tier.get());
    EXPECT_EQ(tier->Usage().blocks, 2U);
  }
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_FALSE(tier->Contains(TestName(0)));
  EXPECT_TRUE(tier->Contains(TestName(1)));
  EXPECT_FALSE(tier->Contains(TestName(2)));
  EXPECT_EQ(CountRight(tier.get(), 0, 4), 2);
}

TEST(DiskTier, ARestartFindsAllAlsoWhatWasNotFlushed) {
  const TestFolder folder;
  {
    DiskTierOptions options = TestOptions(folder.path());
    options.cache.disk_write_rate = 1;  // The end of the tier does not wait for it.
    const auto tier = OpenTier(options);
    PutAll(tier.get(), 0, 100);
  }
  const LogText log;
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_EQ(tier->Usage().blocks, 100U);
  EXPECT_EQ(CountRight(tier.get(), 0, 100), 100);
  EXPECT_THAT(log.text(), HasSubstr("100 KV blocks"));
  EXPECT_THAT(log.text(), Not(HasSubstr("stopped")));
}

TEST(DiskTier, UnaskedItIsFlushedAfterAWhile) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.longest_in_memory = std::chrono::milliseconds(50);
  const auto tier = OpenTier(options);
  PutAll(tier.get(), 0, 3);
  while (tier->Usage().blocks < 3) Sleep(1);
  EXPECT_GE(tier->flushes(), 1U);  // More where the machine was slow to put them.
}

// Runs this test again in a process of its own, which ends by SIGKILL.
void RunUntilKilled(const TestFolder& folder) {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  const pid_t child = fork();
  if (child == 0) {
    setenv("ROPEWAY_TEST_KILL_IN", folder.path().c_str(), 1);
    execl("/proc/self/exe", "kvcache_test", filter.c_str(), nullptr);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(DiskTier, AKillLosesNothingThatWasFlushed) {
  if (const char* const path = std::getenv("ROPEWAY_TEST_KILL_IN")) {
    DiskTierOptions options = TestOptions(path);
    const auto tier = OpenTier(options);
    const uint64_t first = tier->Usage().blocks;
    PutAll(tier.get(), first, first + 40);
    FlushAll(tier.get());
    PutAll(tier.get(), 1000, 1005);  // Not flushed: may be lost.
    kill(getpid(), SIGKILL);
  }
  const TestFolder folder;
  for (int kills = 1; kills <= 5; ++kills) {
    RunUntilKilled(folder);
    const LogText log;
    const auto tier = OpenTier(TestOptions(folder.path()));
    EXPECT_EQ(tier->Usage().blocks, 40U * static_cast<unsigned>(kills));
    EXPECT_EQ(CountRight(tier.get(), 0, 40 * static_cast<uint64_t>(kills)), 40 * kills);
    EXPECT_EQ(tier->Usage().rejected_blocks, 0U);
    EXPECT_THAT(log.text(), HasSubstr("the last process was killed while "));
  }
}

TEST(DiskTier, BlocksOfAnotherSizeAreRemovedAtTheStart) {
  const TestFolder folder;
  std::filesystem::create_directory(folder.In("lost+found"));
  {
    const auto tier = OpenTier(TestOptions(folder.path()));
    PutAll(tier.get(), 0, 10);
  }
  const LogText log;
  DiskTierOptions options = TestOptions(folder.path());
  options.block_bytes += 16;
  const auto tier = OpenTier(options);
  EXPECT_EQ(tier->Usage().blocks, 0U);
  EXPECT_FALSE(tier->Contains(TestName(1)));
  EXPECT_EQ(log.CountOf("and are removed"), 1);
  EXPECT_TRUE(std::filesystem::exists(folder.In("lost+found")));
  PutAll(tier.get(), 0, 10);
  EXPECT_EQ(CountRight(tier.get(), 0, 10), 10);
}

TEST(DiskTier, TheCapacityHoldsAndOldGenerationsGiveTheirSpaceBack) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.cache.disk_bytes = 12 << 20;
  options.memtable_bytes = 256 << 10;
  options.memory_bytes = 1 << 20;  // So that what is measured is not far behind what is put.
  const auto tier = OpenTier(options);
  uint64_t most = 0;
  const uint64_t blocks = 2000;  // 40 MB.
  for (uint64_t i = 0; i < blocks; i += 10) {
    PutAll(tier.get(), i, i + 10);
    tier->Flush();
    most = std::max(most, DiskUsage(folder.path()));
  }
  FlushAll(tier.get());
  const auto capacity = static_cast<uint64_t>(options.cache.disk_bytes);
  EXPECT_LE(most, capacity);
  EXPECT_GT(most, capacity / 10 * 8);  // And it is used.
  const KvTierUsage usage = tier->Usage();
  EXPECT_LE(usage.bytes, capacity);
  EXPECT_NEAR(static_cast<double>(usage.bytes), static_cast<double>(DiskUsage(folder.path())),
              0.02 * static_cast<double>(capacity));
  EXPECT_EQ(usage.blocks + usage.evicted_blocks, blocks);
  // The newest are there, the oldest are not.
  const uint64_t first = blocks - usage.blocks;
  for (uint64_t i = 0; i < blocks; ++i) EXPECT_EQ(tier->Contains(TestName(i)), i >= first) << i;
  EXPECT_EQ(CountRight(tier.get(), blocks - 300, blocks), 300);
  EXPECT_GT(usage.blocks * kTestBlockBytes, capacity / 10 * 7);
}

TEST(DiskTier, ASmallerCapacityHoldsFromTheStart) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.cache.disk_bytes = 12 << 20;
  {
    const auto tier = OpenTier(options);
    PutAll(tier.get(), 0, 500);
  }
  options.cache.disk_bytes = 6 << 20;
  const auto tier = OpenTier(options);
  EXPECT_LE(DiskUsage(folder.path()), 6U << 20);
  EXPECT_GT(tier->Usage().blocks, 100U);
  EXPECT_TRUE(ReadOne(tier.get(), TestName(499)));
}

TEST(DiskTier, WhatIsReadAgainAndAgainStays) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.cache.disk_bytes = 12 << 20;
  options.memtable_bytes = 256 << 10;
  const auto tier = OpenTier(options);
  PutAll(tier.get(), 0, 1);
  for (uint64_t i = 10; i < 2000; i += 40) {
    PutAll(tier.get(), i, i + 40);
    FlushAll(tier.get());
    ASSERT_TRUE(ReadOne(tier.get(), TestName(0))) << i;
  }
  EXPECT_FALSE(tier->Contains(TestName(10)));
}

TEST(DiskTier, HoldsNoMoreInMemoryThanItMay) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.memory_bytes = 64 * kTestBlockBytes;
  options.cache.disk_write_rate = 1;
  const auto tier = OpenTier(options);
  uint64_t taken = 0;
  while (tier->Put(TestName(taken), TestBlock(taken))) ++taken;
  EXPECT_EQ(taken, 48U);
  EXPECT_FALSE(tier->Contains(TestName(taken)));
  // Reads wait for TakeReads, the engine waits for nothing.
  ASSERT_TRUE(tier->Get(1, TestNames(0, taken)));
  while (tier->Usage().pending_bytes < 64 * kTestBlockBytes) Sleep(1);
  Sleep(50);
  EXPECT_EQ(tier->Usage().pending_bytes, 64 * kTestBlockBytes);
  uint64_t read = 0;
  while (read < taken) {
    for (const KvRead& one : tier->TakeReads(1)) {
      EXPECT_EQ(one.index, read);
      EXPECT_EQ(one.bytes, TestBlock(read++));
    }
    EXPECT_LE(tier->Usage().pending_bytes, options.memory_bytes);
  }
}

TEST(DiskTier, FlushesComeNoMoreOftenThanTheInterval) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.flush_interval = std::chrono::milliseconds(100);
  const auto tier = OpenTier(options);
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < 100; ++i) {
    PutAll(tier.get(), i, i + 1);
    tier->Flush();
    Sleep(5);
  }
  FlushAll(tier.get());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(static_cast<double>(tier->flushes()), seconds / 0.1 + 1);
  EXPECT_GE(tier->flushes(), 2U);
  const uint64_t before = tier->flushes();
  tier->Flush();  // Nothing to do.
  Sleep(250);
  EXPECT_EQ(tier->flushes(), before);
}

TEST(DiskTier, ReadsDoNotWaitForTheRateOfWrites) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.cache.disk_write_rate = 1;  // Hours for each block.
  const auto tier = OpenTier(options);
  PutAll(tier.get(), 0, 20);
  EXPECT_EQ(CountRight(tier.get(), 0, 20), 20);
}

TEST(DiskTier, WritesAtTheRateGiven) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.cache.disk_write_rate = 20 * kTestBlockBytes;
  const auto tier = OpenTier(options);
  const auto start = std::chrono::steady_clock::now();
  PutAll(tier.get(), 0, 20);
  FlushAll(tier.get());
  // 5 at once: the bucket.
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(650));
}

struct Broken {
  const char* name;
  void (*breaks)(FaultyDisk*);

  friend void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }
};

class DiskTierError : public testing::TestWithParam<Broken> {};

TEST_P(DiskTierError, TurnsItOffWithOneLineAndKeepsWhatWasFlushed) {
  const TestFolder folder;
  FaultyDisk disk;
  DiskTierOptions options = TestOptions(folder.path());
  options.env = disk.env();
  {
    const LogText log;
    const auto tier = OpenTier(options);
    std::atomic<int> wakes = 0;
    tier->SetWake([&wakes] { ++wakes; });
    PutAll(tier.get(), 0, 10);
    FlushAll(tier.get());
    GetParam().breaks(&disk);
    EXPECT_TRUE(tier->Put(TestName(10), TestBlock(10)));
    FlushAll(tier.get());
    while (tier->Usage().on || wakes == 0) Sleep(1);
    ExpectOff(tier.get());
    tier->SetWake(nullptr);
    EXPECT_EQ(log.CountOf("is off until the next start"), 1) << log.text();
    EXPECT_THAT(log.text(), HasSubstr("a test's"));
  }
  const auto tier = OpenTier(TestOptions(folder.path()));
  EXPECT_EQ(CountRight(tier.get(), 0, 11), 10);
}

INSTANTIATE_TEST_SUITE_P(
    , DiskTierError,
    testing::Values(Broken{"FullDisk", [](FaultyDisk* disk) { disk->free_bytes = 1000; }},
                    Broken{"WritesFail", [](FaultyDisk* disk) { disk->fail_writes = true; }}),
    [](const auto& test) { return test.param.name; });

TEST(DiskTier, ReadsThatTheDeviceFailsAreNoBlocksAndInARowTheTiersEnd) {
  const TestFolder folder;
  FaultyDisk disk;
  DiskTierOptions options = TestOptions(folder.path());
  options.env = disk.env();
  const auto tier = OpenTier(options);
  PutAll(tier.get(), 0, 40);
  FlushAll(tier.get());
  disk.fail_reads = true;
  EXPECT_FALSE(ReadOne(tier.get(), TestName(0)));
  EXPECT_FALSE(tier->Contains(TestName(0)));
  EXPECT_EQ(tier->Usage().rejected_blocks, 1U);
  disk.fail_reads = false;
  EXPECT_TRUE(ReadOne(tier.get(), TestName(1)));
  disk.fail_reads = true;
  for (uint64_t i = 1; tier->Usage().on; ++i) {
    ASSERT_LE(i, DiskTier::kMaxDeviceErrors + 1);
    EXPECT_FALSE(ReadOne(tier.get(), TestName(i)));
  }
}

TEST(DiskTier, WrongBytesFromTheDeviceAreNeverServed) {
  const TestFolder folder;
  FaultyDisk disk;
  DiskTierOptions options = TestOptions(folder.path());
  options.env = disk.env();
  const auto tier = OpenTier(options);
  PutAll(tier.get(), 0, 40);
  FlushAll(tier.get());
  disk.flip_reads = true;
  EXPECT_EQ(CountRight(tier.get(), 0, 20), 0);
  EXPECT_EQ(tier->Usage().rejected_blocks, 20U);
  EXPECT_TRUE(tier->Usage().on);
  disk.flip_reads = false;
  EXPECT_EQ(CountRight(tier.get(), 0, 40), 20);
  PutAll(tier.get(), 0, 20);  // Computed again, stored again.
  FlushAll(tier.get());
  EXPECT_EQ(CountRight(tier.get(), 0, 40), 40);
}

TEST(DiskTier, WhatCannotBeUsedIsOneSentence) {
  const TestFolder folder;
  const auto error = [](const DiskTierOptions& options) {
    const StatusOr<std::unique_ptr<DiskTier>> tier = DiskTier::Open(options);
    return tier.ok() ? "" : tier.status().field() + ": " + tier.status().message();
  };
  const DiskTierOptions good = TestOptions(folder.In("tier"));
  const auto tier = OpenTier(good);
  EXPECT_THAT(error(good), HasSubstr("kv_disk_path (--kv-disk-path): '" + good.cache.disk_path +
                                     "': another process uses it"));
  DiskTierOptions options = TestOptions(folder.In("file"));
  std::ofstream(options.cache.disk_path) << "a file";
  EXPECT_THAT(error(options),
              HasSubstr("kv_disk_path (--kv-disk-path): '" + options.cache.disk_path + "'"));
  options = TestOptions(folder.In("small"));
  options.cache.disk_bytes = DiskTier::MinCapacity(options.block_bytes) - 1;
  EXPECT_THAT(error(options), HasSubstr("kv_disk_bytes (--kv-disk-size) is "));
  options.cache.disk_bytes += 1;
  const auto small = OpenTier(options);
  PutAll(small.get(), 0, 60);  // The least does work.
  FlushAll(small.get());
  EXPECT_GE(small->Usage().blocks, 4U);
  EXPECT_LE(DiskUsage(options.cache.disk_path), static_cast<uint64_t>(options.cache.disk_bytes));
}

// Random calls of all methods, as by the engine thread.
TEST(DiskTier, AnythingAtAnyTimeGivesRightBytes) {
  const TestFolder folder;
  DiskTierOptions options = TestOptions(folder.path());
  options.cache.disk_bytes = 4 << 20;
  options.memtable_bytes = 128 << 10;
  options.memory_bytes = 32 * kTestBlockBytes;
  std::mt19937 random(1);
  for (int restarts = 0; restarts < 3; ++restarts) {
    const auto tier = OpenTier(options);
    tier->SetWake([] {});
    PutAll(tier.get(), 1, 150);
    std::vector<uint64_t> first_of(8, 0);  // By ticket, of the read under way; 0: none.
    int right = 0;
    const auto take = [&] {
      for (const KvRead& read : tier->TakeReads(5)) {
        uint64_t& first = first_of[read.ticket];
        ASSERT_NE(first, 0U);
        if (!read.bytes.empty()) {
          EXPECT_EQ(read.bytes, TestBlock(first + read.index));
          ++right;
        }
        if (read.bytes.empty() || read.index == 3) first = 0;
      }
    };
    for (int i = 0; i < 3000 || right < 100; ++i) {
      if (i % 8 == 0) std::this_thread::yield();
      const uint64_t block = 1 + random() % 300;
      const uint64_t ticket = random() % first_of.size();
      switch (random() % 8) {
        case 0:
          tier->Flush();
          break;
        case 1:
          tier->Erase(TestName(block));
          break;
        case 2:
          tier->Cancel(ticket);
          first_of[ticket] = 0;
          break;
        case 3:
        case 4:
          if (first_of[ticket] == 0 && tier->Get(ticket, TestNames(block, block + 4))) {
            first_of[ticket] = block;
          }
          break;
        default:
          tier->Put(TestName(block), TestBlock(block));
      }
      take();
      EXPECT_LE(tier->Usage().pending_bytes, options.memory_bytes + kTestBlockBytes);
    }
    EXPECT_TRUE(tier->Usage().on);
    EXPECT_EQ(tier->Usage().rejected_blocks, 0U);
  }
}

}  // namespace
}  // namespace ropeway::kvcache
