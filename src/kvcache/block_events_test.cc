#include "kvcache/block_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>

#include "kvcache/event_publisher.h"
#include "kvcache/test_kv_cache.h"

namespace ropeway::kvcache {
namespace {

using Kind = BlockEvent::Kind;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int32_t kBlock = base::kBlockTokens;

class BlockEventsTest : public KvCacheTest {
 protected:
  void MakeWithEvents(int32_t blocks, KvCacheOptions options = {}) {
    options.events = &events_;
    Make(blocks, std::move(options));
  }

  // What was told since the last call.
  std::vector<BlockEvent> Told() {
    kv_->SettleEvents();
    return std::exchange(told_, {});
  }

  std::vector<BlockEvent> told_;
  bool has_room_ = true;
  BlockEvents events_{[this](std::vector<BlockEvent> events) {
    if (!has_room_) {
      told_ = {{.kind = BlockEvent::Kind::kCleared}};
      return false;
    }
    told_.insert(told_.end(), events.begin(), events.end());
    return true;
  }};
};

TEST_F(BlockEventsTest, BlocksAreToldOfOnceTheyAreComputed) {
  MakeWithEvents(8);
  core::Sequence* sequence = New(2 * kBlock + 3);
  ASSERT_TRUE(Start(sequence));
  EXPECT_THAT(Told(), IsEmpty());
  Compute(sequence, 2 * kBlock + 3);
  const std::vector<BlockEvent> told = Told();
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].kind, Kind::kStored);
  EXPECT_EQ(told[0].hash, EventHash(sequence->kv.names[0]));
  EXPECT_EQ(told[0].parent, std::nullopt);
  EXPECT_EQ(told[0].ids.front(), sequence->ids()[0]);
  EXPECT_EQ(told[1].parent, told[0].hash);
  EXPECT_THAT(told[1].ids, SizeIs(kBlock));
  EXPECT_EQ(told[1].ids.back(), sequence->ids()[2 * kBlock - 1]);
  // Another one with the same beginning has nothing new but its own block.
  Release(sequence);
  Run(New(2 * kBlock + 1, kBlock));
  EXPECT_THAT(Told(), SizeIs(1));
}

TEST_F(BlockEventsTest, HashesAreTheBeginningsOfNames) {
  core::BlockName name;
  for (size_t i = 0; i < 32; ++i) name.bytes[i] = static_cast<uint8_t>(i + 1);
  EXPECT_EQ(EventHash(name), 0x0102030405060708U);
}

TEST_F(BlockEventsTest, WhatIsEvictedIsRemovedUnlessTheTierHasIt) {
  KvCacheOptions options;
  options.tier = &tier_;
  MakeWithEvents(4, options);
  core::Sequence* first = Run(New(2 * kBlock));
  const std::vector<BlockEvent> stored = Told();
  ASSERT_THAT(stored, SizeIs(2));
  Release(first);
  tier_.Put(first->kv.names[1], {});
  tier_.blocks[first->kv.names[1]] = {std::byte{1}};
  // It takes all four.
  core::Sequence* second = Run(New(3 * kBlock + 1, 0));
  std::vector<BlockEvent> told = Told();
  ASSERT_THAT(told, SizeIs(4));
  EXPECT_EQ(std::count_if(told.begin(), told.end(),
                          [](const BlockEvent& event) { return event.kind == Kind::kRemoved; }),
            1);
  const auto removed = std::find_if(told.begin(), told.end(), [](const BlockEvent& event) {
    return event.kind == Kind::kRemoved;
  });
  EXPECT_EQ(removed->hash, stored[0].hash);
  // Once the tier drops it too, it is gone.
  tier_.Erase(first->kv.names[1]);
  EXPECT_THAT(Told(), IsEmpty()) << "the tier has not said so";
  tier_.off = true;
  EXPECT_THAT(Told(), ElementsAre(BlockEvent{.kind = Kind::kRemoved, .hash = stored[1].hash}));
  Release(second);
}

