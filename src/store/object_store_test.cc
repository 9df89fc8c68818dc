#include "store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/object_record.h"
#include "store/session_store.h"
#include "store/test_object_store.h"

namespace ropeway::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ObjectStoreTest, AnObjectIsReadAsItWasLastChangedAlsoAfterARestart) {
  Open();
  ASSERT_TRUE(Write(New(Response("root"), "r")).ok());
  now_ms_ += 10;
  ObjectChange change = New(Response("a"), "queued", "root");
  change.open = true;
  ASSERT_TRUE(Write(change).ok());
  const int64_t created = now_ms_;
  now_ms_ += 10;
  ASSERT_TRUE(Write(Changed(Response("a"), std::string("done\0\xff", 6))).ok());
  for (int round = 0; round < 2; ++round) {
    const StatusOr<Object> object = store_->Read(Response("a"));
    ASSERT_TRUE(object.ok()) << object.status().message();
    EXPECT_EQ(object->fixed, "fixed of a");
    EXPECT_EQ(object->state, std::string("done\0\xff", 6));
    EXPECT_EQ(object->parent, "root");
    EXPECT_EQ(object->created_ms, created);
    const std::vector<ObjectInfo> all = store_->List(nullptr);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].name, Response("root"));
    EXPECT_EQ(all[1].name, Response("a"));
    EXPECT_EQ(all[1].created_ms, created);
    EXPECT_EQ(all[1].expires_ms, created + 10 + 1000);
    EXPECT_FALSE(all[1].open);
    EXPECT_EQ(store_->stats().objects, 2U);
    EXPECT_EQ(store_->stats().bytes, all[0].bytes + all[1].bytes);
    Open();
  }
}

TEST_F(ObjectStoreTest, TheEndIsToldAfterTheWriteOnly) {
  Open();
  control_->CloseGate();
  ObjectOutcome outcome;
  ASSERT_TRUE(store_->Write({New(Response("a"), "1")}, outcome.Fn()).ok());
  ASSERT_TRUE(AWriteWaits(0));
  EXPECT_FALSE(outcome.Ended());
  EXPECT_EQ(Records(), 0);
  EXPECT_EQ(StateOf(Response("a")), "1") << "from memory";
  control_->OpenGate();
  EXPECT_TRUE(outcome.Wait().ok());
  EXPECT_EQ(Records(), 3);
}

