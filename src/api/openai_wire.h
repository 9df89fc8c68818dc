// OpenAI's API as kinds of servers speak it: what openai, llamacpp and ropeway share.
#ifndef ROPEWAY_API_OPENAI_WIRE_H_
#define ROPEWAY_API_OPENAI_WIRE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/wire_answer.h"
#include "api/wire_fields.h"
#include "api/wire_format.h"
#include "api/wire_json.h"
#include "core/parameters.h"
#include "net/sse_parser.h"

namespace ropeway::api::wire {

inline bool IsChat(const Request& request) { return std::holds_alternative<Chat>(request.prompt); }

// Reads the answer to a request for one choice: a stream of completions or chat completions, or the
// whole answer as one JSON document, which some servers send whatever was asked for.
//
// Text comes from `text` and `delta.content`, thoughts from `delta.reasoning_content` or
// `delta.reasoning`, calls of tools from `delta.tool_calls`. The stream ends with [DONE], or with
// the body once a finish_reason has come. What keeps a connection alive is no output: an event
// without data or without choices, a ping. One request has its connection to itself, so neither the
// `id` of an event nor the `index` of its choice is read; but an event with several choices is a
// failure.
class OpenAiReply : public WireReply {
 public:
  // A longer answer that is one document is a failure.
  static constexpr size_t kMaxWholeBytes = size_t{4} << 20;

  explicit OpenAiReply(const Request& request);

  std::optional<Outcome> Feed(std::string_view bytes, const DeltaFn& give) final;
  bool complete() const final { return complete_; }
  Outcome End(const DeltaFn& give) final;

 protected:
  // Takes what a kind adds to an event, and to its choice, whose `tokens` are those with
  // log-probabilities.
  virtual void OnEvent(const nlohmann::json& /*event*/, FieldReader* /*fields*/) {}
  virtual void OnChoice(const nlohmann::json& /*choice*/, FieldReader* /*fields*/,
                        std::vector<OutputToken>* /*tokens*/) {}
  bool logprobs() const { return logprobs_.has_value(); }

  Finish end_ = Outcome::Unsaid();

 private:
  // What the body is, as its first character tells.
  enum class Shape { kUnknown, kStream, kDocument };
  std::optional<Outcome> FeedStream(std::string_view bytes, const DeltaFn& give);
  std::optional<Outcome> TakeEvent(const net::SseEvent& event, const DeltaFn& give);
  std::optional<Outcome> TakeWhole(const DeltaFn& give);
  // An event, or the whole answer: the object and the text that it was read from.
  std::optional<Outcome> TakeObject(const nlohmann::json& event, std::string_view source,
                                    const DeltaFn& give);
  void TakeUsage(const nlohmann::json& event, FieldReader* fields);
  bool IsOfAnotherKind(const nlohmann::json& choice) const;
  // What the choice, which was read from `source`, says.
  void ReadSaid(const nlohmann::json& choice, std::string_view source, FieldReader* fields,
                Delta* delta);
  // The same; `marked`: the choice is of a document that MarkHalves returned.
  void ReadMarked(const nlohmann::json& choice, bool marked, FieldReader* fields, Delta* delta);
  std::optional<Outcome> Give(Delta delta, const DeltaFn& give);
  void TakeStop(const nlohmann::json& stop);
  std::optional<Outcome> TakeFinish(std::string_view reason);

  const bool chat_;
  const std::optional<int32_t> logprobs_;
  const std::optional<int32_t> max_tokens_;
  const std::vector<std::string> stops_;
  Shape shape_ = Shape::kUnknown;
  std::string start_;        // A body of unknown shape, or all of a document so far.
  size_t looked_at_ = 0;     // Bytes of it, for the first that tells the shape.
  bool has_choice_ = false;  // Some choice said something.
  net::SseParser events_{kMaxEventBytes};
  LengthGuard length_;
  AnswerReader answer_;
  uint64_t token_bytes_ = 0;  // The bytes of the tokens so far.
  bool has_pieces_ = false;   // A `delta` said something.
  bool finished_ = false;     // A finish_reason came.
  bool calls_ = false;        // It was that of calls.
  bool complete_ = false;     // [DONE] came, or too much behind a finish_reason.
};

class OpenAiWire : public WireFormat {
 public:
  explicit OpenAiWire(ServerModel model) : configured_(std::move(model)) {}

  StatusOr<WireRequest> Write(const Request& request) const final;
  std::unique_ptr<WireReply> MakeReply(const Request& request) const final;
  bool IsAnswer(std::string_view media_type) const final;
  std::vector<std::string> Unknown(const Request& request) const override;

 protected:
  // What it is to core/parameters.h.
  virtual core::ServerKind Kind() const = 0;
  // Adds what else the kind wants; `body` is complete otherwise.
  // Fails as Write does.
  virtual Status AddFields(const Request& request, nlohmann::ordered_json* body) const = 0;
  // The same for an embedding. `body` has the model and the input.
  virtual Status AddEmbeddingFields(const Request& request, nlohmann::ordered_json* body) const;
  // What to ask for where the request wants the log-probabilities of `top` tokens.
  virtual int32_t AskedLogprobs(int32_t top) const { return top; }

  // What reads the stream of a request that is no embedding's.
  virtual std::unique_ptr<WireReply> MakeStreamReply(const Request& request) const;

  const ServerModel& configured() const { return configured_; }
  // The model's name at the server, as far as that is known; "": as requests have it.
  std::string ModelName() const;
  // Takes the names of all models that the server has. Returns whether its model is one of them, or
  // the only one, where its name may differ.
  bool Recognize(const std::vector<std::string>& names);

 private:
  const ServerModel configured_;
  mutable std::mutex mu_;
  // The name of the only model, if that is another one. GUARDED_BY(mu_)
  std::string reported_;
};

// The failure that an event of a stream tells of; nothing if it tells of none. `is_error`: its type
// says that it is one.
std::optional<Outcome> StreamError(const nlohmann::json& event, bool is_error);

// Reads OpenAI's list of models.
Status ReadModels(std::string_view body, BackendFacts* facts);

}  // namespace ropeway::api::wire

#endif  // ROPEWAY_API_OPENAI_WIRE_H_
