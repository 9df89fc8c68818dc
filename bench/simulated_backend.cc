#include "bench/simulated_backend.h"

#include <algorithm>
#include <vector>

namespace ropeway::bench {

class SimulatedBackend::Call final : public RemoteCall {
 public:
  explicit Call(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  ~Call() override {
    // A cancelled call keeps its place until its time is up, as a batch on a device does.
    std::shared_ptr<RemoteSink> sink;  // Let go of without the lock.
    const std::lock_guard lock(pending_->mutex);
    pending_->over = true;
    sink.swap(pending_->sink);
  }

 private:
  const std::shared_ptr<Pending> pending_;
};

SimulatedBackend::SimulatedBackend(int places, std::chrono::nanoseconds call_time)
    : places_(static_cast<size_t>(places)), call_time_(call_time), thread_([this] { Work(); }) {}

SimulatedBackend::~SimulatedBackend() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<RemoteCall> SimulatedBackend::Start(const Request& /*request*/,
                                                    const ResumePoint* /*resume*/,
                                                    std::shared_ptr<RemoteSink> sink) {
  auto pending = std::make_shared<Pending>();
  pending->sink = std::move(sink);
  auto call = std::make_unique<Call>(pending);
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(pending));
    FillPlaces(std::chrono::steady_clock::now());
  }
  changed_.notify_all();
  return call;
}

void SimulatedBackend::Probe(std::function<void(StatusOr<BackendFacts>)> done) {
  BackendFacts facts;
  facts.places = static_cast<int>(places_);
  done(std::move(facts));
}

int SimulatedBackend::most_at_once() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(most_);
}

void SimulatedBackend::FillPlaces(TimePoint from) {
  const auto call_time =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(call_time_);
  while (running_.size() < places_ && !waiting_.empty()) {
    running_.emplace_back(from + call_time, std::move(waiting_.front()));
    waiting_.pop_front();
  }
  most_ = std::max(most_, running_.size());
}

void SimulatedBackend::Answer(Pending* pending) {
  const std::lock_guard lock(pending->mutex);
  const std::shared_ptr<RemoteSink> sink = pending->sink;
  if (pending->over) return;
  Delta delta;
  delta.text = "word";
  sink->OnDelta(std::move(delta));
  if (pending->over) return;  // Cancelled meanwhile.
  pending->over = true;
  pending->sink.reset();
  BackendEnd end;
  end.reason = FinishReason::kLength;
  end.prompt_tokens = 2;
  end.completion_tokens = 1;
  sink->OnEnd(end);
}

void SimulatedBackend::Work() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (running_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const TimePoint due = running_.front().first;
    if (std::chrono::steady_clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    std::vector<std::shared_ptr<Pending>> done;
    while (!running_.empty() && running_.front().first <= due) {
      done.push_back(std::move(running_.front().second));
      running_.pop_front();
    }
    FillPlaces(due);
    lock.unlock();
    for (const std::shared_ptr<Pending>& pending : done) Answer(pending.get());
    done.clear();
    lock.lock();
  }
}

}  // namespace ropeway::bench