TEST_F(ObjectStoreTest, ChangesOfOneCallAreMadeTogetherOrNotAtAll) {
  Open();
  ASSERT_TRUE(Write({New(Response("a"), "1"), New(Talk("c"), "1")}).ok());
  EXPECT_EQ(control_->writes, 1);
  ASSERT_TRUE(Write({Changed(Response("a"), "2"), Changed(Talk("c"), "2")}).ok());
  EXPECT_EQ(control_->writes, 2);
  EXPECT_EQ(StateOf(Response("a")) + StateOf(Talk("c")), "22");
  const Status missing = Write({Changed(Response("a"), "3"), Changed(Talk("x"), "3")});
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "there is no conversation 'x'");
  EXPECT_EQ(Write({New(Response("b"), "3"), New(Response("a"), "3")}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Write({Changed(Talk("c"), "3"), Changed(Talk("c"), "4")}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(StateOf(Response("a")) + StateOf(Talk("c")), "22");
  EXPECT_THAT(Listed(), ElementsAre("a", "c"));
  EXPECT_EQ(store_->stats().objects, 2U);
}

TEST_F(ObjectStoreTest, ParentsMayBeNewToo) {
  Open();
  ASSERT_TRUE(Write({New(Response("a"), "1"), New(Response("b"), "2", "a")}).ok());
  ASSERT_TRUE(Delete(Response("a")).ok());
  EXPECT_EQ(StateOf(Response("a"), true), "1");
}

TEST_F(ObjectStoreTest, TenantsSeeTheirOwnOnly) {
  Open();
  ASSERT_TRUE(Write(New(Response("a", "one"), "1")).ok());
  ASSERT_TRUE(Write(New(Response("b", "two"), "2")).ok());
  EXPECT_EQ(store_->Read(Response("a", "two")).status().message(), "there is no response 'a'");
  EXPECT_EQ(store_->Read(Talk("a", "one")).status().code(), StatusCode::kNotFound)
      << "a kind's own";
  EXPECT_EQ(Write(Changed(Response("a", "two"), "x")).code(), StatusCode::kNotFound);
  EXPECT_EQ(Write(New(Response("c", "two"), "x", "a")).code(), StatusCode::kNotFound);
  EXPECT_EQ(Delete(Response("a", "two")).code(), StatusCode::kNotFound);
  EXPECT_THAT(Listed("one"), ElementsAre("a"));
  EXPECT_THAT(Listed("two"), ElementsAre("b"));
  EXPECT_THAT(Listed("three"), IsEmpty());
  ASSERT_TRUE(Write(New(Response("a", "two"), "3")).ok());
  EXPECT_EQ(StateOf(Response("a", "one")) + StateOf(Response("a", "two")), "13");
  EXPECT_EQ(store_->List(nullptr).size(), 3U);
}

TEST_F(ObjectStoreTest, ADeletedObjectIsGoneAndItsNameFree) {
  Open();
  ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
  ASSERT_TRUE(Delete(Response("a")).ok());
  EXPECT_EQ(CodeOf(Response("a")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Response("a"), true), StatusCode::kNotFound);
  EXPECT_EQ(Delete(Response("a")).code(), StatusCode::kNotFound);
  EXPECT_EQ(Write(Changed(Response("a"), "2")).code(), StatusCode::kNotFound);
  EXPECT_EQ(Records(), 0);
  EXPECT_EQ(store_->stats().bytes, 0U);
  // Deleted and made again while a write runs: one write later does both.
  ASSERT_TRUE(Write(New(Response("a"), "3")).ok());
  const int writes = control_->writes;
  control_->CloseGate();
  ObjectOutcome outcomes[3];
  ASSERT_TRUE(store_->Write({Changed(Response("a"), "4")}, outcomes[0].Fn()).ok());
  ASSERT_TRUE(AWriteWaits(writes));
  ASSERT_TRUE(store_->Delete(Response("a"), outcomes[1].Fn()).ok());
  ASSERT_TRUE(store_->Write({New(Response("a"), "5")}, outcomes[2].Fn()).ok());
  control_->OpenGate();
  for (ObjectOutcome& outcome : outcomes) EXPECT_TRUE(outcome.Wait().ok());
  EXPECT_EQ(control_->writes, writes + 2);
  Open();
  EXPECT_EQ(StateOf(Response("a")), "5");
}

TEST_F(ObjectStoreTest, AncestorsAreHiddenWhileASuccessorLives) {
  Open();
  ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
  ASSERT_TRUE(Write(New(Response("b"), "2", "a")).ok());
  ASSERT_TRUE(Write(New(Response("c"), "3", "b")).ok());
  ASSERT_TRUE(Write(New(Response("d"), "4", "b")).ok());
  ASSERT_TRUE(Delete(Response("a")).ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(CodeOf(Response("a")), StatusCode::kNotFound);
    EXPECT_EQ(StateOf(Response("a"), true), "1");
    EXPECT_THAT(Listed(), ElementsAre("b", "c", "d"));
    EXPECT_EQ(Delete(Response("a")).code(), StatusCode::kNotFound);
    EXPECT_EQ(Write(Changed(Response("a"), "x")).code(), StatusCode::kNotFound);
    EXPECT_EQ(Write(New(Response("e"), "x", "a")).code(), StatusCode::kNotFound);
    EXPECT_EQ(Write(New(Response("a"), "x")).code(), StatusCode::kInvalidArgument);
    Open();
  }
  ASSERT_TRUE(Delete(Response("b")).ok());
  ASSERT_TRUE(Delete(Response("c")).ok());
  EXPECT_EQ(StateOf(Response("a"), true), "1") << "the last successor counts";
  EXPECT_THAT(Listed(), ElementsAre("d"));
  ASSERT_TRUE(Delete(Response("d")).ok());
  EXPECT_EQ(CodeOf(Response("a"), true), StatusCode::kNotFound);
  EXPECT_EQ(store_->stats().objects, 0U);
  EXPECT_EQ(store_->stats().bytes, 0U);
  EXPECT_EQ(Records(), 0);
}

TEST_F(ObjectStoreTest, AnObjectExpiresAfterItsLastChangeUnlessItIsOpen) {
  Open();
  ObjectChange open = New(Response("open"), "1");
  open.open = true;
  ASSERT_TRUE(Write({New(Response("a"), "1"), New(Talk("b"), "1"), open}).ok());
  now_ms_ += 600;
  ASSERT_TRUE(Write(Changed(Response("a"), "2")).ok());
  now_ms_ += 600;
  EXPECT_EQ(CodeOf(Talk("b")), StatusCode::kNotFound);
  EXPECT_THAT(Listed(), ElementsAre("a", "open"));
  EXPECT_TRUE(Eventually([this] { return Records() == 6; })) << "removed without being asked for";
  EXPECT_EQ(store_->stats().expired, 1U);
  store_.reset();
  now_ms_ += 5000;
  Open();
  EXPECT_THAT(Listed(), ElementsAre("open"));
  ASSERT_EQ(store_->Opened().size(), 1U);
  EXPECT_EQ(store_->Opened()[0].name, Response("open"));
  EXPECT_TRUE(Eventually([this] { return Records() == 3; }));
  ASSERT_TRUE(Write(Changed(Response("open"), "2")).ok());
  EXPECT_TRUE(store_->Opened().empty());
  now_ms_ += 999;
  EXPECT_EQ(StateOf(Response("open")), "2");
  now_ms_ += 1;
  EXPECT_EQ(CodeOf(Response("open")), StatusCode::kNotFound);
  EXPECT_TRUE(Eventually([this] { return Records() == 0; }));
}

TEST_F(ObjectStoreTest, AnAncestorThatExpiresIsKeptForItsSuccessor) {
  Open();
  ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
  now_ms_ += 700;
  ASSERT_TRUE(Write(New(Response("b"), "2", "a")).ok());
  now_ms_ += 700;
  EXPECT_EQ(CodeOf(Response("a")), StatusCode::kNotFound);
  EXPECT_EQ(StateOf(Response("a"), true), "1");
  ASSERT_TRUE(Eventually([this] { return store_->stats().expired == 1; }));
  Open();
  EXPECT_EQ(StateOf(Response("a"), true), "1");
  EXPECT_THAT(Listed(), ElementsAre("b"));
  now_ms_ += 700;
  EXPECT_TRUE(Eventually([this] { return Records() == 0; }));
  EXPECT_EQ(CodeOf(Response("a"), true), StatusCode::kNotFound);
  EXPECT_EQ(store_->stats().objects, 0U);
}

TEST_F(ObjectStoreTest, TheCountIsSharedByTenants) {
  options_.max_stored = 8;
  Open();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Write(New(Response("r" + std::to_string(i), "greedy"), "1")).ok());
  }
  const Status full = Write(New(Response("r4", "greedy"), "1"));
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("--max-sessions"));
  EXPECT_EQ(store_->CheckRoom("greedy", 1).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(Response("r4", "greedy")), StatusCode::kNotFound);
  EXPECT_TRUE(store_->CheckRoom("modest", 1).ok());
  EXPECT_TRUE(Write(New(Response("m", "modest"), "1")).ok());
  EXPECT_TRUE(Write(Changed(Response("r0", "greedy"), "2")).ok()) << "old ones change";
  now_ms_ += 999;
  EXPECT_EQ(Listed("greedy").size(), 4U) << "nothing was evicted";
  ASSERT_TRUE(Delete(Response("r0", "greedy")).ok());
  ASSERT_TRUE(Delete(Response("r1", "greedy")).ok());
  EXPECT_TRUE(Write(New(Response("r4", "greedy"), "1")).ok());
}

