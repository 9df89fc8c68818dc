#include "engine/chat_rendering.h"

#include <utility>

namespace ropeway::engine {

Status NoChatTemplate() {
  return InvalidArgument(
      "this model has no chat template; use a completion with a text prompt (ropeway run --raw)",
      "messages");
}

ChatRendering::ChatRendering(std::function<Status(const StoppedFn& stopped)> work)
    : fiber_([this, work = std::move(work)](const base::Fiber::PauseFn& pause) {
        status_ = work([this, &pause](size_t held) {
          held_ = held;
          return pause();
        });
      }) {}

bool ChatRendering::Run() {
  ++pieces_;
  return fiber_.Run();
}

}  // namespace ropeway::engine
