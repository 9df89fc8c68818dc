// The seam between the server and the dialects of its generation API.
//
// A dialect (OpenAI's completions, OpenAI's chat, ...) is one implementation of ApiFormat in one
// file, and one row in ServerRoutes (routes.cc). It reads a request body into an ApiRequest
// and writes the answer, streamed or whole, and the errors. Everything else (keys, limits, the
// backend, cancellation, HTTP) knows no dialect.
#ifndef ROPEWAY_API_API_FORMAT_H_
#define ROPEWAY_API_API_FORMAT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "http/http_error.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::api {

// An error as the API reports it, in OpenAI's terms. A dialect may write it in another shape
// (ApiFormat::ErrorBody).
using ApiError = http::HttpError;

// The api_code of a kInvalidArgument that is a conflict (409): a turn of the conversation runs.
inline constexpr char kConversationBusy[] = "conversation_busy";
// Status::api_code of kUnimplemented where not a field is at fault, but the server has no
// tokenizer.
inline constexpr char kNoTokenizer[] = "no_tokenizer";
// The same, of what a server without --state-path cannot do, now or later. Clients do not see it.
inline constexpr char kNoStore[] = "no_store";
// That of the one that ends the stream of an answer which was cancelled by its id.
inline constexpr char kAnswerCancelled[] = "answer_cancelled";

// Maps a failed status to what a client is told. A kNotFound whose field is "" or "model" is of a
// model. REQUIRES: !status.ok().
ApiError ToApiError(const Status& status);

// {"message", "type", "param", "code"}.
nlohmann::ordered_json ErrorObject(const ApiError& error);
// {"error": ErrorObject} as JSON text.
std::string ErrorJson(const ApiError& error);

// What a request's body may hold.
struct BodyLimits {
  base::JsonBounds json = {};
  int max_choices = 128;  // Prompts times `n`.
  // A field that is unknown is an error; else it is ignored, unless it resembles a known one.
  bool reject_unknown = false;
};

// A prompt in any of its forms.
using Prompt = decltype(Request::prompt);

// A prompt of texts and of token ids that follow each other, until the server has encoded the
// texts: ApiRequest::prompts[prompt] takes the ids. The first text gets what the vocabulary puts
// before texts if it is the first part.
using PromptPart = std::variant<std::string, std::vector<TokenId>>;
struct MixedPrompt {
  size_t prompt = 0;
  std::vector<PromptPart> parts;
};

// A bias of each token of a text: the server encodes that, and adds to the request's logit_bias.
struct TextBias {
  std::string text;
  float bias = 0.0F;
};

// What a gateway in front of this server says of a request; its API key must have the right to
// (ApiKey::gateway).
struct GatewayFields {
  std::string tenant;            // The sender at the gateway, instead of the key; "": the key.
  std::string cache_scope;       // The requests' scope; "": the tenant alone.
  std::optional<double> weight;  // The tenant's share; absent: the key's.
  // Each part of a stream names the tokens that it accounts for.
  bool ids = false;
};

// How long the answer is kept, and what it goes on from.
struct Keeping {
  std::optional<bool> store;    // As the body says it.
  bool stores_unasked = false;  // The dialect stores what does not say it.
  bool background = false;      // It is computed whether or not a client waits for it.
  std::string previous;      // The id of the stored response that the input goes on from; "": none.
  std::string conversation;  // The id of the conversation whose next turn it is; "": none.
};

// Where a stored answer is.
enum class AnswerState : uint8_t {
  kQueued,
  kInProgress,
  kCompleted,
  kIncomplete,  // A limit cut it.
  kFailed,
  kCancelled,
};
// "queued", "in_progress", "completed", "incomplete", "failed", "cancelled".
const char* AnswerStateName(AnswerState state);

// What a body asks of the backend: `n` choices for each of the prompts. Choice i of an answer
// belongs to prompt i / n.
struct ApiRequest {
  // Common to all choices: all but `prompt`, and `choice`, which is the first one's. `model` as
  // given; "" where absent. `resume_ids` is a gateway's.
  Request request;
  std::string other_model;  // What the model may be called instead; "": nothing else.
  // None: the body asks for no output, and Whole of no choices is its answer.
  std::vector<Prompt> prompts;
  int32_t n = 1;
  bool stream = false;
  // The answer shows the prompts: AnswerHead::prompt_texts is needed.
  bool shows_prompts = false;
  // With it: a prompt of ids that the backend cannot write as text is shown as "", and no error.
  bool hides_unknown_prompts = false;
  // The answer shows the seed, to clients that read it as an integer of 32 bits.
  bool shows_seed = false;
  // Texts to encode before the request is submitted.
  std::vector<MixedPrompt> mixed_prompts;
  std::vector<TextBias> text_biases;
  // The answer reports the tokens, also without log-probabilities.
  bool keeps_tokens = false;
  // The answer reports request.prompt_logprobs once for each prompt: the first choice alone is
  // asked for them.
  bool prompt_logprobs_once = false;
  // Of the body's texts other than prompts, what the answer repeats.
  size_t repeated_bytes = 0;
  // The class that the body asks for and the field that names it. The API key decides about it.
  std::optional<Priority> priority;
  const char* priority_field = "priority";
  std::optional<GatewayFields> gateway;  // The API key decides about it, too.
  // Names of fields that the dialect does not know, also where Parse fails. Client text.
  std::vector<std::string> ignored;
  // Of each embedding so many numbers are shown; 0: all. A model that has fewer is an error.
  int32_t dimensions = 0;
  Keeping keeping = {};

  size_t choices() const { return prompts.size() * static_cast<size_t>(n); }
};

