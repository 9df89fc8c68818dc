#include "store/state_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/session_store.h"
#include "store/test_faulty_state_db.h"

namespace ropeway::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Keeps what it cannot write, and records what it is told.
class Values final : public StateWriter::Client {
 public:
  void Put(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mu_);
    waiting_.push_back({key, value});
  }

  Status Load(const StateDb& db) override {
    ++loads;
    return db.Visit("", [this](std::string_view, std::string_view) { ++loaded; });
  }
  bool Collect(std::vector<StateChange>* changes) override {
    ++asked;
    if (short_of_memory) throw std::bad_alloc();
    const std::lock_guard lock(mu_);
    written_ = waiting_.size();
    changes->insert(changes->end(), waiting_.begin(), waiting_.end());
    return !waiting_.empty();
  }
  void Settle(const Status& status) override {
    {
      const std::lock_guard lock(mu_);
      if (status.ok()) {
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(written_));
      }
      written_ = 0;
      outcomes_.push_back(status.code());
    }
    settled_.notify_all();
  }

  // Waits for the outcome after the first `seen`.
  StatusCode WaitOutcome(size_t seen) {
    std::unique_lock lock(mu_);
    EXPECT_TRUE(
        settled_.wait_for(lock, std::chrono::seconds(60), [&] { return outcomes_.size() > seen; }));
    return outcomes_.size() > seen ? outcomes_[seen] : StatusCode::kInternal;
  }
  size_t outcomes() {
    const std::lock_guard lock(mu_);
    return outcomes_.size();
  }

  std::atomic<int> loads{0};
  std::atomic<int> loaded{0};
  std::atomic<int> asked{0};
  std::atomic<bool> short_of_memory{false};

 private:
  std::mutex mu_;
  std::condition_variable settled_;
  std::vector<StateChange> waiting_;
  size_t written_ = 0;
  std::vector<StatusCode> outcomes_;
};

class StateWriterTest : public testing::Test {
 protected:
  static constexpr auto kSlow = std::chrono::hours(1);
  static constexpr auto kFast = std::chrono::milliseconds(2);

  void Open(std::chrono::milliseconds period) {
    writer_ = std::make_shared<StateWriter>(std::make_unique<FaultyStateDb>(control_), period);
  }
  std::string ValueOf(const std::string& key) {
    const StatusOr<std::string> value = control_->contents.Read(key);
    return value.ok() ? *value : "";
  }

  std::shared_ptr<StateDbControl> control_ = std::make_shared<StateDbControl>();
  std::shared_ptr<StateWriter> writer_;
};

TEST_F(StateWriterTest, ClientsShareOneWrite) {
  Open(kSlow);
  Values a, b;
  writer_->Add(&a);
  writer_->Add(&b);
  a.Put("a", "1");
  b.Put("b", "2");
  writer_->Wake();
  EXPECT_EQ(a.WaitOutcome(0), StatusCode::kOk);
  EXPECT_EQ(b.WaitOutcome(0), StatusCode::kOk);
  EXPECT_EQ(control_->writes, 1);
  EXPECT_EQ(ValueOf("a") + ValueOf("b"), "12");
  writer_->Remove(&a);
  writer_->Remove(&b);
  EXPECT_EQ(control_->writes, 1) << "there was nothing left to write";
}

TEST_F(StateWriterTest, AFailureIsToldToAllAndTriedAgain) {
  Open(kFast);
  Values a, b;
  writer_->Add(&a);
  writer_->Add(&b);
  control_->disk_full = true;
  a.Put("a", "1");
  writer_->Wake();
  EXPECT_EQ(a.WaitOutcome(0), StatusCode::kUnavailable);
  EXPECT_EQ(b.WaitOutcome(0), StatusCode::kUnavailable) << "what it wants to write would fail too";
  EXPECT_THAT(writer_->failure().message(), HasSubstr("no space left"));
  control_->disk_full = false;
  while (!writer_->failure().ok()) std::this_thread::yield();
  writer_->Remove(&a);
  EXPECT_EQ(ValueOf("a"), "1");
  EXPECT_EQ(a.WaitOutcome(a.outcomes() - 1), StatusCode::kOk);
  writer_->Remove(&b);
}

TEST_F(StateWriterTest, ARemovedClientIsAskedOnceMoreAndThenLeftAlone) {
  Open(kSlow);
  Values a, b;
  writer_->Add(&a);
  writer_->Add(&b);
  a.Put("a", "1");
  writer_->Remove(&a);
  EXPECT_EQ(ValueOf("a"), "1");
  const int asked = a.asked;
  a.Put("a", "2");
  b.Put("b", "1");
  writer_->Wake();
  writer_->Remove(&b);
  EXPECT_EQ(a.asked, asked);
  EXPECT_EQ(ValueOf("a") + ValueOf("b"), "11");
}

TEST_F(StateWriterTest, AClosedDatabaseIsLoadedOnceItIsOpen) {
  ASSERT_TRUE(control_->contents.Write(std::vector<StateChange>{{"x", "1"}}).ok());
  control_->closed = true;
  Open(kFast);
  Values a;
  writer_->Add(&a);
  EXPECT_EQ(writer_->failure().code(), StatusCode::kUnavailable);
  EXPECT_EQ(a.WaitOutcome(1), StatusCode::kUnavailable);
  EXPECT_EQ(a.loaded, 0);
  control_->closed = false;
  while (!writer_->failure().ok()) std::this_thread::yield();
  EXPECT_EQ(a.loaded, 1);
  EXPECT_EQ(a.loads, 2);
  writer_->Remove(&a);
}

TEST_F(StateWriterTest, ShortMemoryIsAFailedWrite) {
  Open(kFast);
  Values a, b;
  writer_->Add(&a);
  writer_->Add(&b);
  b.short_of_memory = true;
  a.Put("a", "1");
  writer_->Wake();
  EXPECT_EQ(a.WaitOutcome(0), StatusCode::kResourceExhausted);
  EXPECT_EQ(ValueOf("a"), "");
  b.short_of_memory = false;
  while (!writer_->failure().ok()) std::this_thread::yield();
  writer_->Remove(&a);
  EXPECT_EQ(ValueOf("a"), "1");
  writer_->Remove(&b);
}

TEST_F(StateWriterTest, ASessionStoreAndAnotherClientShareOneDatabase) {
  Open(kSlow);
  Values other;
  writer_->Add(&other);
  {
    auto sessions = SessionStore::Open({}, writer_);
    ASSERT_TRUE(sessions.ok());
    control_->CloseGate();
    other.Put("x", "1");
    writer_->Wake();
    while (control_->writes == 0) std::this_thread::yield();
    StatusOr<SessionTurn> turn = (*sessions)->Begin("", "s");
    ASSERT_TRUE(turn.ok());
    SessionState state;
    state.ids = {1, 2};
    (*sessions)->Commit(&*turn, state, nullptr);
    other.Put("y", "2");
    control_->OpenGate();
    (*sessions)->WaitWritten();
    EXPECT_EQ(control_->writes, 2);
  }
  std::vector<std::string> keys;
  ASSERT_TRUE(
      control_->contents
          .Visit("", [&](std::string_view key, std::string_view) { keys.emplace_back(key); })
          .ok());
  EXPECT_THAT(keys, ElementsAre("h0:s", "s0:s", "x", "y"));
  writer_->Remove(&other);
}

}  // namespace
}  // namespace ropeway::store
