// A backend that computes nothing: each call takes the same time, so many of them at once.
#ifndef ROPEWAY_BENCH_SIMULATED_BACKEND_H_
#define ROPEWAY_BENCH_SIMULATED_BACKEND_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ropeway/backend.h"

namespace ropeway::bench {

// Answers each request with one word, `call_time` after one of its `places` was free for it. Its
// facts name the places. It answers on a thread of its own. Destroy it on another thread: keep a
// reference for as long as calls may be under way.
class SimulatedBackend final : public Backend {
 public:
  SimulatedBackend(int places, std::chrono::nanoseconds call_time);
  ~SimulatedBackend() override;
  SimulatedBackend(const SimulatedBackend&) = delete;
  SimulatedBackend& operator=(const SimulatedBackend&) = delete;

  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override;
  // A cancelled request keeps its place until its time is up, as in a batch on a device.
  Status Cancel(RequestId id) override;
  void Probe(ProbeFn done) override;

  // The most calls that were under way at once, waiting ones not counted.
  int most_at_once() const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  // What was asked and is not answered.
  struct Pending {
    RequestId id = 0;
    std::shared_ptr<Sink> sink;
    std::atomic<bool> cancelled = false;
  };

  static void Answer(const Pending& pending);
  // REQUIRES: mutex_ is held.
  void FillPlaces(TimePoint from);
  void Work();

  const size_t places_;
  const std::chrono::nanoseconds call_time_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<std::pair<TimePoint, std::shared_ptr<Pending>>> running_;  // By when they are due.
  std::deque<std::shared_ptr<Pending>> waiting_;
  size_t most_ = 0;
  std::unordered_map<RequestId, std::shared_ptr<Pending>> pending_;
  RequestId last_id_ = 0;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace ropeway::bench

#endif  // ROPEWAY_BENCH_SIMULATED_BACKEND_H_
