#include "gateway/replica_book.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace ropeway::gateway {
namespace {

Decision Decided(Decision::Kind kind) {
  Decision decision;
  decision.kind = kind;
  decision.replica = 0;
  decision.attempt = 1;
  return decision;
}

TEST(ReplicaBookTest, CountsWhatBecameOfAttempts) {
  ReplicaBook book("a", nullptr);
  Decision send = Decided(Decision::Kind::kSend);
  book.OnDecision(send);
  send.attempt = 2;
  book.OnDecision(send);
  send.resume = true;
  book.OnDecision(send);
  book.OnDecision(send);
  Decision drop = Decided(Decision::Kind::kDrop);
  book.OnDecision(drop);
  drop.drained = true;
  book.OnDecision(drop);
  Decision end = Decided(Decision::Kind::kEnd);
  end.status = {StatusCode::kDeadlineExceeded, "late"};
  book.OnDecision(end);
  end.status = {StatusCode::kUnavailable, "it gave nothing"};
  book.OnDecision(end);
  book.OnFailure(FailureKind::kBusy);
  book.OnFailure(FailureKind::kBroken);
  book.OnFailure(FailureKind::kBroken);
  const BackendStatus status = book.Status({});
  EXPECT_EQ(status.name, "a");
  EXPECT_EQ(status.retries, 1U);
  EXPECT_EQ(status.resumptions, 2U);
  EXPECT_EQ(status.timeouts, 2U) << "neither the drained one nor the late one";
  EXPECT_EQ(status.busy, 1U);
  EXPECT_EQ(status.broken, 2U);
  EXPECT_EQ(status.unreachable + status.rejected, 0U);
}

TEST(ReplicaBookTest, TellsOnceThatItIsOutAndOnceThatItIsBack) {
  ReplicaBook book("a", nullptr);
  ReplicaView view;
  EXPECT_FALSE(book.probed());
  EXPECT_EQ(book.OnProbe(view), "");
  EXPECT_TRUE(book.probed());
  view.state = ReplicaView::State::kBusy;
  EXPECT_EQ(book.OnProbe(view), "") << "for a moment only";
  view.state = ReplicaView::State::kEjected;
  view.reason = "it hangs\n";
  EXPECT_EQ(book.OnProbe(view).find('\n'), std::string::npos);
  EXPECT_FALSE(book.in_service());
  EXPECT_EQ(book.OnProbe(view), "");
  view.state = ReplicaView::State::kReturning;
  EXPECT_EQ(book.OnProbe(view), "is available again");
  view.state = ReplicaView::State::kDraining;
  view.reason.clear();
  EXPECT_EQ(book.OnProbe(view), "is not available: draining");
}

TEST(ReplicaBookTest, WarnsOnce) {
  ReplicaBook book("a", nullptr);
  EXPECT_TRUE(book.MayWarn());
  EXPECT_FALSE(book.MayWarn());
}

}  // namespace
}  // namespace ropeway::gateway
