#include "core/sequence.h"

#include <gtest/gtest.h>

#include <vector>

namespace ropeway::core {
namespace {

TEST(SequenceTest, BeginsBehindWhatWasGeneratedBefore) {
  CoreRequest request;
  request.id = 7;
  request.prompt = {1, 2, 3};
  request.resume_ids = {4, 5};
  request.max_tokens = 9;
  request.tenant = "a";
  request.stop_ids = {9, 8};
  request.spec.params.min_tokens = 4;
  Sequence sequence(request, 11);
  EXPECT_EQ(sequence.ids(), (std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_EQ(sequence.num_ids(), 5);
  EXPECT_EQ(sequence.generated(), 2);
  EXPECT_EQ(sequence.spec.prompt_len, 3);
  EXPECT_EQ(sequence.order, 11U) << "the order in which it came";
  EXPECT_EQ(sequence.request.tenant, "a");
  EXPECT_EQ(sequence.request.stop_ids, (std::vector<TokenId>{8, 9})) << "sorted";
  EXPECT_EQ(sequence.min_tokens, 4);
  sequence.Append(6);
  EXPECT_EQ(sequence.ids().back(), 6);
  EXPECT_EQ(sequence.generated(), 3);
  request.order = 2;
  EXPECT_EQ(Sequence(request, 11).order, 2U);
}

TEST(SequenceTest, KindsOfSampling) {
  using Kind = SampleKind;
  SampleSpec spec;
  spec.params.temperature = 0.0F;
  EXPECT_EQ(SampleKindOf(spec), Kind::kLargest);
  spec.params.top_p = 0.5F;
  EXPECT_EQ(SampleKindOf(spec), Kind::kLargest) << "greedy";
  spec.params.presence_penalty = 1.0F;
  EXPECT_EQ(SampleKindOf(spec), Kind::kPlain);
  spec.params.temperature = 1.0F;
  EXPECT_EQ(SampleKindOf(spec), Kind::kOrdered);
  spec.params.top_p = 1.0F;
  EXPECT_EQ(SampleKindOf(spec), Kind::kPlain);
  spec.num_logprobs = 3;
  EXPECT_EQ(SampleKindOf(spec), Kind::kOrdered);
}

// A list of sequences is read as one of jobs.
TEST(JobsTest, AreThoseOfTheList) {
  Sequence a;
  Sequence b;
  a.order = 3;
  b.order = 5;
  const std::vector<Sequence*> list = {&a, &b};
  const Jobs jobs = list;
  EXPECT_EQ(jobs.size(), 2U);
  uint64_t orders = 0;
  for (Job& job : jobs) orders = 10 * orders + job.order;
  EXPECT_EQ(orders, 35U);
  EXPECT_EQ(&jobs[1], &b);
  EXPECT_TRUE(Jobs().empty());
  for (Job& job : Jobs()) job.order = 0;
}

}  // namespace
}  // namespace ropeway::core
