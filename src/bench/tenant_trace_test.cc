#include "bench/tenant_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Trace Entries() {
  Trace trace;
  for (const auto& [arrival, client, input, output] :
       {std::tuple(0.0, 7, 10, 45), {1.0, 3, 4, 2}, {10.0, 7, 10, 45}}) {
    TraceEntry& entry = trace.entries.emplace_back();
    entry.arrival = arrival;
    entry.client = client;
    entry.input_tokens = input;
    entry.output_tokens = output;
  }
  return trace;
}

TEST(TenantTrace, DividesLengthsAndNumbersClients) {
  const auto requests = TenantTrace(Entries(), 4, 0);
  ASSERT_TRUE(requests.ok());
  ASSERT_EQ(requests->size(), 3U);
  EXPECT_EQ((*requests)[0].input_tokens, 3);
  EXPECT_EQ((*requests)[0].output_tokens, 12);
  EXPECT_EQ((*requests)[0].client, 0);
  EXPECT_EQ((*requests)[1].client, 1);
  EXPECT_EQ((*requests)[2].client, 0);
  EXPECT_EQ(CountClients(*requests), 2);
  EXPECT_EQ(TenantTrace(Entries(), 1, 2)->size(), 2U);
}

TEST(TenantTrace, RefusesWhatHasNoClientsOrTimes) {
  Trace trace = Entries();
  trace.entries[1].arrival.reset();
  EXPECT_THAT(TenantTrace(trace, 1, 0).status().message(), HasSubstr("--trace"));
  EXPECT_FALSE(TenantTrace(Entries(), 1, 1).ok());
}

TEST(TimeFactor, MakesTheLoad) {
  const auto requests = *TenantTrace(Entries(), 1, 0);
  const ServiceWeights weights{.input = 1, .output = 2};
  EXPECT_DOUBLE_EQ(WorkOf(requests, weights), 100 + 8 + 100);
  // 208 units at 20.8 a second are 10 s of work; at twice the capacity they arrive within 5 s.
  EXPECT_DOUBLE_EQ(TimeFactor(requests, weights, 20.8, 2), 0.5);
}

TEST(LightClients, AreThoseBelowTheFairShare) {
  const auto requests = *TenantTrace(Entries(), 1, 0);
  const ServiceWeights weights{.input = 1, .output = 2};
  EXPECT_THAT(LightClients(requests, weights, 1.25), ElementsAre(false, true));
  // There is enough for all.
  EXPECT_THAT(LightClients(requests, weights, 0.5), ElementsAre(true, true));
}

}  // namespace
}  // namespace ropeway
