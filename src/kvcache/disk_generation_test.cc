#include "kvcache/disk_generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kvcache/test_disk_tier.h"

namespace ropeway::kvcache {
namespace {

std::vector<std::byte> Stored(uint64_t i, size_t bytes) {
  const std::vector<std::byte> block = TestBlock(i, bytes);
  const auto header = DiskHeader(TestName(i), block);
  std::vector<std::byte> stored(header.size() + block.size());
  std::copy(block.begin(), block.end(), std::copy(header.begin(), header.end(), stored.begin()));
  return stored;
}

TEST(DiskBlock, WhatWasStoredIsFound) {
  const std::vector<std::byte> stored = Stored(1, 300);
  const auto found = CheckDiskBlock(TestName(1), stored);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::vector<std::byte>(found->begin(), found->end()), TestBlock(1, 300));
}

TEST(DiskBlock, AnyChangedBitIsSeen) {
  std::vector<std::byte> stored = Stored(1, 300);
  for (size_t bit = 0; bit < stored.size() * 8; ++bit) {
    stored[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(CheckDiskBlock(TestName(1), stored)) << bit;
    stored[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(DiskBlock, AnyOtherLengthIsSeen) {
  std::vector<std::byte> stored = Stored(1, 300);
  for (size_t size = 0; size < stored.size(); ++size) {
    EXPECT_FALSE(CheckDiskBlock(TestName(1), std::span(stored).first(size))) << size;
  }
  stored.push_back(std::byte{0});
  EXPECT_FALSE(CheckDiskBlock(TestName(1), stored));
}

TEST(DiskBlock, AnotherBlockIsSeen) { EXPECT_FALSE(CheckDiskBlock(TestName(2), Stored(1, 300))); }

}  // namespace

}  // namespace ropeway::kvcache
