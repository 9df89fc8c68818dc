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
  try {
    const std::lock_guard lock(mu_);
    keys_.push_back(key);
    if (keys_.size() > 1) return;
  } catch (const std::bad_alloc&) {
    return;  // It is told with the next output; the end is said once more by who waits for it.
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

std::vector<uint64_t> ReadyQueue::Take() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = read(fd_, &count, sizeof count);
  const std::lock_guard lock(mu_);
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
  if (fresh_.has_value()) {
    Join(std::move(delta), &*fresh_);
  } else {
    fresh_ = std::move(delta);
  }
  Tell();
  return true;
}

void Stream::OnEnd(RequestId id, const Outcome& outcome) {
  const std::lock_guard lock(mu_);
  whole_.id = id;
  whole_.status = outcome.status;
  whole_.finish = outcome.finish;
  ended_ = true;
  told_ = false;
  Tell();
}

void Stream::Tell() {
  output_.notify_all();
  if (ended_) end_.notify_all();
  if (queue_ == nullptr || (only_end_ && !ended_) || std::exchange(told_, true)) return;
  queue_->Add(key_);
}

std::optional<Delta> Stream::Take(bool* ended) {
  const std::lock_guard lock(mu_);
  *ended = ended_;
  told_ = false;
  return std::exchange(fresh_, std::nullopt);
}

bool Stream::WaitForOutput(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mu_);
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
  queue_ = std::move(queue);
  key_ = key;
  only_end_ = only_end;
  told_ = false;
  if (HasOutput()) Tell();
}

void Stream::Stop() {
  const std::lock_guard lock(mu_);
  stopped_ = true;
}

}  // namespace ropeway::python
