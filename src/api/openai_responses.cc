// POST /v1/responses: OpenAI's responses.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/api_format.h"
#include "api/dialects.h"
#include "api/responses_answer.h"
#include "api/responses_request.h"
#include "api/responses_stream.h"

namespace ropeway::api {
namespace {

class ResponsesFormat final : public ItemFormat {
 public:
  Status Parse(std::string_view body, const BodyLimits& limits) override {
    return ReadResponsesBody(body, limits, &body_);
  }
  std::vector<std::string> Fields() const override { return NamesOf(ResponsesFields()); }
  ApiRequest* request() override { return &body_; }

  Status Continue(const std::vector<std::string>& items) override {
    return ContinueItems(items, &body_);
  }

  void Start(AnswerHead head) override {
    hex_ = head.id;
    head_ = std::move(head);
    head_.id.insert(0, id_prefix());
    if (!head_.stored && body_.keeping.conversation.empty()) body_.items = {};
    stream_.emplace(&body_, &head_, hex_);
    stream_->StartAfter(start_after_);
  }

  std::string Whole(const std::vector<ChoiceOutput>& choices) const override {
    const ChoiceOutput& output = choices.front();
    const std::string items = JoinItems(Items(output));
    return ResponseJson(body_, head_,
                        {.state = EndState(choices), .output = items, .finish = &output.finish});
  }

  std::vector<std::string> InputItems() const override {
    std::vector<std::string> shown;
    for (size_t i = 0; i < body_.items.size(); ++i) {
      const InputItem& item = body_.items[i];
      const std::string made =
          std::string(ItemPrefix(item.kind)) + hex_ + "_in" + std::to_string(i);
      shown.push_back(ShowItem(item.id.empty() ? made : item.id, item));
    }
    return shown;
  }

  std::vector<std::string> OutputItems(const ChoiceOutput& output) const override {
    std::vector<std::string> shown;
    for (const OutputItem& item : Items(output)) shown.push_back(ItemJson(item));
    return shown;
  }

  void StartAfter(int64_t sequence_number) override {
    start_after_ = sequence_number;
    if (stream_) stream_->StartAfter(sequence_number);
  }

  std::string Begin() override { return stream_->Begin(); }
  std::string OnDelta(size_t, Delta delta) override { return stream_->OnDelta(std::move(delta)); }
  std::string OnEnd(size_t, const Finish& finish) override { return stream_->OnEnd(finish); }
  // The last event ends the stream.
  std::string Done() override { return ""; }
  std::string StreamError(const ApiError& error) const override {
    return stream_->Failure(InResponses(error));
  }
  std::string_view KeepAlive() const override { return ": keep-alive\n\n"; }

  std::string_view id_prefix() const override { return "resp_"; }
  std::string Pending(AnswerState state, const ApiError* error) const override {
    if (error == nullptr) return ResponseJson(body_, head_, {.state = state});
    const ApiError known = InResponses(*error);
    return ResponseJson(body_, head_, {.state = state, .error = &known});
  }
  std::string ErrorBody(const ApiError& error) const override {
    return ErrorJson(InResponses(error));
  }

 private:
  std::vector<OutputItem> Items(const ChoiceOutput& output) const {
    return ItemsOf(output, hex_, body_.request.logprobs.has_value());
  }

  ResponsesBody body_;
  AnswerHead head_;
  std::string hex_;  // The response's id without its prefix.
  int64_t start_after_ = -1;
  std::optional<ResponsesStream> stream_;
};

}  // namespace

std::unique_ptr<ApiFormat> MakeOpenAiResponses() { return std::make_unique<ResponsesFormat>(); }

}  // namespace ropeway::api
