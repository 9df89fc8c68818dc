#include "store/session_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "store/test_faulty_state_db.h"

namespace ropeway::store {
namespace {

using testing::HasSubstr;

// The outcome of a Commit.
class Outcome {
 public:
  SessionStore::DoneFn Fn() {
    return [this](const Status& status) {
      const std::lock_guard lock(mu_);
      status_ = status;
      done_.notify_all();
    };
  }
  Status Wait() {
    std::unique_lock lock(mu_);
    EXPECT_TRUE(
        done_.wait_for(lock, std::chrono::seconds(60), [this] { return status_.has_value(); }));
    return status_.value_or(Status(StatusCode::kInternal, "no end"));
  }
  bool Ended() {
    const std::lock_guard lock(mu_);
    return status_.has_value();
  }

 private:
  std::mutex mu_;
  std::condition_variable done_;
  std::optional<Status> status_;
};

class SessionStoreTest : public testing::Test {
 protected:
  SessionStoreTest() {
    options_.unix_ms = [this] { return now_ms_.load(); };
    options_.sessions.ttl = std::chrono::seconds(1);
  }

  void Open() {
    store_.reset();
    auto store = SessionStore::Open(
        options_, std::make_shared<StateWriter>(std::make_unique<FaultyStateDb>(control_),
                                                std::chrono::milliseconds(5)));
    ASSERT_TRUE(store.ok());
    store_ = *std::move(store);
  }

  SessionTurn Begin(const std::string& id, const std::string& tenant = "") {
    StatusOr<SessionTurn> turn = store_->Begin(tenant, id);
    EXPECT_TRUE(turn.ok()) << turn.status().message();
    return turn.ok() ? *std::move(turn) : SessionTurn();
  }

  static SessionState StateOf(std::vector<TokenId> ids) {
    SessionState state;
    state.ids = std::move(ids);
    return state;
  }

  // One whole turn; returns the outcome of its commit.
  Status Turn(const std::string& id, std::vector<TokenId> ids, const std::string& tenant = "") {
    SessionTurn turn = Begin(id, tenant);
    if (!turn) return {StatusCode::kInternal, "not begun"};
    Outcome outcome;
    store_->Commit(&turn, StateOf(std::move(ids)), outcome.Fn());
    return outcome.Wait();
  }

  std::vector<TokenId> IdsOf(const std::string& id, const std::string& tenant = "") {
    const SessionTurn turn = Begin(id, tenant);
    if (!turn || store_->IsNew(turn)) return {};
    const StatusOr<SessionState> state = store_->Load(turn);
    EXPECT_TRUE(state.ok()) << state.status().message();
    return state.ok() ? state->ids : std::vector<TokenId>();
  }

  // Flips a bit of the record whose key begins with `prefix`.
  void Damage(const std::string& prefix) {
    std::vector<StateChange> changes;
    ASSERT_TRUE(control_->contents
                    .Visit(prefix,
                           [&](std::string_view key, std::string_view value) {
                             std::string broken(value);
                             broken[broken.size() / 2] ^= 1;
                             changes.push_back({std::string(key), broken});
                           })
                    .ok());
    ASSERT_EQ(changes.size(), 1U);
    ASSERT_TRUE(control_->contents.Write(changes).ok());
  }

  int Records() const {
    int records = 0;
    (void)control_->contents.Visit("", [&](std::string_view, std::string_view) { ++records; });
    return records;
  }

  // Waits until `what` holds, for at least a minute.
  template <typename Fn>
  static bool Eventually(Fn&& what) {
    for (int i = 0; i < 60'000; ++i) {
      if (what()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  std::atomic<int64_t> now_ms_{1'000'000};
  SessionStoreOptions options_;
  std::shared_ptr<StateDbControl> control_ = std::make_shared<StateDbControl>();
  std::unique_ptr<SessionStore> store_;
};

TEST_F(SessionStoreTest, ATurnGoesOnFromTheLastOneAlsoAfterARestart) {
  Open();
  EXPECT_TRUE(store_->IsNew(Begin("a")));
  ASSERT_TRUE(Turn("a", {1, 2}).ok());
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1, 2}));
  ASSERT_TRUE(Turn("a", {1, 2, 3, 4}).ok());
  Open();
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1, 2, 3, 4}));
  const std::vector<SessionInfo> all = store_->List("");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].id, "a");
  EXPECT_EQ(all[0].turns, 2);
  EXPECT_EQ(all[0].tokens, 4);
  EXPECT_TRUE(all[0].durable);
  EXPECT_FALSE(all[0].turn_under_way);
  EXPECT_EQ(all[0].expires - all[0].last_used, options_.sessions.ttl);
}

