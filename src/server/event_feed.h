// The stream of GET /admin/events: one frame for all watchers.
#ifndef ROPEWAY_SERVER_EVENT_FEED_H_
#define ROPEWAY_SERVER_EVENT_FEED_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "service/front_desk.h"

namespace ropeway::server {

// Makes frames while there are watchers, in a thread of its own, and nothing else.
//
// Thread rule: every method from any thread; Stop from one.
class EventFeed {
 public:
  static constexpr std::chrono::milliseconds kPeriod{100};
  // Between frames while nothing happens.
  static constexpr std::chrono::milliseconds kIdlePeriod{1000};
  static constexpr size_t kMostWatchers = 32;
  // Frames that wait for a slow watcher; further ones are dropped for it.
  static constexpr size_t kMostWaiting = 4;

  using Frame = std::shared_ptr<const std::string>;

  // A client that watches.
  class Watcher {
   public:
    // The frames since the last call.
    std::deque<Frame> Take();
    // No more frames will come.
    bool closed() const;

   private:
    friend class EventFeed;
    explicit Watcher(std::function<void()> wake) : wake_(std::move(wake)) {}

    // Takes a frame, unless too many wait.
    void Put(const Frame& frame);

    const std::function<void()> wake_;  // Called when there is something to take.
    bool fresh_ = true;                 // It has had no frame. The feed's thread's.
    mutable std::mutex mutex_;
    std::deque<Frame> frames_;  // GUARDED_BY(mutex_)
    bool closed_ = false;       // GUARDED_BY(mutex_)
  };

  // `desk` must outlive it.
  explicit EventFeed(service::FrontDesk* desk);
  ~EventFeed() { Stop(); }
  EventFeed(const EventFeed&) = delete;
  EventFeed& operator=(const EventFeed&) = delete;

  // A random text, other than that of any other process.
  const std::string& process() const { return process_; }

  // Adds a watcher, whose first frame comes at once and has the last requests that ended. Null:
  // there are kMostWatchers, or it is stopped. Throws std::bad_alloc with nothing changed.
  std::shared_ptr<Watcher> Watch(std::function<void()> wake);
  void Leave(const std::shared_ptr<Watcher>& watcher);

  // Closes all watchers, and takes no more.
  void Stop();

 private:
  void Loop();
  std::vector<std::shared_ptr<Watcher>> Watchers();
  // Makes a frame for all of them, and another one for those that are new.
  void Serve(const std::vector<std::shared_ptr<Watcher>>& watchers);
  // The next frame; null: nothing has happened since the last.
  Frame Next();
  // A frame with all requests that ended of late.
  Frame First();
  Frame Make(service::Activity activity, std::vector<service::RequestInfo> requests);

  service::FrontDesk* const desk_;
  const std::string process_;
  // The thread's own.
  service::ActivityCursor cursor_;
  std::chrono::steady_clock::time_point made_{};
  bool was_idle_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Watcher>> watchers_;  // GUARDED_BY(mutex_)
  bool stopped_ = false;                            // GUARDED_BY(mutex_)
  std::thread thread_;  // Begins with the first watcher. GUARDED_BY(mutex_)
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_EVENT_FEED_H_
