// From a request's prompt to token ids that fit: chats are rendered, and texts encoded, in pieces.
#ifndef ROPEWAY_ENGINE_PROMPT_ENCODER_H_
#define ROPEWAY_ENGINE_PROMPT_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fiber.h"
#include "core/block_name.h"
#include "engine/engine_core.h"
#include "engine/engine_metrics.h"
#include "engine/live_request.h"
#include "engine/model_answers.h"
#include "service/front_desk.h"
#include "store/session_store.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// Asked about once in a millisecond, with the bytes that a rendering holds by then; whether the
// rendering is not wanted any more. It may return on another thread. Null: it is wanted.
using StoppedFn = std::function<bool(size_t held)>;

// Renders a chat; const and thread-safe. A long rendering fails (kCancelled) soon after `stopped`
// says so.
using ChatRenderer =
    std::function<StatusOr<tokenizer::RenderedChat>(const Chat&, const StoppedFn& stopped)>;

// What a chat is told where there is no renderer.
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
  explicit ChatRendering(std::function<Status(const StoppedFn& stopped)> work)
      : fiber_([this, work = std::move(work)](const base::Fiber::PauseFn& pause) {
          status_ = work([this, &pause](size_t held) {
            held_ = held;
            return pause();
          });
        }) {}
  ChatRendering(const ChatRendering&) = delete;
  ChatRendering& operator=(const ChatRendering&) = delete;

  // Does a piece of about a millisecond; whether the work has ended. Throws what it throws.
  bool Run() {
    ++pieces_;
    return fiber_.Run();
  }

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

// What a text costs that is encoded in pieces, in units of tokenizer::Work: about a millisecond.
inline constexpr size_t kEncodingPiece = 8192;

// Thread rule: const and thread-safe.
class PromptEncoder {
 private:
  // A prompt of text between ids. Each part may be absent.
  struct Parts {
    std::vector<TokenId> before;
    std::optional<std::string> text;
    tokenizer::Spans quoted;  // The parts of the text that messages said.
    bool add_special = false;
    std::vector<TokenId> after;
    // How the answer is read; absent: as text.
    std::optional<answer::AnswerOptions> answer;
  };

 public:
  // `render_chat` may be empty: then chats are rejected. `cache_root`: common to all requests,
  // except for scope and salt. `sessions` and `metrics`, used for turns of sessions alone, and
  // `answers`, without which answers to chats are text, must outlive it.
  PromptEncoder(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, ChatRenderer render_chat,
                int32_t max_model_len, core::CacheRoot cache_root, store::SessionStore* sessions,
                const TurnMetrics* metrics, const ModelAnswers* answers = nullptr,
                Pooling pooling = Pooling::kLast);

  // A text, or a chat, that is only to be encoded, not to be answered. This must outlive it. Throws
  // std::bad_alloc.
  std::unique_ptr<service::Tokenization> BeginText(std::string text, bool add_special) const;
  // kInvalidArgument without a chat template.
  StatusOr<std::unique_ptr<service::Tokenization>> BeginChat(Chat chat, bool add_special) const;

  // One request being encoded. Thread rule: one thread at a time.
  class Job {
   public:
    // Both must outlive it.
    Job(const PromptEncoder* encoder, LiveRequest* live) : encoder_(encoder), live_(live) {}
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // Applies the chat template, encodes, and resolves max_tokens: one piece of that, about a
    // millisecond of the template's or `work` units of tokenizer::Work long. Nullopt: there is more
    // to do.
    //
    // kInvalidArgument with the field at fault for a prompt that is empty or too long, for
    // min_tokens above what the prompt leaves, and for ids that the model lacks, wherever they
    // stand. A text that is far too long is not encoded to its end. Takes the prompt out of the
    // request. A turn of a session goes on from the session's ids, which are read from the store;
    // the status says why they cannot be read, or used with this model and prompt.
    std::optional<StatusOr<core::CoreRequest>> Run(size_t work = kEncodingPiece);

    // The memory that rendering or encoding takes by now, besides the text.
    size_t bytes() const;
    // Whether it should give way to shorter ones: its template takes long.
    bool gives_way() const { return rendering_ != nullptr && rendering_->gives_way(); }

   private:
    // Does a piece of reading what is to be encoded; nullopt: there is more to do.
    std::optional<Status> Prepare();

    const PromptEncoder* const encoder_;
    LiveRequest* const live_;
    bool prepared_ = false;
    Parts parts_;
    std::unique_ptr<ChatRendering> rendering_;       // While a chat is rendered. It uses the above.
    std::unique_ptr<tokenizer::Encoding> encoding_;  // Encodes the text, if there is one.
  };

 private:
  // Reads what is to be encoded. `stopped`: for the chat template.
  Status Prepare(LiveRequest* live, const StoppedFn& stopped, Parts* parts) const;
  Status PreparePrompt(Request* request, const StoppedFn& stopped, Parts* parts) const;
  // Reads what is to be encoded for a session's turn, and sets the turn's `next`.
  Status PrepareTurn(Request* request, service::Turn* turn, const StoppedFn& stopped,
                     Parts* parts) const;
  // `before` is null for the session's first turn.
  Status PrepareChatTurn(Request* request, const store::SessionState* before,
                         const StoppedFn& stopped, store::SessionState* next, Parts* parts) const;
  Status PrepareTextTurn(Request* request, const store::SessionState* before, Parts* parts) const;
  // OK if a turn of `kind` can go on from `before` with this model.
  Status CheckHistory(const Request& request, const store::SessionState& before,
                      store::SessionState::Kind kind) const;
  // Renders `messages` for the model to answer.
  Status Render(const Chat& chat, const StoppedFn& stopped, Parts* parts) const;
  // Whether a prompt that is too long loses its end.
  static bool Cuts(const Request& request) {
    return request.embedding && request.embedding->truncate;
  }
  // The most ids that the text is encoded to; beyond, it cannot fit.
  size_t MostIds(const Parts& parts) const;
  Status TooLong(const Request& request, const Parts& parts, size_t least) const;
  StatusOr<core::CoreRequest> Finish(LiveRequest* live, const Parts& parts,
                                     std::vector<TokenId> ids) const;
  // What its output is held to; null: nothing.
  std::shared_ptr<const core::Constraint> ConstraintOf(const LiveRequest& live,
                                                       const Parts& parts) const;
  // Begins to read the answer to a chat with this prompt.
  void BeginAnswer(LiveRequest* live, const Parts& parts, const std::vector<TokenId>& ids) const;
  // `what` and `field` name the list.
  Status CheckIds(const std::vector<TokenId>& ids, const char* what, const char* field) const;
  Status CheckIds(const Request& request) const;
  // The ids that end the sequence.
  std::vector<TokenId> EndIds(const Request& request) const;
  // Names the KV blocks that the request may share.
  core::BlockName RootOf(const Request& request) const;
  // The number of tokens to generate; InvalidArgument if the request can never fit.
  StatusOr<int32_t> ResolveMaxTokens(const Request& request, size_t prompt_tokens) const;

  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const ChatRenderer render_chat_;
  const int32_t max_model_len_;
  const core::CacheRoot cache_root_;
  store::SessionStore* const sessions_;
  const TurnMetrics* const metrics_;
  const ModelAnswers* const answers_;
  const Pooling pooling_;         // The model's.
  const std::string vocabulary_;  // Its digest.
  std::vector<TokenId> end_ids_;  // The model's end tokens.
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_PROMPT_ENCODER_H_