TEST_F(SessionStoreTest, TheEndIsToldAfterTheWriteOnly) {
  Open();
  control_->CloseGate();
  SessionTurn turn = Begin("a");
  Outcome outcome;
  store_->Commit(&turn, StateOf({1}), outcome.Fn());
  ASSERT_TRUE(Eventually([this] { return control_->writes > 0; }));
  EXPECT_FALSE(outcome.Ended());
  EXPECT_EQ(store_->Begin("", "a").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Records(), 0);
  control_->OpenGate();
  EXPECT_TRUE(outcome.Wait().ok());
  EXPECT_EQ(Records(), 2);
  EXPECT_TRUE(store_->Begin("", "a").ok());
}

TEST_F(SessionStoreTest, ManyTurnsThatWaitAreOneWrite) {
  Open();
  control_->CloseGate();
  std::vector<SessionTurn> turns;
  for (int i = 0; i < 20; ++i) turns.push_back(Begin("s" + std::to_string(i)));
  for (int i = 0; i < 20; ++i) {
    store_->Commit(&turns[static_cast<size_t>(i)], StateOf({i}), nullptr);
    if (i > 0) continue;
    ASSERT_TRUE(Eventually([this] { return control_->writes == 1; }));
  }
  control_->OpenGate();
  store_->WaitWritten();
  EXPECT_EQ(control_->writes, 2);
  EXPECT_EQ(store_->List("").size(), 20U);
}

TEST_F(SessionStoreTest, OneTurnAtATime) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  SessionTurn first = Begin("a");
  const StatusOr<SessionTurn> second = store_->Begin("", "a");
  EXPECT_EQ(second.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(second.status().field(), "session_id");
  EXPECT_THAT(second.status().message(), HasSubstr("'a' already has a turn in progress"));
  EXPECT_TRUE(store_->List("").at(0).turn_under_way);
  first.Abandon();
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1}));
}

TEST_F(SessionStoreTest, AnAbandonedFirstTurnLeavesNothing) {
  Open();
  { const SessionTurn turn = Begin("a"); }
  EXPECT_TRUE(store_->List("").empty());
  EXPECT_EQ(store_->stats().sessions, 0U);
  EXPECT_EQ(store_->Close("", "a").code(), StatusCode::kNotFound);
}

TEST_F(SessionStoreTest, AnAbandonedTurnHasNoEffect) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  SessionTurn late = Begin("a");
  late.Abandon();
  SessionTurn next = Begin("a");
  late.Abandon();
  EXPECT_FALSE(store_->Begin("", "a").ok()) << "the turn is another's";
  Outcome outcome;
  store_->Commit(&late, StateOf({6, 6}), outcome.Fn());
  EXPECT_TRUE(outcome.Wait().ok());
  EXPECT_FALSE(store_->Begin("", "a").ok());
  store_->Commit(&next, StateOf({1, 2}), nullptr);
  store_->WaitWritten();
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1, 2}));
}

TEST_F(SessionStoreTest, TenantsSeeTheirOwnOnly) {
  Open();
  ASSERT_TRUE(Turn("a", {1}, "one").ok());
  ASSERT_TRUE(Turn("b", {2}, "two").ok());
  EXPECT_TRUE(store_->IsNew(Begin("a", "two")));
  EXPECT_EQ(store_->List("one").size(), 1U);
  EXPECT_EQ(store_->List("").size(), 0U);
  const Status status = store_->Close("two", "a");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "there is no session 'a'") << "as for one that does not exist";
  EXPECT_EQ(store_->Close("two", "x").message(), "there is no session 'x'");
  ASSERT_TRUE(Turn("a", {7}, "two").ok());
  EXPECT_EQ(IdsOf("a", "one"), (std::vector<TokenId>{1}));
  EXPECT_EQ(IdsOf("a", "two"), (std::vector<TokenId>{7}));
}

