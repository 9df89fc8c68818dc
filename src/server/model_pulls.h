// Pulls of models that requests ask for: one at a time, on a thread of its own.
#ifndef ROPEWAY_SERVER_MODEL_PULLS_H_
#define ROPEWAY_SERVER_MODEL_PULLS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway::server {

// One pull, and the requests that wait for it. Without one it is given up. Thread-safe.
class ModelPull {
 public:
  // A step as it was last told, and how often it was.
  struct Step {
    PullProgress progress;
    uint64_t times = 0;
  };
  struct News {
    std::vector<PullProgress> steps;  // What the watcher has not seen, in order.
    bool ended = false;
    Status status = {};          // Why it failed, once it has ended.
    std::string served_as = {};  // The model's name, where it did not fail.
  };

  // Waits for it from construction to destruction; `wake` is called for news, under a lock.
  class Watcher {
   public:
    Watcher(std::shared_ptr<ModelPull> pull, std::function<void()> wake);
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    News Take();

   private:
    friend class ModelPull;
    const std::shared_ptr<ModelPull> pull_;
    const std::function<void()> wake_;
    size_t step_ = 0;     // The first step that it may not have seen.
    uint64_t times_ = 0;  // How often that one was told when it saw it.
  };

  explicit ModelPull(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  // The puller's side. Tell returns whether anybody waits.
  bool Tell(PullProgress progress);
  void End(StatusOr<std::string> result);
  bool ended() const;

 private:
  void WakeAll();  // Under the lock.

  const std::string name_;
  mutable std::mutex mutex_;
  std::vector<Step> steps_;
  std::vector<Watcher*> watchers_;
  bool ended_ = false;
  Status status_;
  std::string served_as_;
};

// Thread-safe.
class ModelPulls {
 public:
  // `pull`: null where no request may pull.
  explicit ModelPulls(PullModelFn pull) : pull_(std::move(pull)) {}

  bool allowed() const { return pull_ != nullptr; }

  // Begins to pull the model, or joins its pull that is under way. kUnavailable while another model
  // is pulled. `wake`: see Watcher.
  StatusOr<std::unique_ptr<ModelPull::Watcher>> Join(const std::string& name,
                                                     std::function<void()> wake);

 private:
  const PullModelFn pull_;
  std::mutex mutex_;
  std::shared_ptr<ModelPull> current_;  // Null: none was begun.
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_MODEL_PULLS_H_