TEST_F(ObjectStoreTest, TheOnlyTenantMayHaveAll) {
  options_.max_stored = 8;
  Open();
  store_->SetShared(false);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(Write(New(Response("r" + std::to_string(i), ""), "1")).ok()) << i;
    now_ms_ += 10;
  }
  const Status full = Write(New(Response("r8", ""), "1"));
  EXPECT_EQ(full.message(),
            "too many responses and conversations are stored: 8 of 8; delete some, or raise "
            "--max-sessions");
  EXPECT_EQ(full.retry_after_seconds(), 1) << "the first expires in 920 ms";
  store_->SetShared(true);
  ASSERT_TRUE(Delete(Response("r7", "")).ok());
  EXPECT_THAT(store_->CheckRoom("", 1).message(),
              HasSubstr("this tenant has 7, and all tenants share 8; delete some, or raise "));
}

TEST_F(ObjectStoreTest, WhoFindsNoRoomIsToComeWhenSomethingExpires) {
  for (const auto& [ttl, seconds] : {std::pair(90, 85), {86400, 3600}}) {
    options_.max_stored = 1;
    options_.ttl = std::chrono::seconds(ttl);
    Open();
    ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
    now_ms_ += 5000;
    EXPECT_EQ(store_->CheckRoom("t", 1).retry_after_seconds(), seconds);
    EXPECT_EQ(Write(New(Response("b"), "1")).retry_after_seconds(), seconds);
    ASSERT_TRUE(Delete(Response("a")).ok());
  }
}

