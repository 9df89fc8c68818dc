// POST /v1/messages and POST /v1/messages/count_tokens: Anthropic's API.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/anthropic_answer.h"
#include "api/anthropic_request.h"
#include "api/api_format.h"
#include "api/dialects.h"

namespace ropeway::api {
namespace anthropic {
namespace {

class Format : public ApiFormat {
 public:
  Status Parse(std::string_view body, const BodyLimits& limits) override {
    return ReadBody(body, limits, /*counts=*/false, &body_);
  }
  std::vector<std::string> Fields() const override { return NamesOf(anthropic::Fields()); }
  ApiRequest* request() override { return &body_; }

  void Start(AnswerHead head) override {
    head_ = std::move(head);
    head_.id.insert(0, id_prefix());
    stream_.emplace(&body_, &head_);
  }

  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    return MessageJson(body_, head_, choices.front());
  }

  void OnAdmitted(int64_t prompt_tokens) override { prompt_tokens_ = prompt_tokens; }
  std::string Begin() override { return stream_->Begin(prompt_tokens_); }
  std::string OnDelta(size_t, Delta delta) override { return stream_->OnDelta(delta); }
  std::string OnEnd(size_t, const Finish& finish) override { return stream_->OnEnd(finish); }
  // The last event ends the stream.
  std::string Done() override { return ""; }
  std::string StreamError(const ApiError& error) const override {
    return "event: error\ndata: " + ErrorBody(error) + "\n\n";
  }
  std::string_view KeepAlive() const override {
    return "event: ping\ndata: {\"type\":\"ping\"}\n\n";
  }

  std::string_view id_prefix() const override { return "msg_"; }
  std::string ErrorBody(const ApiError& error) const override {
    return ErrorJson(InAnthropic(error));
  }

 protected:
  Body body_;

 private:
  AnswerHead head_;
  int64_t prompt_tokens_ = 0;
  std::optional<Stream> stream_;
};

// The same body, and of the answer what its prompt takes.
class CountFormat final : public Format {
 public:
  Status Parse(std::string_view body, const BodyLimits& limits) override {
    return ReadBody(body, limits, /*counts=*/true, &body_);
  }
  // Those that the prompt depends on.
  std::vector<std::string> Fields() const override {
    return {"messages", "model",       "output_config",        "system",         "thinking",
            "tools",    "tool_choice", "chat_template_kwargs", "enable_thinking"};
  }
  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    return fmt::format("{{\"input_tokens\":{}}}", choices.front().finish.usage.prompt_tokens);
  }
};

}  // namespace
}  // namespace anthropic

std::unique_ptr<ApiFormat> MakeAnthropicMessages() { return std::make_unique<anthropic::Format>(); }
std::unique_ptr<ApiFormat> MakeAnthropicCount() {
  return std::make_unique<anthropic::CountFormat>();
}

}  // namespace ropeway::api
