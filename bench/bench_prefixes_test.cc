#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/bench_prefixes_command.h"
#include "bench/trace_slice.h"

namespace ropeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PrefixRequest Request(std::vector<uint64_t> blocks) { return {0, 40, 4, std::move(blocks)}; }

TEST(ParsePools, TakesRisingShares) {
  EXPECT_THAT(*ParsePools("5,10.5,100"), ElementsAre(5, 10.5, 100));
  for (const char* wrong : {"", "0", "101", "5,5", "10,5", "5,", "x", "5;10", "nan"}) {
    const auto pools = ParsePools(wrong);
    ASSERT_FALSE(pools.ok()) << wrong;
    EXPECT_THAT(pools.status().message(), HasSubstr("--pools: expected rising numbers")) << wrong;
  }
}

TEST(WarmUpRequests, AreWhatTheTraceKnewBeforeEachOnce) {
  const std::vector<PrefixRequest> before = {Request({1, 2}), Request({1, 3, 4}), Request({9})};
  const std::vector<PrefixRequest> slice = {Request({1, 2}),    Request({1, 5}), Request({1, 3, 7}),
                                            Request({1, 2, 8}), Request({6}),    Request({6, 9})};
  const std::vector<PrefixRequest> warm = WarmUpRequests(before, slice, 32);
  // {1} is a part of {1, 2}; 6 was unknown, so 9 behind it is no prefix.
  ASSERT_EQ(warm.size(), 2U);
  EXPECT_THAT(warm[0].blocks, ElementsAre(1, 2));
  EXPECT_EQ(warm[0].input_tokens, 64);
  EXPECT_EQ(warm[0].output_tokens, 1);
  EXPECT_THAT(warm[1].blocks, ElementsAre(1, 3));
  EXPECT_TRUE(WarmUpRequests({}, slice, 32).empty());
}

}  // namespace
}  // namespace ropeway
