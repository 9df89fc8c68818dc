// One HTTP request with many inputs to embed, in the backend's hands a part at a time.
#ifndef ROPEWAY_SERVER_INPUT_FEED_H_
#define ROPEWAY_SERVER_INPUT_FEED_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/api_format.h"
#include "server/answer_source.h"
#include "server/key_limits.h"
#include "server/submission.h"
#include "service/front_desk.h"

namespace ropeway::server {

// What a number of an embedding takes in memory until the answer is sent: 4 bytes there, and about
// 12 as text.
inline constexpr size_t kEmbeddingNumberBytes = 16;

// As http::TooManyAnswers, which says nothing that one such request could change.
Status TooManyEmbeddings();

// kInvalidArgument: the model's embeddings have only `size` numbers.
Status FewerDimensions(int32_t dimensions, size_t size);

// The inputs of one request. The backend has a window of them at a time. So a request of thousands
// of inputs takes few places of the queue, and others of its tenant and class wait behind a few of
// its inputs only. The first window is admitted or rejected as a whole. What is rejected of later
// ones because the machine is full waits and is tried again: the request was accepted. Thread rule:
// the connection's strand.
class InputFeed final : public AnswerSource {
 public:
  // What the backend has at once: at most `most` inputs of about `tokens` tokens together, but
  // always `least` of them.
  struct Window {
    size_t most = 128;
    size_t least = 4;
    int64_t tokens = 2048;
  };
  // Between two tries of what was rejected.
  static constexpr std::chrono::milliseconds kPause{300};
  // The request fails if nothing of it is accepted for so long.
  static constexpr std::chrono::seconds kPatience{120};

  // What charges the embeddings as they come.
  struct Memory {
    std::shared_ptr<base::SharedBudget> answers = nullptr;  // Null: they are charged already.
    std::string tenant = {};
  };

  // `backend` must outlive it. `wake` is called when there is something to take.
  InputFeed(service::FrontDesk* backend, const Window& window, Memory memory,
            ServerSink::WakeFn wake)
      : backend_(backend), window_(window), memory_(std::move(memory)), wake_(std::move(wake)) {}
  ~InputFeed() override { Cancel(); }
  InputFeed(const InputFeed&) = delete;
  InputFeed& operator=(const InputFeed&) = delete;

  // Submits the first window; moves the prompts out of `api`. `tickets`: one for each input. Call
  // once. REQUIRES: api->n is 1.
  Status Begin(api::ApiRequest* api, std::vector<KeyTicket> tickets);

  // Submits what the window has room for.
  Time Advance() override;
  // As the destructor.
  void Cancel() override;

  size_t size() const override { return inputs_.size(); }
  bool ended(size_t input) const override { return inputs_[input].state == State::kEnded; }
  Progress Look(size_t input) override;
  Output Take(size_t input) override;
  AnswerFacts facts(size_t input) const override { return inputs_[input].facts; }
  std::optional<int32_t> queue_position() override { return position_; }
  bool cut() const override { return cut_; }

 private:
  enum class State : uint8_t { kWaiting, kUnderWay, kEnded };
  struct Input {
    api::Prompt prompt;  // Until its end: it may be tried again.
    KeyTicket ticket;
    int64_t tokens = 0;  // About.
    State state = State::kWaiting;
    std::shared_ptr<ServerSink> sink;
    RequestId id = 0;
    AnswerFacts facts;
  };

  bool HasRoom(const Input& next) const;
  // Hands `batch` to the backend; if that fails, they wait again, in their order.
  Status Submit(const std::vector<size_t>& batch);
  // Whether what ended so before it was admitted is tried once more.
  bool TriesAgain(const Status& end) const;
  // The backend does not have it any more.
  void Leave(Input* input);
  // Charges what an input's end brought. False: its tenant's answers take too much memory.
  bool Keep(Output* output);
  // What is left of the request's time, which is absent where it has no end.
  std::optional<std::chrono::milliseconds> TimeLeft() const;

  service::FrontDesk* const backend_;
  const Window window_;
  const Memory memory_;
  const ServerSink::WakeFn wake_;
  const Time begun_ = std::chrono::steady_clock::now();
  Request common_;  // Without a prompt.
  std::vector<Input> inputs_;
  std::deque<size_t> waiting_;  // In their order.
  size_t under_way_ = 0;
  int64_t tokens_under_way_ = 0;
  size_t ended_ = 0;
  size_t kept_bytes_ = 0;          // Of the embeddings that were taken.
  base::SharedBudget::Hold kept_;  // For them; the last output's has it in the end.
  bool cut_ = false;
  std::optional<int32_t> position_;
  Status rejection_;       // The last one.
  Status failure_;         // Nothing more can be submitted.
  Time not_before_{};      // The next try.
  bool accepted_ = false;  // Something of it was.
  Time moved_ = begun_;    // When something accepted was last under way.
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_INPUT_FEED_H_