TEST_F(ObjectStoreTest, TheBytesAreSharedByTenants) {
  options_.store_bytes = 10000;
  Open();
  ASSERT_TRUE(Write(New(Response("a", "greedy"), std::string(3000, 'x'))).ok());
  for (const Status& full : {Write(New(Response("b", "greedy"), std::string(3000, 'x'))),
                             store_->CheckRoom("greedy", 3000)}) {
    EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(full.message(), HasSubstr("--session-store-size"));
  }
  EXPECT_TRUE(store_->CheckRoom("greedy", 1000).ok());
  EXPECT_TRUE(store_->CheckRoom("modest", 3000).ok());
  // Beyond all bounds: what was accepted may grow.
  ASSERT_TRUE(Write(Changed(Response("a", "greedy"), std::string(12000, 'x'))).ok());
  EXPECT_FALSE(store_->CheckRoom("modest", 1).ok());
  const uint64_t bytes = store_->stats().bytes;
  EXPECT_GT(bytes, 12000U);
  Open();
  EXPECT_EQ(store_->stats().bytes, bytes);
  EXPECT_EQ(StateOf(Response("a", "greedy")).size(), 12000U);
  ASSERT_TRUE(Write(Changed(Response("a", "greedy"), "")).ok());
  EXPECT_TRUE(store_->CheckRoom("modest", 3000).ok());
}

