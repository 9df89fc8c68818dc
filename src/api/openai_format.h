// What OpenAI's dialects, completions, chat and responses, share: fields, chunks, usage and errors.
#ifndef ROPEWAY_API_OPENAI_FORMAT_H_
#define ROPEWAY_API_OPENAI_FORMAT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_format.h"
#include "api/chat_body.h"
#include "api/fields.h"
#include "api/json.h"

namespace ropeway::api {

// A body of either dialect, with what it says about the answer's form.
struct OpenAiBody : ApiRequest, ChatDraft {
  int max_choices = 0;  // The server's bound.
  bool has_stream_options = false;
  bool include_usage = false;                   // A stream ends with a chunk that has the usage.
  bool prompt_logprobs = false;                 // The answer has vLLM's field of this name.
  bool service_tier = false;                    // The answer names the tier that served it.
  std::optional<Priority> tier;                 // The class that `service_tier` means.
  std::string max_tokens_field = "max_tokens";  // The field that set request.max_tokens.
  bool to_context_end = false;                  // It was given as -1.

  std::optional<int32_t> best_of;  // Completions only.
  bool logprobs = false;           // This and the next are of chats.
  std::optional<int32_t> top_logprobs;
  // "none", "auto", "required" or, where it names a tool, "function"; "": absent. Of chats.
  std::string tool_choice;
  std::string tool_name;                   // Where it names one.
  std::vector<std::string> allowed_tools;  // Those that alone may be called; none: all.
  bool parallel_tool_calls = true;
};

// Members of the request, for the readers of fields.h.
template <typename T>
T* Slot(OpenAiBody* body, T Request::*member) {
  return &(body->request.*member);
}

inline constexpr int kMaxLogprobs = 20;  // The engine's bound (ropeway/request.h).

// The table of one dialect: its own fields and the fields that both have.
FieldTable<OpenAiBody> WithOpenAiFields(Dialect dialect, FieldReaders<OpenAiBody> own);
const FieldTable<OpenAiBody>& CompletionFields();
const FieldTable<OpenAiBody>& ChatFields();

// Adds a text, a list of token ids, or a list of at most `most` of either, to `prompts`; a message
// calls several of them `what`.
Status ReadPrompts(const nlohmann::json& value, const std::string& field, int most,
                   const char* what, std::vector<Prompt>* prompts);

// Reads a body by the table of its dialect; `finish` then checks the fields together and completes
// the request. `zero_tokens_need`: the fields that max_tokens 0 needs one of; "": it is an error.
Status ReadOpenAiBody(std::string_view text, const BodyLimits& limits,
                      const FieldTable<OpenAiBody>& table, std::string_view zero_tokens_need,
                      const std::function<void(FieldReport* report)>& finish, OpenAiBody* body);

// A token as a key that no other token's bytes share: its text, or "bytes:\xe2\x96" where that is
// not valid UTF-8. OpenAI writes completions' tokens so.
std::string TokenKey(std::string_view bytes);

// A log-probability as JSON can hold it: minus infinity becomes -9999, as in vLLM.
double FiniteLogprob(float logprob);

// How many of the token's top log-probabilities can be shown.
size_t TopCount(const OutputToken& token);

// OpenAI's list of tokens with their log-probabilities: {"token", "logprob", "bytes",
// "top_logprobs"}.
nlohmann::ordered_json TokensJson(const std::vector<OutputToken>& tokens);

// OpenAI's name of the tier that serves a class.
const char* ServiceTier(Priority priority);

// Ropeway's own block of an answer (docs/api.md).
std::string RopewayJson(std::span<const Finish> choices);

// vLLM's "prompt_logprobs": for each token of the prompt null or {"<id>": {"logprob", "rank",
// "decoded_token"}, ...}. The rank of a token that is not among the most probable ones is null.
nlohmann::ordered_json PromptLogprobs(const std::vector<OutputToken>& tokens);

// Whether the last call of tools in an answer is whole: a client acts on calls where the
// "finish_reason" says so.
class LastCall {
 public:
  void Add(const ToolCallDelta& call);
  // Whether there is one, whose arguments have ended.
  bool whole() const { return begun_ && depth_ == 0 && !in_string_; }