TEST_F(BlockEventsTest, AReaderWithoutRoomForgetsAll) {
  MakeWithEvents(12);
  core::Sequence* first = Run(New(2 * kBlock));
  const std::vector<BlockEvent> stored = Told();
  ASSERT_THAT(stored, SizeIs(2));
  has_room_ = false;
  core::Sequence* second = Run(New(kBlock, 0));
  EXPECT_THAT(Told(), ElementsAre(BlockEvent{.kind = Kind::kCleared}));
  EXPECT_EQ(events_.announced(), 0U);
  has_room_ = true;
  EXPECT_THAT(Told(), IsEmpty());
  core::Sequence* third = Run(New(kBlock, 0));
  EXPECT_THAT(Told(), SizeIs(1));
  // What the pool has is told of again when it is found.
  core::Sequence* fourth = New(2 * kBlock + 1, 2 * kBlock);
  ASSERT_TRUE(Start(fourth));
  EXPECT_EQ(fourth->computed, 2 * kBlock);
  EXPECT_EQ(Told(), stored);
  core::Sequence* fifth = New(2 * kBlock + 1, 2 * kBlock);
  ASSERT_TRUE(Start(fifth));
  EXPECT_THAT(Told(), IsEmpty());
  for (core::Sequence* sequence : {first, second, third, fourth, fifth}) Release(sequence);
}

TEST_F(BlockEventsTest, ClearTakesAllBack) {
  MakeWithEvents(8);
  core::Sequence* sequence = Run(New(kBlock));
  events_.Clear();
  EXPECT_THAT(Told(), ElementsAre(BlockEvent{.kind = Kind::kCleared}));
  EXPECT_EQ(events_.announced(), 0U);
  EXPECT_FALSE(events_.unsettled());
  Release(sequence);
}

// A name that no pool has, made from a number.
core::BlockName NameFrom(uint32_t number) {
  core::BlockName name;
  for (size_t i = 0; i < sizeof number; ++i) {
    name.bytes[i] = name.bytes[i + 8] = static_cast<uint8_t>(number >> (8 * i));
  }
  return name;
}

TEST_F(BlockEventsTest, ATierThatDropsBlocksAllTheTimeIsScannedToTheEnd) {
  constexpr uint32_t kBlocks = 2000;
  KvCacheOptions options;
  options.tier = &tier_;
  MakeWithEvents(4, options);
  tier_.capacity = kBlocks;
  const std::vector<TokenId> ids(kBlock);
  for (uint32_t i = 0; i < kBlocks; ++i) {
    tier_.Put(NameFrom(i), {});
    events_.Stored(NameFrom(i), nullptr, ids);
  }
  ASSERT_THAT(Told(), SizeIs(kBlocks));
  std::set<uint64_t> removed;
  for (uint32_t step = 0; step < 100; ++step) {
    tier_.Put(NameFrom(kBlocks + step), {});
    for (const BlockEvent& event : Told()) removed.insert(event.hash);
  }
  for (uint32_t i = 0; i < 10; ++i) EXPECT_TRUE(removed.contains(EventHash(NameFrom(i)))) << i;
  // The last one was dropped in the midst of a scan.
  for (int calls = 0; events_.unsettled() && calls < 1000; ++calls) {
    for (const BlockEvent& event : Told()) removed.insert(event.hash);
  }
  EXPECT_THAT(removed, SizeIs(100));
}

TEST_F(BlockEventsTest, WhatTheTierRejectsIsRemoved) {
  KvCacheOptions options;
  options.tier = &tier_;
  MakeWithEvents(4, options);
  tier_.Put(NameFrom(1), {});
  events_.Stored(NameFrom(1), nullptr, std::vector<TokenId>(kBlock));
  ASSERT_THAT(Told(), SizeIs(1));
  tier_.Erase(NameFrom(1));
  tier_.rejected = 1;
  EXPECT_THAT(Told(), SizeIs(1));
}

