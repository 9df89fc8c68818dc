// OpenAI's API as kinds of servers speak it: what openai, llamacpp and ropeway share.
#ifndef ROPEWAY_GATEWAY_OPENAI_WIRE_H_
#define ROPEWAY_GATEWAY_OPENAI_WIRE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/wire_format.h"
#include "gateway/wire_json.h"
#include "net/sse_parser.h"

namespace ropeway::gateway::wire {

// Reads a stream of completions or chat completions of one choice.
//
// Text comes from `text`, `delta.content`, and for models that think from `delta.reasoning_content`
// or `delta.reasoning`: a request has one text, so thoughts go into it between <think> and
// </think>, as the models write them. The stream ends with [DONE], or with the body once a
// finish_reason has come.
class OpenAiReply : public WireReply {
 public:
  explicit OpenAiReply(const Request& request);

  std::optional<BackendFailure> Feed(std::string_view bytes, RemoteSink* sink) final;
  bool complete() const final { return complete_; }
  std::optional<BackendFailure> End(RemoteSink* sink, BackendEnd* end) final;

 protected:
  // Takes what a kind adds to an event, and to its choice, whose `tokens` are those with
  // log-probabilities.
  virtual std::optional<BackendFailure> OnEvent(const nlohmann::json& /*event*/) {
    return std::nullopt;
  }
  virtual std::optional<BackendFailure> OnChoice(const nlohmann::json& /*choice*/,
                                                 std::vector<OutputToken>* /*tokens*/) {
    return std::nullopt;
  }
  bool logprobs() const { return logprobs_.has_value(); }

  BackendEnd end_;

 private:
  std::optional<BackendFailure> TakeEvent(std::string_view data, RemoteSink* sink);
  std::optional<BackendFailure> CheckId(const nlohmann::json& event);
  void TakeUsage(const nlohmann::json& event);
  std::optional<BackendFailure> TakeChoice(const nlohmann::json& choice, RemoteSink* sink);
  std::string TakeText(const nlohmann::json& choice);
  std::optional<BackendFailure> TakeFinish(const nlohmann::json& choice);

  const bool chat_;
  const std::optional<int32_t> logprobs_;
  const std::optional<int32_t> max_tokens_;
  net::SseParser events_{kMaxEventBytes};
  LengthGuard length_;
  ThoughtMarks thoughts_;
  std::string id_;            // Of all events.
  uint64_t token_bytes_ = 0;  // Of the tokens so far.
  bool finished_ = false;     // A finish_reason came.
  bool complete_ = false;     // [DONE] came, or too much behind a finish_reason.
};

class OpenAiWire : public WireFormat {
 public:
  explicit OpenAiWire(std::string model) : model_(std::move(model)) {}

  StatusOr<WireRequest> Write(const Request& request, const ResumePoint* resume) const final;
  std::unique_ptr<WireReply> MakeReply(const Request& request) const override;
  bool IsStream(std::string_view media_type) const final {
    return media_type == "text/event-stream";
  }
  std::vector<std::string> Unknown(const Request& request) const override;

 protected:
  // The parameters that the kind knows.
  virtual std::span<const ParameterName> Known() const = 0;
  // Adds what else the kind wants, with what the answer goes on from; `body` is complete otherwise.
  // Fails as Write does.
  virtual Status AddFields(const Request& request, const ResumePoint* resume,
                           nlohmann::ordered_json* body) const = 0;
  // What to ask for where the request wants the log-probabilities of `top` tokens.
  virtual int32_t AskedLogprobs(int32_t top) const { return top; }

  const std::string& model() const { return model_; }

 private:
  const std::string model_;
};

// The failure that an event of a stream tells of; nothing if it tells of none.
std::optional<BackendFailure> StreamError(const nlohmann::json& event);

// Reads OpenAI's list of models.
Status ReadModels(std::string_view body, BackendFacts* facts);

}  // namespace ropeway::gateway::wire

#endif  // ROPEWAY_GATEWAY_OPENAI_WIRE_H_