TEST_F(SessionStoreTest, AClosedSessionIsGoneAlsoAfterARestart) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  ASSERT_TRUE(Turn("b", {2}).ok());
  ASSERT_TRUE(store_->Close("", "a").ok());
  EXPECT_EQ(Records(), 2);
  EXPECT_TRUE(store_->IsNew(Begin("a")));
  Open();
  EXPECT_TRUE(store_->IsNew(Begin("a")));
  EXPECT_EQ(IdsOf("b"), (std::vector<TokenId>{2}));
}

TEST_F(SessionStoreTest, ATurnOfASessionThatWasClosedIsNotKept) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  SessionTurn turn = Begin("a");
  ASSERT_TRUE(store_->Close("", "a").ok());
  ASSERT_TRUE(Turn("a", {9}).ok());  // A new session of that name.
  Outcome outcome;
  store_->Commit(&turn, StateOf({1, 2}), outcome.Fn());
  EXPECT_TRUE(outcome.Wait().ok());
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{9}));
  Open();
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{9}));
}

TEST_F(SessionStoreTest, ASessionThatWasClosedBeforeItWasLoadedIsNotLost) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  const SessionTurn turn = Begin("a");
  ASSERT_TRUE(store_->Close("", "a").ok());
  EXPECT_EQ(store_->Load(turn).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(Turn("a", {9, 9}).ok());  // A new one of that name, not the session of the turn.
  EXPECT_EQ(store_->Load(turn).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->stats().lost, 0U);
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{9, 9}));
}

// Another turn may have written since: the record need not match the head that the turn began with.
TEST_F(SessionStoreTest, AnAbandonedTurnLosesNoSession) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  SessionTurn turn = Begin("a");
  Damage("s" + SessionKey("", "a"));
  turn.Abandon();
  EXPECT_EQ(store_->Load(turn).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->stats().lost, 0U);
}

TEST_F(SessionStoreTest, NewSessionsBeyondTheNumberAreRejectedOldOnesGoOn) {
  options_.sessions.max_sessions = 2;
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  ASSERT_TRUE(Turn("b", {1}).ok());
  const Status status = store_->Begin("", "c").status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("max_sessions"));
  EXPECT_TRUE(Turn("a", {1, 2}).ok());
  ASSERT_TRUE(store_->Close("", "b").ok());
  EXPECT_TRUE(Turn("c", {1}).ok());
  EXPECT_EQ(store_->List("").size(), 2U);
}

TEST_F(SessionStoreTest, BytesAreBounded) {
  options_.sessions.store_bytes = 10000;
  Open();
  ASSERT_TRUE(Turn("a", std::vector<TokenId>(1000, 1)).ok());
  const uint64_t one = store_->stats().bytes;
  EXPECT_GT(one, 4000U);
  ASSERT_TRUE(Turn("a", std::vector<TokenId>(1000, 2)).ok());
  EXPECT_EQ(store_->stats().bytes, one) << "a turn replaces the previous one";
  ASSERT_TRUE(Turn("b", std::vector<TokenId>(1500, 1)).ok());
  for (const char* id : {"a", "c"}) {
    const Status status = store_->Begin("", id).status();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << id;
    EXPECT_THAT(status.message(), HasSubstr("session_store_bytes")) << id;
  }
  EXPECT_EQ(store_->List("").size(), 2U) << "nothing was dropped";
  ASSERT_TRUE(store_->Close("", "b").ok());
  EXPECT_EQ(store_->stats().bytes, one);
  EXPECT_EQ(IdsOf("a"), std::vector<TokenId>(1000, 2));
  Open();
  EXPECT_EQ(store_->stats().bytes, one);
}