TEST_F(BlockEventsTest, AGroupThatSeesAllStandsForAll) {
  KvCacheOptions options;
  options.windows = {100 * kBlock, 0};
  MakeWithEvents(12, options);
  core::Sequence* sequence = Run(New(3 * kBlock));
  EXPECT_EQ(events_.group(), 1);
  const std::vector<BlockEvent> told = Told();
  ASSERT_THAT(told, SizeIs(3));
  EXPECT_EQ(told[2].hash, EventHash(sequence->kv.names[2]));
  Release(sequence);
  EXPECT_THAT(Told(), IsEmpty());
  Run(New(5 * kBlock, 0));
  const std::vector<BlockEvent> later = Told();
  EXPECT_TRUE(std::any_of(later.begin(), later.end(),
                          [](const BlockEvent& event) { return event.kind == Kind::kRemoved; }));
}

// What a reader knows is what there is, whatever comes in which order.
TEST_F(BlockEventsTest, AReaderKnowsWhatThereIs) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t most) { return static_cast<int32_t>(random() % most); };
    sequences_.clear();
    tier_ = TestTier();
    tier_.capacity = 8;
    tier_.evict_quarters = seed % 2 == 0;
    told_.clear();
    KvCacheOptions options;
    options.tier = &tier_;
    kv_.reset();
    std::vector<BlockEvent> all;
    BlockEvents events{[&](std::vector<BlockEvent> told) {
      const bool has_room = seed % 5 > 0 || random() % 20 > 0;
      if (!has_room) {
        all = {{.kind = Kind::kCleared}};
        return false;
      }
      all.insert(all.end(), told.begin(), told.end());
      return true;
    }};
    options.events = &events;
    Make(16, options);
    BlockDirectory reader;
    std::unordered_map<uint64_t, core::BlockName> names;
    std::vector<core::Sequence*> running;
    for (int step = 0; step < 200; ++step) {
      if (running.size() < 3 && below(2) == 0) {
        core::Sequence* sequence = New(1 + below(5 * kBlock), below(4) * kBlock);
        if (Start(sequence)) running.push_back(sequence);
      } else if (!running.empty()) {
        const auto which = static_cast<size_t>(below(static_cast<uint32_t>(running.size())));
        core::Sequence* sequence = running[which];
        if (sequence->computed < sequence->num_ids()) {
          Compute(sequence, std::min(sequence->num_ids(), sequence->computed + 1 + below(40)));
        } else {
          Release(sequence);
          running.erase(running.begin() + static_cast<ptrdiff_t>(which));
        }
      }
      for (const BlockPool::Evicted& evicted : kv_->evicted()) {
        if (below(3) > 0) tier_.Put(evicted.name, std::vector<std::byte>(4));
      }
      kv_->ClearEvicted();
      core::BlockId to_store = 0;
      if (below(3) == 0 && kv_->NextToStore(&to_store)) {
        tier_.Put(kv_->pool().name(to_store), std::vector<std::byte>(4));
      }
      do {
        kv_->SettleEvents();
      } while (events.scanning());
      for (const BlockEvent& event : std::exchange(all, {})) {
        if (event.kind == Kind::kStored && event.parent.has_value() && seed % 5 != 0) {
          ASSERT_TRUE(names.contains(*event.parent));
        }
        reader.Apply(event);
      }
      for (const auto& sequence : sequences_) {
        for (const core::BlockName& name : sequence->kv.names) names[EventHash(name)] = name;
      }
      ASSERT_EQ(reader.size(), events.announced());
      std::set<uint64_t> known;
      for (const BlockEvent& event : reader.All()) {
        known.insert(event.hash);
        const core::BlockName& name = names.at(event.hash);
        const core::BlockId block = kv_->pool().Find(name);
        ASSERT_TRUE((block >= 0 && !kv_->pool().pending(block)) || tier_.Contains(name));
      }
      if (seed % 5 == 0) continue;
      for (const auto& [hash, name] : names) {
        const core::BlockId block = kv_->pool().Find(name);
        if (block < 0 || kv_->pool().pending(block)) continue;
        ASSERT_TRUE(known.contains(hash));
      }
    }
    for (core::Sequence* sequence : running) Release(sequence);
  }
}

}  // namespace
}  // namespace ropeway::kvcache