// What the server knows of an answer before its first token.
struct AnswerHead {
  std::string id;                // No other answer has it. A dialect may put a prefix before it.
  int64_t created = 0;           // Unix seconds.
  std::string model;             // The served name.
  std::string fingerprint = {};  // OpenAI's system_fingerprint; "": none.
  Priority priority = Priority::kMedium;  // The class that serves the request.
  bool stored = false;                    // The answer is kept, and can be fetched by its id.
  // With ApiRequest::shows_prompts: the text of each prompt. Else empty.
  std::vector<std::string> prompt_texts = {};
};

// A part of what an answer says: a stretch of its thoughts or of its text, or one call of a tool.
struct SaidPart {
  enum class Kind : uint8_t { kThought, kText, kCall };
  Kind kind = Kind::kText;
  size_t bytes = 0;   // Of the thoughts or the text.
  size_t tokens = 0;  // Of ChoiceOutput::tokens, those that belong to it.
};

// The output of one choice, complete.
struct ChoiceOutput {
  std::string text;
  std::vector<OutputToken> tokens;  // With Request::logprobs, or ApiRequest::keeps_tokens.
  std::vector<OutputToken> prompt_tokens;
  Finish finish;
  std::string reasoning = {};
  std::vector<ToolCall> tool_calls = {};
  // The order in which it was said. Empty where that was not noted: first the thoughts, then the
  // text, then the calls, as models do.
  std::vector<SaidPart> parts = {};
  std::vector<float> embedding = {};  // With Request::embedding.
};
// The state that an answer with this output, which did not fail, has: one choice that was cut makes
// it incomplete.
AnswerState EndState(std::span<const ChoiceOutput> choices);
// Its parts in order: as noted, or else as models do. All tokens are the text's then.
std::vector<SaidPart> PartsOf(const ChoiceOutput& output);
// Adds a delta that follows, with its place in the order. Of one delta thoughts come before text,
// and text before calls. A token that says nothing belongs to what was said before it.
void AddTo(Delta delta, ChoiceOutput* output);

// One request and its answer in one dialect. The server calls Parse, then Start, then either Whole,
// or Begin, Delta and End for the choices in any order, and Done. Thread rule: one thread at a
// time; Parse and Whole may run on a helper thread, where they may take milliseconds per megabyte.
class ApiFormat {
 public:
  virtual ~ApiFormat() = default;

  // Reads a request body; what it does not have stays as request() has it. A failed status names
  // the field at fault: kInvalidArgument if it is malformed or unknown, or asks for more than
  // limits.max_choices; kUnimplemented if it is understood, not supported, and would change the
  // answer.
  virtual Status Parse(std::string_view body, const BodyLimits& limits) = 0;

  // The names of the fields that Parse uses, for documents.
  virtual std::vector<std::string> Fields() const { return {}; }

  // What the body asks for. Before Parse the server puts the model's defaults in; after it, it
  // completes the request (tenant, priority) and moves the prompts out.
  virtual ApiRequest* request() = 0;

  // Called once, before any part of the answer is written.
  virtual void Start(AnswerHead head) = 0;

  // The whole answer to a request that is not streamed, or that has no prompts; JSON.
  virtual std::string Whole(const std::vector<ChoiceOutput>& choices) const = 0;

  // The length of the prompt, once it is known: before Begin, of a stream that has one choice.
  virtual void OnAdmitted(int64_t /*prompt_tokens*/) {}

  // The following return the next bytes of a stream; "" sends nothing.

  virtual std::string_view stream_content_type() const {
    return "text/event-stream; charset=utf-8";
  }
  // What precedes all output.
  virtual std::string Begin() = 0;
  // New output of one choice.
  virtual std::string OnDelta(size_t choice, Delta delta) = 0;
  // The end of one choice. Called once for each.
  virtual std::string OnEnd(size_t choice, const Finish& finish) = 0;
  // The end of the stream with its terminator, after OnEnd for all choices.
  virtual std::string Done() = 0;
  // Replaces all that would follow, for a request that failed after the headers were sent.
  virtual std::string StreamError(const ApiError& error) const = 0;
  // Says nothing, and keeps proxies from closing a quiet stream.
  virtual std::string_view KeepAlive() const { return {}; }

  // What every id of an answer begins with, such as "resp_"; AnswerHead::id follows it.
  virtual std::string_view id_prefix() const = 0;
  // A stored answer that has no output: queued, in progress, failed or cancelled; JSON. `error`:
  // why it failed; else null. Of a dialect whose answers can be stored.
  virtual std::string Pending(AnswerState /*state*/, const ApiError* /*error*/) const { return ""; }

  // The body of a reply with error.http_status; JSON. Called without Parse.
  virtual std::string ErrorBody(const ApiError& error) const { return ErrorJson(error); }
};

// A dialect whose prompts and answers are lists of items, each a JSON object as text with an "id".
class ItemFormat : public ApiFormat {
 public:
  // Puts what came before, items of earlier inputs and answers, before the body's own input. Call
  // after Parse, and before the prompt is moved out.
  virtual Status Continue(const std::vector<std::string>& items) = 0;
  // The items of the body's own input, in order. Call after Start, of an answer that is stored or a
  // conversation's turn; of another they are not kept.
  virtual std::vector<std::string> InputItems() const = 0;
  // The items of an answer. Call after Start.
  virtual std::vector<std::string> OutputItems(const ChoiceOutput& output) const = 0;
  // Leaves out of the stream all events up to the one with this sequence number. Call before Begin.
  virtual void StartAfter(int64_t sequence_number) = 0;
};

// Makes the format of one request.
using ApiFormatMaker = std::unique_ptr<ApiFormat> (*)();

}  // namespace ropeway::api

#endif  // ROPEWAY_API_API_FORMAT_H_