TEST_F(SessionStoreTest, ASessionExpiresWhenItIsUnusedForLong) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  now_ms_ += 600;
  ASSERT_TRUE(Turn("b", {2}).ok());
  ASSERT_TRUE(Turn("a", {1, 1}).ok());
  now_ms_ += 600;
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1, 1})) << "its last use counts";
  SessionTurn busy = Begin("b");
  now_ms_ += 500;
  ASSERT_TRUE(Eventually([this] { return Records() == 2; })) << "removed without being asked for";
  EXPECT_EQ(store_->stats().expired, 1U);
  EXPECT_TRUE(store_->IsNew(Begin("a")));
  ASSERT_EQ(store_->List("").size(), 1U);
  EXPECT_EQ(store_->List("").at(0).id, "b") << "a turn under way keeps its session";
  busy = SessionTurn();
  EXPECT_TRUE(store_->IsNew(Begin("b")));
  Open();
  EXPECT_TRUE(store_->List("").empty());
}

TEST_F(SessionStoreTest, WhatExpiredWhileTheProcessWasDownIsRemoved) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  store_.reset();
  now_ms_ += 5000;
  Open();
  EXPECT_TRUE(store_->List("").empty());
  EXPECT_TRUE(Eventually([this] { return Records() == 0; }));
}

TEST_F(SessionStoreTest, ADamagedStateIsALostSessionAndNeverServed) {
  Open();
  ASSERT_TRUE(Turn("a", {1, 2, 3}).ok());
  ASSERT_TRUE(Turn("b", {4}).ok());
  Damage("s" + SessionKey("", "a"));
  SessionTurn turn = Begin("a");
  const StatusOr<SessionState> state = store_->Load(turn);
  EXPECT_EQ(state.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(state.status().message(), HasSubstr("session 'a' is lost"));
  turn.Abandon();
  EXPECT_EQ(store_->Begin("", "a").status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(store_->List("").at(0).lost);
  EXPECT_EQ(store_->stats().lost, 1U);
  EXPECT_EQ(IdsOf("b"), (std::vector<TokenId>{4}));
  EXPECT_TRUE(store_->Close("", "a").ok());
  EXPECT_TRUE(store_->IsNew(Begin("a")));
}

TEST_F(SessionStoreTest, ADamagedHeadIsALostSessionOfItsTenantAlone) {
  Open();
  ASSERT_TRUE(Turn("a", {1}, "one").ok());
  ASSERT_TRUE(Turn("a", {2}, "two").ok());
  store_.reset();
  Damage("h" + SessionKey("one", "a"));
  Open();
  EXPECT_EQ(store_->Begin("one", "a").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(IdsOf("a", "two"), (std::vector<TokenId>{2}));
  ASSERT_EQ(store_->List("one").size(), 1U);
  EXPECT_TRUE(store_->List("one").at(0).lost);
  EXPECT_TRUE(store_->Close("one", "a").ok());
  EXPECT_TRUE(store_->IsNew(Begin("a", "one")));
}

TEST_F(SessionStoreTest, AMissingStateIsALostSession) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  const std::vector<StateChange> removal = {{"s" + SessionKey("", "a"), std::nullopt}};
  ASSERT_TRUE(control_->contents.Write(removal).ok());
  EXPECT_EQ(store_->Load(Begin("a")).status().code(), StatusCode::kDataLoss);
}

TEST_F(SessionStoreTest, AFullDiskLosesNoTurnAndNoneBeginsMeanwhile) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  SessionTurn a = Begin("a");
  SessionTurn b = Begin("b");
  control_->disk_full = true;
  Outcome outcomes[2];
  store_->Commit(&a, StateOf({1, 2}), outcomes[0].Fn());
  store_->Commit(&b, StateOf({5}), outcomes[1].Fn());
  for (Outcome& outcome : outcomes) EXPECT_EQ(outcome.Wait().code(), StatusCode::kUnavailable);
  for (const SessionInfo& info : store_->List("")) EXPECT_FALSE(info.durable) << info.id;
  EXPECT_EQ(store_->stats().unwritten, 2U);
  EXPECT_EQ(store_->stats().failed_writes, 2U);
  for (const char* id : {"a", "b", "c"}) {
    const Status status = store_->Begin("", id).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << id;
    EXPECT_EQ(status.message(), "sessions cannot be stored now: no space left on device");
    EXPECT_EQ(status.field(), "session_id");
  }
  control_->disk_full = false;
  EXPECT_TRUE(Eventually([this] { return store_->stats().unwritten == 0; }));
  for (const SessionInfo& info : store_->List("")) EXPECT_TRUE(info.durable) << info.id;
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(Turn("c", {7}).ok());
  Open();
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(IdsOf("b"), (std::vector<TokenId>{5}));
}

// The first write that fails is a removal: afterwards there is nothing to write but for the test
// whether it still fails.
TEST_F(SessionStoreTest, ARemovalThatCouldNotBeWrittenIsDoneLater) {
  Open();
  ASSERT_TRUE(Turn("a", {1}).ok());
  ASSERT_TRUE(Turn("b", {2}).ok());
  control_->disk_full = true;
  const Status status = store_->Close("", "a");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("cannot be removed now"));
  EXPECT_EQ(store_->Close("", "b").code(), StatusCode::kUnavailable);
  EXPECT_EQ(store_->Begin("", "b").status().code(), StatusCode::kUnavailable);
  control_->disk_full = false;
  EXPECT_TRUE(Eventually([this] { return Records() == 0; }));
  EXPECT_TRUE(Eventually([this] { return store_->Begin("", "b").ok(); }));
  Open();
  EXPECT_TRUE(store_->IsNew(Begin("a")));
  EXPECT_TRUE(store_->IsNew(Begin("b")));
}