// Each thread has its own objects; all change one and read it. Runs under tsan too.
TEST_F(ObjectStoreTest, ManyThreadsAtOnce) {
  Open();
  ASSERT_TRUE(Write(New(Talk("shared"), "0")).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const std::string tenant = "t" + std::to_string(t % 2);
      for (int i = 0; i < 50; ++i) {
        const std::string id = std::to_string(t) + "-" + std::to_string(i);
        EXPECT_TRUE(Write(New(Response(id, tenant), "1")).ok());
        EXPECT_TRUE(Write({Changed(Response(id, tenant), id), Changed(Talk("shared"), id)}).ok());
        EXPECT_EQ(StateOf(Response(id, tenant)), id);
        for (int k = 0; k < 10; ++k) {
          const StatusOr<Object> shared = store_->Read(Talk("shared"));
          EXPECT_TRUE(shared.ok()) << shared.status().message();
        }
        (void)store_->List(&tenant);
        (void)store_->CheckRoom(tenant, 100);
        EXPECT_TRUE(Delete(Response(id, tenant)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Delete(Talk("shared")).ok());
  EXPECT_EQ(store_->stats().objects, 0U);
  EXPECT_EQ(store_->stats().lost, 0U);
  EXPECT_EQ(Records(), 0);
}

// A change that is written between the look at the index and the read of the disk.
TEST_F(ObjectStoreTest, AChangeDuringAReadIsReadNotTakenForDamage) {
  Open();
  ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
  control_->CloseReadGate();
  const int reads = control_->reads;
  std::string state;
  std::thread reader([&] { state = StateOf(Response("a")); });
  EXPECT_TRUE(Eventually([&] { return control_->reads > reads; }));
  EXPECT_TRUE(Write(Changed(Response("a"), "two")).ok());
  control_->OpenGate();
  reader.join();
  EXPECT_EQ(state, "two");
  EXPECT_EQ(store_->stats().lost, 0U);
}

TEST_F(ObjectStoreTest, AReadHoldsUpNobody) {
  Open();
  ASSERT_TRUE(Write(New(Response("a"), "1")).ok());
  control_->CloseReadGate();
  const int reads = control_->reads;
  std::thread reader([&] { EXPECT_EQ(StateOf(Response("a")), "1"); });
  EXPECT_TRUE(Eventually([&] { return control_->reads > reads; }));
  EXPECT_TRUE(Write(New(Response("b"), "1")).ok());
  EXPECT_TRUE(store_->CheckRoom("t", 1).ok());
  EXPECT_EQ(Listed().size(), 2U);
  control_->OpenGate();
  reader.join();
}

// Also a chain of that length, deleted from its beginning: its end takes all of it along.
TEST_F(ObjectStoreTest, ManyObjectsAreListedAtOnce) {
  constexpr int kObjects = 20000;
  options_.ttl = std::chrono::hours(1);
  Open();
  for (int i = 0; i < kObjects;) {
    std::vector<ObjectChange> changes;
    for (int k = 0; k < 1000; ++k, ++i) {
      changes.push_back(
          New(Response("r" + std::to_string(i)), "s", i > 0 ? "r" + std::to_string(i - 1) : ""));
    }
    ASSERT_TRUE(Write(std::move(changes)).ok());
  }
  const std::clock_t begin = std::clock();  // The processor's time: others' work is none of it.
  for (int i = 0; i < 10; ++i) ASSERT_EQ(Listed().size(), size_t{kObjects});
  EXPECT_LT(std::clock() - begin, 3 * CLOCKS_PER_SEC);
  EXPECT_EQ(Listed().front(), "r0");
  Open();
  EXPECT_EQ(Listed().back(), "r" + std::to_string(kObjects - 1));
  for (int i = 0; i < kObjects - 1; ++i) {
    ASSERT_TRUE(store_->Delete(Response("r" + std::to_string(i)), nullptr).ok());
  }
  EXPECT_EQ(Listed().size(), 1U);
  EXPECT_EQ(StateOf(Response("r0"), true), "s");
  ASSERT_TRUE(Delete(Response("r" + std::to_string(kObjects - 1))).ok());
  EXPECT_EQ(Records(), 0);
}

TEST_F(ObjectStoreTest, SessionsShareItsDatabase) {
  Open();
  ASSERT_TRUE(Write(New(Response("s"), "1")).ok());
  {
    auto sessions = SessionStore::Open({}, writer_);
    ASSERT_TRUE(sessions.ok());
    StatusOr<SessionTurn> turn = (*sessions)->Begin("t", "s");
    ASSERT_TRUE(turn.ok());
    (*sessions)->Commit(&*turn, SessionState(), nullptr);
  }
  EXPECT_EQ(Records(), 5);
  Open();
  auto sessions = SessionStore::Open({}, writer_);
  ASSERT_TRUE(sessions.ok());
  EXPECT_EQ((*sessions)->List("t").size(), 1U);
  EXPECT_THAT(Listed(), ElementsAre("s"));
  EXPECT_EQ((*sessions)->stats().lost + store_->stats().lost, 0U);
}

}  // namespace
}  // namespace ropeway::store
