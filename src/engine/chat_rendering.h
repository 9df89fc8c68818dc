// Chats that are rendered in pieces.
#ifndef ROPEWAY_ENGINE_CHAT_RENDERING_H_
#define ROPEWAY_ENGINE_CHAT_RENDERING_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "base/fiber.h"
#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/chat_template.h"

namespace ropeway::engine {

// Asked about once in a millisecond, with the bytes that a rendering holds by then; whether the
// rendering is not wanted any more. It may return on another thread. Null: it is wanted.
using StoppedFn = std::function<bool(size_t held)>;

// Renders a chat, with the generation prompt where asked for; const and thread-safe. A long
// rendering fails (kCancelled) soon after `stopped` says so.
using ChatRenderer = std::function<StatusOr<tokenizer::RenderedChat>(
    const std::vector<ChatMessage>&, bool add_generation_prompt, const StoppedFn& stopped)>;

// The error for a chat without a template.
Status NoChatTemplate();

// What a job does for its first pieces of about a millisecond is done in its turn; one that takes
// longer gives way (base::PieceEnd).
inline constexpr int kPiecesInTurn = 16;

// Work that renders a chat, on a base::Fiber: it pauses where the renderer asks whether it is
// stopped. Thread rule: one thread at a time.
class ChatRendering {
 public:
  // `work` passes `stopped` to a ChatRenderer. Destroying this before its end stops it. Throws
  // std::bad_alloc.
  explicit ChatRendering(std::function<Status(const StoppedFn& stopped)> work);
  ChatRendering(const ChatRendering&) = delete;
  ChatRendering& operator=(const ChatRendering&) = delete;

  // Does a piece of about a millisecond; whether the work has ended. Throws what it throws.
  bool Run();

  // What the work returned, at its end.
  const Status& status() const { return status_; }
  // The memory that the rendering takes by now.
  size_t bytes() const { return held_; }
  bool gives_way() const { return pieces_ > kPiecesInTurn; }

 private:
  Status status_;
  size_t held_ = 0;
  int pieces_ = 0;
  base::Fiber fiber_;  // Last: it uses the others.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_CHAT_RENDERING_H_
