#include "bindings/stream.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <iterator>
#include <new>
#include <utility>

#include "base/tool_calls.h"

namespace ropeway::python {
namespace {

template <typename T>
void Append(std::vector<T> from, std::vector<T>* to) {
  if (to->empty()) {
    *to = std::move(from);
  } else {
    to->insert(to->end(), std::make_move_iterator(from.begin()),
               std::make_move_iterator(from.end()));
  }
}

void Join(Delta more, Delta* delta) {
  delta->text += more.text;
  delta->reasoning += more.reasoning;
  Append(std::move(more.tokens), &delta->tokens);
  Append(std::move(more.prompt_tokens), &delta->prompt_tokens);
  Append(std::move(more.tool_calls), &delta->tool_calls);
  Append(std::move(more.embedding), &delta->embedding);
}

}  // namespace

ReadyQueue::ReadyQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

ReadyQueue::~ReadyQueue() {
  if (fd_ >= 0) close(fd_);
}

void ReadyQueue::Add(uint64_t key) noexcept {
  {
    const std::lock_guard lock(mu_);
    try {
      keys_.push_back(key);
    } catch (const std::bad_alloc&) {
      all_ = true;
    }
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

std::vector<uint64_t> ReadyQueue::Take(bool* all) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = read(fd_, &count, sizeof count);
  const std::lock_guard lock(mu_);
  *all = std::exchange(all_, false);
  return std::exchange(keys_, {});
}

bool Stream::OnDelta(RequestId /*id*/, Delta delta) {
  const std::lock_guard lock(mu_);
  if (stopped_) return false;
  whole_.text += delta.text;
  whole_.reasoning += delta.reasoning;
  base::AddCalls(delta.tool_calls, &whole_.tool_calls);
  whole_.tokens.insert(whole_.tokens.end(), delta.tokens.begin(), delta.tokens.end());
  whole_.prompt_tokens.insert(whole_.prompt_tokens.end(), delta.prompt_tokens.begin(),
                              delta.prompt_tokens.end());
  whole_.embedding.insert(whole_.embedding.end(), delta.embedding.begin(), delta.embedding.end());
  if (streams_ && fresh_.has_value()) {
    Join(std::move(delta), &*fresh_);
  } else if (streams_) {
    fresh_ = std::move(delta);
  }
  Tell();
  return true;
}

void Stream::OnEnd(RequestId id, const Outcome& outcome) {
  const std::lock_guard lock(mu_);
  // First: whatever fails below, it has ended.
  ended_ = true;
  whole_.id = id;
  whole_.finish = outcome.finish;
  try {
    whole_.status = outcome.status;
  } catch (const std::bad_alloc&) {
    whole_.status = Status(StatusCode::kResourceExhausted, "no memory");  // Takes none.
  }
  for (Watcher& watcher : watchers_) watcher.told = false;
  Tell();
}

void Stream::Tell() {
  output_.notify_all();
  if (ended_) end_.notify_all();
  for (Watcher& watcher : watchers_) Tell(&watcher);
}

void Stream::Tell(Watcher* watcher) const {
  if ((watcher->only_end && !ended_) || std::exchange(watcher->told, true)) return;
  watcher->queue->Add(watcher->key);
}

void Stream::BeginToStream() {
  if (std::exchange(streams_, true)) return;
  Delta delta{.text = whole_.text, .tokens = whole_.tokens};
  delta.prompt_tokens = whole_.prompt_tokens;
  delta.reasoning = whole_.reasoning;
  for (size_t i = 0; i < whole_.tool_calls.size(); ++i) {
    const ToolCall& call = whole_.tool_calls[i];
    delta.tool_calls.push_back({static_cast<int32_t>(i), call.id, call.name, call.arguments});
  }
  delta.embedding = whole_.embedding;
  if (delta.says() || !delta.tokens.empty() || !delta.embedding.empty()) fresh_ = std::move(delta);
}

std::optional<Delta> Stream::Take(bool* ended) {
  const std::lock_guard lock(mu_);
  BeginToStream();
  *ended = ended_;
  for (Watcher& watcher : watchers_) watcher.told = false;
  return std::exchange(fresh_, std::nullopt);
}

bool Stream::WaitForOutput(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mu_);
  BeginToStream();
  return output_.wait_for(lock, limit, [this] { return HasOutput(); });
}

bool Stream::WaitForEnd(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mu_);
  return end_.wait_for(lock, limit, [this] { return ended_; });
}

bool Stream::ended() const {
  const std::lock_guard lock(mu_);
  return ended_;
}

Result Stream::result() const {
  const std::lock_guard lock(mu_);
  return whole_;
}

void Stream::Notify(std::shared_ptr<ReadyQueue> queue, uint64_t key, bool only_end) {
  const std::lock_guard lock(mu_);
  if (!only_end) BeginToStream();
  watchers_.push_back({std::move(queue), key, only_end, false});
  if (only_end ? ended_ : HasOutput()) Tell(&watchers_.back());
}

void Stream::Forget(const ReadyQueue* queue, uint64_t key) {
  const std::lock_guard lock(mu_);
  std::erase_if(watchers_, [&](const Watcher& watcher) {
    return watcher.queue.get() == queue && watcher.key == key;
  });
}

void Stream::Stop() {
  const std::lock_guard lock(mu_);
  stopped_ = true;
}

}  // namespace ropeway::python
