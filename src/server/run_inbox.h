// Which stored answers the thread that writes their records is to look at.
#ifndef ROPEWAY_SERVER_RUN_INBOX_H_
#define ROPEWAY_SERVER_RUN_INBOX_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace ropeway::server {

class StoredRun;

// Thread rule: any thread.
class RunInbox {
 public:
  void Add(std::shared_ptr<StoredRun> run);
  // What was added since; waits for it until `deadline`, or Close.
  std::vector<std::shared_ptr<StoredRun>> Take(std::chrono::steady_clock::time_point deadline);
  // Nothing is taken any more. What was not yet is dropped: runs keep their inbox.
  void Close();
  bool closed() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::shared_ptr<StoredRun>> runs_;  // GUARDED_BY(mutex_)
  bool closed_ = false;                           // GUARDED_BY(mutex_)
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_RUN_INBOX_H_
