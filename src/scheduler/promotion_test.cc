#include "scheduler/promotion.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace ropeway {
namespace {

using std::chrono::seconds;

class PromotionTest : public testing::Test {
 protected:
  PromotionTest() {
    for (size_t i = 0; i < sequences_.size(); ++i) {
      sequences_[i].order = i;
      sequences_[i].queued_since = TimePoint{};
    }
    promotion_.Reserve(sequences_.size());
  }

  // The orders of those that are promoted.
  std::string Choose(int limit, const std::vector<Sequence*>& running,
                     const std::vector<Sequence*>& queue, TimePoint now = TimePoint{seconds(30)}) {
    promotion_.Choose(now, limit, running, queue);
    std::string text;
    for (const Sequence& s : sequences_) {
      if (s.promoted) text += std::to_string(s.order);
    }
    return text;
  }

  std::array<Sequence, 6> sequences_;
  Promotion promotion_{seconds(30)};
};

TEST_F(PromotionTest, TheOldestInUpToHalfThePlaces) {
  auto& [a, b, c, d, e, f] = sequences_;
  EXPECT_EQ(Choose(4, {}, {&d, &a, &c, &b}), "01");
  EXPECT_EQ(Choose(5, {}, {&d, &a, &c, &b}), "012");
  EXPECT_EQ(Choose(1, {}, {&d, &a, &c, &b}), "0");
  EXPECT_EQ(Choose(64, {}, {&d, &a, &c, &b}), "0123");
}

TEST_F(PromotionTest, NotBeforeTheirTime) {
  auto& [a, b, c, d, e, f] = sequences_;
  b.queued_since = TimePoint{seconds(1)};
  EXPECT_EQ(Choose(8, {}, {&a, &b}), "0");
  EXPECT_EQ(Choose(8, {}, {&a, &b}, TimePoint{seconds(31)}), "01");
}

TEST_F(PromotionTest, ThoseThatRunLeaveFewerPlaces) {
  auto& [a, b, c, d, e, f] = sequences_;
  e.state = f.state = SequenceState::kDecoding;
  e.promoted = true;
  EXPECT_EQ(Choose(4, {&e, &f}, {&a, &b}), "04") << "a decode is not made one: it has its tokens";
  f.promoted = true;
  EXPECT_EQ(Choose(4, {&e, &f}, {&a, &b}), "45") << "and who was one in the queue is none now";
}

TEST_F(PromotionTest, APromptWithoutAChunkIsOne) {
  auto& [a, b, c, d, e, f] = sequences_;
  e.state = f.state = SequenceState::kPrefilling;
  f.queued_since = TimePoint{seconds(5)};
  EXPECT_EQ(Choose(2, {&e, &f}, {&a}), "4");
}

TEST_F(PromotionTest, WhoIsPreemptedKeepsIt) {
  const TimePoint now{seconds(100)};
  EXPECT_EQ(promotion_.QueuedSince(sequences_[0], now), now);
  sequences_[0].promoted = true;
  EXPECT_EQ(promotion_.QueuedSince(sequences_[0], now), now - seconds(30));
}

}  // namespace
}  // namespace ropeway
