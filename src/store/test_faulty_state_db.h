// A StateDb whose contents a test inspects and damages.
#ifndef ROPEWAY_STORE_TEST_FAULTY_STATE_DB_H_
#define ROPEWAY_STORE_TEST_FAULTY_STATE_DB_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "store/state_db.h"

namespace ropeway::store {

// The test's control over the database; it outlives the store that owns the database.
struct StateDbControl {
  MemoryStateDb contents;
  std::atomic<bool> disk_full{false};
  std::atomic<bool> damaged{false};  // Writes meet damage.
  std::atomic<bool> closed{false};   // It could not be opened: nothing can be read either.
  std::atomic<int> writes{0};
  std::atomic<int> reads{0};

  // Writes wait while it is closed.
  void CloseGate() {
    const std::lock_guard lock(mu);
    open = false;
  }
  // Reads of single values wait while it is closed.
  void CloseReadGate() {
    const std::lock_guard lock(mu);
    reads_open = false;
  }
  void OpenGate() {
    {
      const std::lock_guard lock(mu);
      open = reads_open = true;
    }
    opened.notify_all();
  }

  std::mutex mu;
  std::condition_variable opened;
  bool open = true;        // GUARDED_BY(mu)
  bool reads_open = true;  // GUARDED_BY(mu)
};

class FaultyStateDb final : public StateDb {
 public:
  explicit FaultyStateDb(std::shared_ptr<StateDbControl> control) : control_(std::move(control)) {}

  Status Write(std::span<const StateChange> changes) override {
    ++control_->writes;
    {
      std::unique_lock lock(control_->mu);
      control_->opened.wait(lock, [this] { return control_->open; });
    }
    if (control_->disk_full || control_->closed) return Full();
    if (control_->damaged) return {StatusCode::kDataLoss, "/dir: Corruption: block checksum"};
    return control_->contents.Write(changes);
  }
  StatusOr<std::string> Read(const std::string& key) const override {
    ++control_->reads;
    {
      std::unique_lock lock(control_->mu);
      control_->opened.wait(lock, [this] { return control_->reads_open; });
    }
    if (control_->closed) return Full();
    return control_->contents.Read(key);
  }
  Status Visit(const std::string& prefix, const VisitFn& visit) const override {
    if (control_->closed) return Full();
    return control_->contents.Visit(prefix, visit);
  }
  bool durable() const override { return true; }

 private:
  static Status Full() { return {StatusCode::kUnavailable, "no space left on device"}; }

  const std::shared_ptr<StateDbControl> control_;
};

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_TEST_FAULTY_STATE_DB_H_
