#include "ropeway/request_handle.h"

#include <algorithm>
#include <chrono>

#include "core/request_handle.h"

namespace ropeway {
namespace {

// A timeout beyond it would overflow the clock's count.
constexpr std::chrono::nanoseconds kMaxWaitTimeout = std::chrono::hours(24 * 365);

}  // namespace

StatusOr<Result> RequestHandle::Wait(std::optional<std::chrono::nanoseconds> timeout) const {
  if (state_ == nullptr) return InvalidArgument("this handle refers to no request");
  const auto ended = [this] { return state_->result != nullptr; };
  std::unique_lock lock(state_->mu);
  if (!timeout) {
    state_->ended.wait(lock, ended);
  } else if (!state_->ended.wait_for(lock, std::min(*timeout, kMaxWaitTimeout), ended)) {
    return Status(StatusCode::kDeadlineExceeded, "the request has not ended yet");
  }
  return *state_->result;
}

std::optional<Result> RequestHandle::Poll() const {
  if (state_ == nullptr) return std::nullopt;
  const std::lock_guard lock(state_->mu);
  if (state_->result == nullptr) return std::nullopt;
  return *state_->result;
}

void RequestHandle::Cancel() const {
  if (state_ != nullptr) state_->link->Cancel(id_);
}

}  // namespace ropeway
