#include "net/name_lookup.h"

#include <pthread.h>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace ropeway::net {
namespace {

// How long a thread waits before it tries again to pass on what it found, where memory is short.
constexpr std::chrono::milliseconds kTellAgain(10);

HttpEndpoints AskSystem(const std::string& host, uint16_t port, boost::system::error_code* error) {
  boost::asio::io_context own;
  boost::asio::ip::tcp::resolver resolver(own);
  return resolver.resolve(host, std::to_string(port), *error);
}

}  // namespace

// Shared by the NameLookup, the thread that resolves, and what that thread posts.
struct NameLookup::Job {
  // Resolves, and passes on what was found. Blocks.
  void Work(const std::shared_ptr<Job>& self);
  // Called by the thread that runs the io_context.
  void Tell();

  // Constant.
  std::string host;
  uint16_t port = 0;
  Resolve resolve;

  // What was found; constant once it is posted.
  boost::system::error_code error;
  HttpEndpoints found;

  std::mutex mu;
  boost::asio::io_context* io = nullptr;  // Null: the result is no longer wanted. GUARDED_BY(mu)
  Done done;                              // GUARDED_BY(mu)
};

void NameLookup::Job::Work(const std::shared_ptr<Job>& self) {
  {
    const std::lock_guard lock(mu);
    if (io == nullptr) return;  // Others need the thread.
  }
  try {
    found = resolve ? resolve(host, port, &error) : AskSystem(host, port, &error);
  } catch (const std::exception&) {
    error = boost::asio::error::no_memory;
  }
  while (true) {
    {
      // Held while it is posted: the io_context may go when its owner has let go of the lookup.
      const std::lock_guard lock(mu);
      if (io == nullptr) return;
      try {
        boost::asio::post(*io, [self] { self->Tell(); });
        return;
      } catch (const std::exception&) {  // Memory is short, but the asker waits.
      }
    }
    std::this_thread::sleep_for(kTellAgain);
  }
}

void NameLookup::Job::Tell() {
  Done told;
  {
    const std::lock_guard lock(mu);
    if (io == nullptr) return;
    io = nullptr;
    told.swap(done);
  }
  told(error, found);
}

// The threads of all lookups. Each ends when no lookup waits, so an idle process has none.
class NameLookup::Threads {
 public:
  // The process's one instance. Never destroyed: threads may outlive main.
  static Threads& All() {
    static auto& threads = *new Threads;
    return threads;
  }

  // Throws, with nothing changed, where memory is short or there is no thread to do it.
  void Add(std::shared_ptr<Job> job) {
    const std::lock_guard lock(mu_);
    jobs_.push_back(std::move(job));
    if (count_ == kMaxThreads) return;
    try {
      std::thread([this] { Run(); }).detach();
      ++count_;
    } catch (...) {
      if (count_ > 0) return;  // One of the others takes it.
      jobs_.pop_back();
      throw;
    }
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "ropeway-resolve");  // 15 characters at most.
    while (const std::shared_ptr<Job> job = Take()) job->Work(job);
  }

  // Null: there is none, and the thread does not count any more.
  std::shared_ptr<Job> Take() {
    const std::lock_guard lock(mu_);
    if (jobs_.empty()) {
      --count_;
      return nullptr;
    }
    std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

  std::mutex mu_;
  std::deque<std::shared_ptr<Job>> jobs_;  // Those that wait for a thread.
  int count_ = 0;
};

NameLookup::NameLookup(std::string host, uint16_t port, boost::asio::io_context* io, Done done,
                       Resolve resolve)
    : job_(std::make_shared<Job>()) {
  job_->host = std::move(host);
  job_->port = port;
  job_->resolve = std::move(resolve);
  job_->io = io;
  job_->done = std::move(done);
  Threads::All().Add(job_);
}

NameLookup::~NameLookup() {
  Done released;  // Let go of without the lock: what it captured may do anything.
  const std::lock_guard lock(job_->mu);
  job_->io = nullptr;
  released.swap(job_->done);
}

}  // namespace ropeway::net
