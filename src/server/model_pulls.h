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

// One pull, and the requests that wait for it. Without one it is given up, which takes until it
// next tells how far it is; no request joins it then. Thread-safe.
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

  // Waits for it until it is destroyed; `wake` is called for news, under a lock.
  class Watcher {
   public:
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    News Take();

   private:
    friend class ModelPull;
    Watcher(std::shared_ptr<ModelPull> pull, std::function<void()> wake)
        : pull_(std::move(pull)), wake_(std::move(wake)) {}
    const std::shared_ptr<ModelPull> pull_;
    const std::function<void()> wake_;
    size_t step_ = 0;     // The first step that it may not have seen.
    uint64_t times_ = 0;  // How often that one was told when it saw it.
  };

  explicit ModelPull(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  // Null where it is being given up.
  static std::unique_ptr<Watcher> Watch(const std::shared_ptr<ModelPull>& pull,
                                        std::function<void()> wake);
  // Whether it is given up, which it is from now on where no request waits for it.
  bool GiveUpUnlessWatched();

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
  bool given_up_ = false;
  bool ended_ = false;
  Status status_;
  std::string served_as_;
};

// Thread-safe.
class ModelPulls {
 public:
  // `pull`: null where no request may pull.
  explicit ModelPulls(PullModelFn pull);

  bool allowed() const { return line_->pull != nullptr; }

  // Begins to pull the model, or joins its pull that is under way. What is being given up ends
  // first. kUnavailable while another model is pulled. `wake`: see Watcher.
  StatusOr<std::unique_ptr<ModelPull::Watcher>> Join(const std::string& name,
                                                     std::function<void()> wake);

 private:
  // The thread's, too: where a disk or a server hangs, that may outlive the server.
  struct Line {
    PullModelFn pull;
    std::mutex mutex;
    std::shared_ptr<ModelPull> current;  // Null: none was begun.
    std::shared_ptr<ModelPull> next;     // Begins once the current one, given up, has ended.
  };
  // Runs the current one, and what follows it.
  static void Run(Line* line);

  const std::shared_ptr<Line> line_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_MODEL_PULLS_H_