TEST_F(SessionStoreTest, AStartOnAFullDiskReadsTheSessionsOnceThereIsRoom) {
  Open();
  ASSERT_TRUE(Turn("a", {1, 2}).ok());
  control_->closed = true;
  Open();
  EXPECT_EQ(store_->Begin("", "a").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(store_->Close("", "a").code(), StatusCode::kUnavailable);
  EXPECT_TRUE(store_->List("").empty());
  const int writes = control_->writes;
  EXPECT_TRUE(Eventually([&] { return control_->writes > writes + 2; }));  // It keeps trying.
  EXPECT_EQ(store_->Begin("", "a").status().code(), StatusCode::kUnavailable);
  control_->closed = false;
  EXPECT_TRUE(Eventually([this] { return store_->Begin("", "new").ok(); }));
  EXPECT_EQ(IdsOf("a"), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(store_->List("").size(), 1U);
  EXPECT_TRUE(Turn("a", {1, 2, 3}).ok());
  EXPECT_EQ(store_->stats().failed_writes, 0U);
}

// It ends though nothing can be written any more.
TEST_F(SessionStoreTest, AFullDiskDoesNotHoldUpTheEnd) {
  Open();
  SessionTurn turn = Begin("a");
  control_->disk_full = true;
  Outcome outcome;
  store_->Commit(&turn, StateOf({1}), outcome.Fn());
  EXPECT_EQ(outcome.Wait().code(), StatusCode::kUnavailable);
  store_.reset();
}

TEST_F(SessionStoreTest, TheDestructorWritesWhatWaits) {
  Open();
  control_->CloseGate();
  Outcome outcomes[8];
  for (int i = 0; i < 8; ++i) {
    SessionTurn turn = Begin("s" + std::to_string(i));
    store_->Commit(&turn, StateOf({i}), outcomes[i].Fn());
  }
  std::thread opener([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    control_->OpenGate();
  });
  store_.reset();
  opener.join();
  for (Outcome& outcome : outcomes) EXPECT_TRUE(outcome.Ended());
  Open();
  EXPECT_EQ(store_->List("").size(), 8U);
}

// Each thread closes and restarts its own sessions all the time; runs under tsan too.
TEST_F(SessionStoreTest, ManyThreadsAtOnce) {
  Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const std::string tenant = "t" + std::to_string(t % 2);
      const std::string id = "s" + std::to_string(t);
      for (int i = 1; i <= 100; ++i) {
        EXPECT_TRUE(Turn(id, {t, i}, tenant).ok());
        EXPECT_EQ(IdsOf(id, tenant), (std::vector<TokenId>{t, i}));
        if (i % 10 == 0) {
          EXPECT_TRUE(store_->Close(tenant, id).ok());
        }
        (void)store_->List(tenant);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->stats().sessions, 0U);
  EXPECT_EQ(store_->stats().bytes, 0U);
  EXPECT_EQ(Records(), 0);
}

}  // namespace
}  // namespace ropeway::store
