// An ObjectStore over a database that a test inspects and damages.
#ifndef ROPEWAY_STORE_TEST_OBJECT_STORE_H_
#define ROPEWAY_STORE_TEST_OBJECT_STORE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/object_store.h"
#include "store/state_writer.h"
#include "store/test_faulty_state_db.h"

namespace ropeway::store {

// The outcome of a Write or a Delete.
class ObjectOutcome {
 public:
  ObjectStore::DoneFn Fn() {
    return [shared = shared_](const Status& status) {
      const std::lock_guard lock(shared->mu);
      EXPECT_FALSE(shared->status.has_value()) << "called twice";
      shared->status = status;
      shared->done.notify_all();
    };
  }
  Status Wait() {
    std::unique_lock lock(shared_->mu);
    EXPECT_TRUE(shared_->done.wait_for(lock, std::chrono::seconds(60),
                                       [this] { return shared_->status.has_value(); }));
    return shared_->status.value_or(Status(StatusCode::kInternal, "no end"));
  }
  bool Ended() {
    const std::lock_guard lock(shared_->mu);
    return shared_->status.has_value();
  }

 private:
  struct Shared {
    std::mutex mu;
    std::condition_variable done;
    std::optional<Status> status;  // GUARDED_BY(mu)
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

inline ObjectName Response(const std::string& id, const std::string& tenant = "t") {
  return {ObjectKind::kResponse, tenant, id};
}
inline ObjectName Talk(const std::string& id, const std::string& tenant = "t") {
  return {ObjectKind::kConversation, tenant, id};
}
inline ObjectChange New(const ObjectName& name, const std::string& state,
                        const std::string& parent = "") {
  return {.name = name, .fixed = "fixed of " + name.id, .state = state, .parent = parent};
}
inline ObjectChange Changed(const ObjectName& name, const std::string& state) {
  return {.name = name, .fixed = std::nullopt, .state = state, .parent = ""};
}

class ObjectStoreTest : public testing::Test {
 protected:
  ObjectStoreTest() { options_.ttl = std::chrono::seconds(1); }
  ~ObjectStoreTest() override { control_->OpenGate(); }

  void Open() {
    store_.reset();
    writer_ = std::make_shared<StateWriter>(std::make_unique<FaultyStateDb>(control_),
                                            std::chrono::milliseconds(5));
    auto store = ObjectStore::Open(options_, writer_.get(), [this] { return now_ms_.load(); });
    ASSERT_TRUE(store.ok());
    store_ = *std::move(store);
  }

  // Writes, and waits for the outcome.
  Status Write(std::vector<ObjectChange> changes) {
    ObjectOutcome outcome;
    if (Status status = store_->Write(std::move(changes), outcome.Fn()); !status.ok()) {
      return status;
    }
    return outcome.Wait();
  }
  Status Write(const ObjectChange& change) { return Write(std::vector{change}); }
  Status Delete(const ObjectName& name) {
    ObjectOutcome outcome;
    if (Status status = store_->Delete(name, outcome.Fn()); !status.ok()) return status;
    return outcome.Wait();
  }

  // The state, or "" where the object cannot be read.
  std::string StateOf(const ObjectName& name, bool hidden_too = false) {
    const StatusOr<Object> object = store_->Read(name, hidden_too);
    return object.ok() ? object->state : "";
  }
  StatusCode CodeOf(const ObjectName& name, bool hidden_too = false) {
    return store_->Read(name, hidden_too).status().code();
  }
  std::vector<std::string> Listed(const std::string& tenant = "t") {
    std::vector<std::string> ids;
    for (const ObjectInfo& info : store_->List(&tenant)) ids.push_back(info.name.id);
    return ids;
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
  // Waits until a write is held by the closed gate.
  bool AWriteWaits(int writes_before) {
    return Eventually([&] { return control_->writes > writes_before; });
  }

  std::atomic<int64_t> now_ms_{1'000'000};
  SessionOptions options_;
  std::shared_ptr<StateDbControl> control_ = std::make_shared<StateDbControl>();
  std::shared_ptr<StateWriter> writer_;  // Outlives store_.
  std::unique_ptr<ObjectStore> store_;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_TEST_OBJECT_STORE_H_