 private:
  int32_t index_ = -1;
  bool begun_ = false;  // Of its arguments there is something.
  int64_t depth_ = 0;   // Brackets that are open.
  bool in_string_ = false;
  bool escaped_ = false;
};

// Streams server-sent events. What all chunks of an answer share is written once, so that a token
// costs its own text.
class OpenAiFormat : public ApiFormat {
 public:
  Status Parse(std::string_view body, const BodyLimits& limits) final;
  std::vector<std::string> Fields() const final { return NamesOf(table_); }
  ApiRequest* request() final { return body_; }
  void Start(AnswerHead head) override;
  std::string Whole(const std::vector<ChoiceOutput>& choices) const final;
  // The chunk with the choice's finish reason.
  std::string OnEnd(size_t choice, const Finish& finish) override;
  // The usage where it was asked for, and "[DONE]".
  std::string Done() final;
  // No "[DONE]" follows: the answer is incomplete.
  std::string StreamError(const ApiError& error) const final;
  std::string_view KeepAlive() const final { return ": keep-alive\n\n"; }
  std::string_view id_prefix() const final { return words_.id_prefix; }
  // As a whole answer without choices, and with "status" and "error".
  std::string Pending(AnswerState state, const ApiError* error) const final;

 protected:
  struct Words {
    const char* id_prefix;
    const char* object;            // The "object" of a whole answer.
    const char* chunk_object;      // The "object" of a chunk.
    const char* no_output;         // A chunk's member for output, where there is none.
    const char* zero_tokens_need;  // The fields that max_tokens 0 needs one of.
  };

  // `body` is the implementation's, and outlives this.
  OpenAiFormat(const Words& words, const FieldTable<OpenAiBody>& table, OpenAiBody* body)
      : words_(words), table_(table), body_(body) {}

  // Checks the fields together; completes the request.
  virtual void FinishBody(FieldReport* report) = 0;
  // One entry of "choices" in a whole answer.
  virtual nlohmann::ordered_json ChoiceJson(size_t choice, const ChoiceOutput& output) const = 0;
  // Members of a whole answer that only this dialect has; ends with a comma where there are any.
  virtual std::string MoreMembers(const std::vector<ChoiceOutput>&) const { return ""; }

  // A chunk's member for what a delta says.
  virtual std::string OutputMember(const Delta& delta) const = 0;
  // The "finish_reason" of a choice that ended by itself. `calls`: with whole calls of tools.
  virtual const char* StopReason(bool /*calls*/) const { return "stop"; }

  const AnswerHead& head() const { return head_; }
  bool logprobs() const { return body_->request.logprobs.has_value(); }
  // Whether a stream has an event for this delta now. For a gateway each token has one, and text
  // without a token, which was held back until the end, is kept for the chunk with the finish
  // reason: so a gateway has all of what belongs to a token, or nothing.
  bool HasEvent(size_t choice, Delta* delta);

  // One event with output of one choice. `output` is a JSON member, `logprobs` a JSON value;
  // `tokens`: what it accounts for.
  std::string Chunk(size_t choice, std::string_view output, std::string_view logprobs,
                    const std::vector<OutputToken>& tokens) const;
  // One event with output of one choice that accounts for no tokens.
  std::string Chunk(size_t choice, std::string_view output, std::string_view logprobs) const;

 private:
  struct ChunkEnd {
    std::string_view finish_reason = "null";  // A JSON value.
    std::string_view in_choice = "";          // Members of the choice, each behind a comma.
    std::string_view tail = "";               // Members of the chunk, each behind a comma.
  };
  std::string MakeChunk(size_t choice, std::string_view output, std::string_view logprobs,
                        const ChunkEnd& end) const;
  // What a whole answer begins with.
  nlohmann::ordered_json Envelope() const;
  // The finish reason as a JSON value.
  std::string ReasonOf(const Finish& finish, bool calls) const;
  bool shows_ids() const { return body_->gateway && body_->gateway->ids; }

  const Words words_;
  const FieldTable<OpenAiBody>& table_;
  OpenAiBody* const body_;
  AnswerHead head_;
  std::string begin_;             // What every chunk begins with, up to its choices.
  std::vector<Finish> finishes_;  // By choice, in a stream.
  std::vector<Delta> rests_;      // By choice, in a stream: see HasEvent.
  std::vector<LastCall> calls_;   // By choice, in a stream.
};

}  // namespace ropeway::api

#endif  // ROPEWAY_API_OPENAI_FORMAT_H_
