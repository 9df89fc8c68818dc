// A connection that reads a stored answer.
#ifndef ROPEWAY_SERVER_RUN_WATCHER_H_
#define ROPEWAY_SERVER_RUN_WATCHER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/answer_source.h"
#include "server/stored_run.h"

namespace ropeway::server {

// Reads a stored answer for a connection. Its destructor lets go of the answer.
class RunWatcher final : public AnswerSource {
 public:
  // `as_one`: the answer is sent whole. `owns`: the answer ends with its connection, unless it is
  // in the background. `wake` must not block.
  RunWatcher(std::shared_ptr<StoredRun> run, bool as_one, bool owns, StoredRun::WakeFn wake);
  ~RunWatcher() override { Cancel(); }

  size_t size() const override { return places_.size(); }
  bool ended(size_t choice) const override { return places_[choice].ended; }
  Progress Look(size_t choice) override;
  Output Take(size_t choice) override;
  AnswerFacts facts(size_t choice) const override { return run_->facts(choice); }
  std::optional<int32_t> queue_position() override { return run_->queue_position(); }
  bool cut() const override { return false; }
  void Cancel() override;

 private:
  struct Place {
    size_t pieces = 0;  // That were taken.
    bool ended = false;
  };
  const std::shared_ptr<StoredRun> run_;
  const bool as_one_;
  const bool owns_;
  const StoredRun::WakeFn wake_;
  const std::shared_ptr<std::atomic<bool>> signalled_;  // It was woken and has not looked yet.
  std::vector<Place> places_;
  uint64_t watcher_ = 0;  // 0: it has let go.
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_RUN_WATCHER_H_
