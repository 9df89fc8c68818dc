// Requests and their results (Request, Delta, Result): plain values of the public API.
#ifndef ROPEWAY_REQUEST_H_
#define ROPEWAY_REQUEST_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ropeway/status.h"

namespace ropeway {

// Names one accepted request within one engine's life; never reused, never 0.
using RequestId = uint64_t;

// A token's number in the model's vocabulary.
using TokenId = int32_t;

// A value that is added to one token's logit.
struct LogitBias {
  TokenId id = 0;
  float bias = 0.0F;  // [-100, 100]; -100 forbids the token in practice.
};

// How the next token is drawn. A pure function of (logits, these parameters, the sequence's ids and
// prompt length, seed, choice index, position): see docs/numerics.md. Reported log-probs are of the
// raw distribution, before any of this.
struct SamplingParams {
  float temperature = 1.0F;  // [0, 2]. 0 is greedy: the highest logit, ties to the lowest id.
  int32_t top_k = 0;         // Keep the k most probable tokens; 0 or -1: all.
  float top_p = 1.0F;        // (0, 1]. Keep the smallest set whose probabilities reach top_p.
  float min_p = 0.0F;        // [0, 1]. Drop tokens below min_p times the most probable one.
  // (0, 1]. Locally typical sampling (Meister et al. 2023, section 3): keep the tokens whose
  // surprisal is nearest to the entropy, until their probabilities reach typical_p.
  float typical_p = 1.0F;
  float presence_penalty = 0.0F;   // [-2, 2]. Off the logit of each token generated so far.
  float frequency_penalty = 0.0F;  // [-2, 2]. The same, once for each time it was generated.
  // (0, 10]. Logits of tokens in the prompt or generated so far are divided by it where positive,
  // multiplied where negative (Keskar et al. 2019, section 4.1).
  float repetition_penalty = 1.0F;
  std::vector<LogitBias> logit_bias;  // At most 1024, of distinct tokens of the vocabulary.
  // No end token, stop token or stop string ends the output before so many tokens: at least 0, at
  // most max_tokens.
  int32_t min_tokens = 0;
  std::optional<uint64_t> seed;  // Absent: drawn at admission, and stored with the request.

  // Bits of `given`.
  enum Given : uint32_t {
    kNoneGiven = 0,
    kTemperature = 1U << 0U,
    kTopK = 1U << 1U,
    kTopP = 1U << 2U,
    kMinP = 1U << 3U,
    kTypicalP = 1U << 4U,
    kPresencePenalty = 1U << 5U,
    kFrequencyPenalty = 1U << 6U,
    kRepetitionPenalty = 1U << 7U,
    kSeed = 1U << 8U,
    kAllGiven = ~0U,
  };
  // Which parameters the request's sender gave; the others hold defaults. A gateway passes on only
  // what was given, so that the defaults of the engine behind it hold; an engine does not look.
  // The parameters without a bit count as given where they are not at their defaults.
  uint32_t given = kAllGiven;
};

// A call of a tool, in a message of the assistant.
struct ToolCall {
  std::string id;         // By which a tool's message answers it; "": none.
  std::string name;       // Of the tool.
  std::string arguments;  // A JSON object, as text.
};

// One chat message, before the chat template.
struct ChatMessage {
  std::string role;  // Any name that the template knows.
  std::string content;
  std::string name = {};                  // Of the speaker, or of the tool; "": none.
  std::string tool_call_id = {};          // Of a tool's message; "": none.
  std::string reasoning_content = {};     // What the assistant thought before it answered.
  std::vector<ToolCall> tool_calls = {};  // Of the assistant.
  // Where `content` is text parts joined by newlines: the bytes of each. Templates that treat parts
  // apart get them so. Empty: it is one text.
  std::vector<size_t> part_sizes = {};
};

// A function that the model may ask its caller to call.
struct Tool {
  std::string name;  // 1 to 64 letters, digits, "_" and "-"; no two of a chat have the same.
  std::string description = {};
  std::string parameters = {};  // The JSON Schema of an object, as text; "": it has none.
  // The arguments of its calls are valid by `parameters`, also where the model decides whether to
  // call.
  bool strict = false;

  bool operator==(const Tool&) const = default;
};

// Whether the model calls tools.
enum class ToolChoice : uint8_t {
  kAuto,      // As it decides.
  kNone,      // What it says is text.
  kRequired,  // It calls at least one, with arguments that are valid by its `parameters`.
};

// A chat, and what else the chat template is given.
struct Chat {
  std::vector<ChatMessage> messages;
  std::vector<Tool> tools = {};  // At most 128. The template shows them to the model.
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name = {};  // With kRequired: the tool that is called; "": any of them.
  // Whether one answer may have several calls. Where nothing holds calls to a form (kAuto without a
  // strict tool, and no form of the answer), false is not enforced.
  bool parallel_tool_calls = true;
  // A JSON object, as text, of further variables of the template, such as
  // {"enable_thinking": false}; "": none. It may not set the template's own: messages, tools,
  // documents, bos_token, eos_token, add_generation_prompt, continue_final_message.
  std::string template_arguments = {};
  // Whether the text ends where the assistant's answer begins.
  bool add_generation_prompt = true;
  // The text ends with the last message's, whose author goes on with it. Not with
  // add_generation_prompt.
  bool continue_final_message = false;
};

// The form that the generated text must have: at each token only those can be sampled that keep to
// it. The text is whole where the output ends with kStop and no stop string or stop token ended it;
// with kLength it is the beginning of one. docs/structured_output.md has the supported schemas.
struct OutputFormat {
  enum class Kind : uint8_t {
    kText,        // Any text.
    kJsonObject,  // A JSON object.
    kJsonSchema,  // A JSON value that is valid by `schema`.
    kChoice,      // One of `choices`.
    kRegex,       // A text that `regex` matches from its beginning to its end.
  };
  Kind kind = Kind::kText;
  std::string schema;                // A JSON Schema, as JSON text.
  std::vector<std::string> choices;  // Texts as they are.
  std::string regex;
  std::string field;  // The field of the sender's body that asked for it, for errors; "": format.

  bool operator==(const OutputFormat&) const = default;
};

// Which of the model's last hidden states, one for each token of the prompt, make its embedding.
enum class Pooling : uint8_t {
  kModel,  // What the model was made for; a model that does not say it: kLast.
  kMean,   // The mean of all.
  kLast,   // The last token's.
  kFirst,  // The first token's, for models that read prompts in both directions (BERT's [CLS]).
};

// How the embedding of a prompt is made: docs/numerics.md has the order of sums.
struct EmbeddingParams {
  Pooling pooling = Pooling::kModel;
  bool normalize = true;  // Its length is 1, unless it is all zeros.
  // A longer prompt is cut to the first max_model_len tokens; else it is an error.
  bool truncate = false;

  bool operator==(const EmbeddingParams&) const = default;
};

// How long a request's KV blocks stay cached after its end, compared to those of others. A hint,
// not a time: blocks of requests with kLong are evicted later, but they are evicted if others are
// used more.
enum class CacheRetention : uint8_t { kNormal, kLong };
inline constexpr int kNumCacheRetentions = 2;

// Which requests go first while there is too much to do: docs/scheduling.md.
enum class Priority : uint8_t { kHigh, kMedium, kLow };
inline constexpr int kNumPriorities = 3;

// "high", "medium", "low".
inline const char* PriorityName(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return "high";
    case Priority::kMedium:
      return "medium";
    case Priority::kLow:
      return "low";
  }
  return "unknown";
}

// The class of this name, or nothing.
inline std::optional<Priority> PriorityOf(std::string_view name) {
  for (const Priority priority : {Priority::kHigh, Priority::kMedium, Priority::kLow}) {
    if (name == PriorityName(priority)) return priority;
  }
  return std::nullopt;
}

// One request for generation.
struct Request {
  // The prompt: text (encoded with special tokens recognised), token ids (used as they are), or a
  // chat (rendered by the model's chat template; special tokens that its messages and tools hold
  // are ordinary text, see ModelOptions::parse_special).
  std::variant<std::string, std::vector<TokenId>, Chat> prompt;

  std::string model;  // The served name; "" or "default" for the default model.

  // At most this many tokens are generated, and at most what the prompt leaves of max_model_len. 0:
  // none, which is for prompt_logprobs; the prompt may then be as long as max_model_len. Absent:
  // what max_model_len leaves.
  std::optional<int32_t> max_tokens;
  SamplingParams sampling;
  // Which of several answers to the same request and seed (OpenAI's n): choice 0 is the one that a
  // request without a choice gets.
  uint32_t choice = 0;
  // What another engine, which was lost, had generated of this very request; empty: nothing. The
  // output goes on behind it: text, log-probs, usage, stop strings and finish reason are as in the
  // uninterrupted run. What was generated before is not reported again. Both engines must have
  // the same model, numerics and limits, and `sampling.seed` must be set. The last of the ids is
  // generated again, and the request fails (kInternal) if it comes out as another one. At most
  // max_tokens ids; not with prompt_logprobs, nor in a session.
  std::vector<TokenId> resume_ids;
  std::vector<std::string> stop;  // At most 16, of 1 to 1024 bytes. Excluded from the text.
  // Tokens that end the output, as the model's end tokens do; at most 128. Counted and reported,
  // but their text is not shown.
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;  // Do not end at the model's end tokens.
  // kInvalidArgument says what of it is not supported. A whole text ends the output, whatever
  // ignore_eos and min_tokens say.
  OutputFormat format;

  // Log-probabilities of the raw model distribution: absent: none; k: that of each generated token
  // and the k most probable ones (0 <= k <= 20).
  std::optional<int32_t> logprobs;

  // As logprobs, for the tokens of the prompt, each given those before it (teacher-forced).
  std::optional<int32_t> prompt_logprobs;

  // The prompt's embedding is asked for, and nothing is generated: max_tokens must be absent or 0.
  // The prompt may be as long as max_model_len. Not with log-probs, a format, resume_ids, nor in a
  // session.
  std::optional<EmbeddingParams> embedding;

  // From Submit on; a request that has not ended by then fails with kDeadlineExceeded. Above 0.
  // Absent: EngineOptions::request_timeout.
  std::optional<std::chrono::milliseconds> timeout;

  std::string tenant;  // The tenant of this request; "" if there is only one.
  Priority priority = Priority::kMedium;
  // The tenant's share under the policy "fair", against those of others: [0.01, 100].
  double tenant_weight = 1.0;

  // Requests share KV blocks if and only if their (cache_scope, cache_salt) are equal.
  std::string cache_scope;  // "": the tenant alone.
  std::string
      cache_salt;  // Divides a scope; "": all requests of the scope share. At most 256 bytes.
  CacheRetention cache_retention = CacheRetention::kNormal;

  // Names a conversation that the engine keeps: this request's prompt is its next turn, and goes on
  // from the session's stored token ids (see Engine::Submit). At most 256 printable ASCII
  // characters. "": none.
  std::string session_id;
};

// A token and the logarithm of its probability.
struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0F;
};

// One generated token as the output reports it.
struct OutputToken {
  TokenId id = 0;
  // The token's own bytes (may be a part of a UTF-8 character).
  std::string bytes;
  // Valid where Request.logprobs was set, or prompt_logprobs for the prompt's tokens. NaN for the
  // prompt's first token, which nothing comes before.
  float logprob = 0.0F;
  std::vector<TokenLogprob> top_logprobs;  // Most probable first; ties to the lowest id.
  std::vector<std::string> top_bytes;      // The bytes of each of top_logprobs.
  // Where this token's text begins: bytes of generated text before it, or of the prompt's tokens
  // before it.
  uint64_t text_offset = 0;
};

// More of a call of a tool.
struct ToolCallDelta {
  int32_t index = 0;  // Which of the answer's calls, counted from 0.
  std::string id;     // With the call's first delta, as is the name; then "".
  std::string name;
  std::string arguments;  // The next piece of the arguments' JSON text.
};

// The new output of one request since its last delta.
struct Delta {
  // Valid UTF-8; may be empty (a character or a possible stop string is pending).
  std::string text;
  std::vector<OutputToken> tokens;  // The tokens accepted since the last delta.
  // With Request.prompt_logprobs: the prompt's tokens, in order, over one or more deltas that come
  // before all generated ones.
  std::vector<OutputToken> prompt_tokens = {};
  uint64_t batch_num = 0;  // As Finish::batch_num.
  // Of chats' answers: what the model thinks before it answers, and the calls of tools that it asks
  // for. They are not in `text`.
  std::string reasoning = {};
  std::vector<ToolCallDelta> tool_calls = {};

  // With Request.embedding, once: hidden_size numbers of the model.
  std::vector<float> embedding = {};

  // Whether it has something that the model said.
  bool says() const { return !text.empty() || !reasoning.empty() || !tool_calls.empty(); }
};

enum class FinishReason {
  kStop,    // An end token or a stop string.
  kLength,  // max_tokens or max_model_len was reached.
  kCancelled,
  kFailed,
};

// "stop", "length", "cancelled", "failed".
inline const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
  }
  return "failed";
}

struct Usage {
  static constexpr int32_t kUnknown = -1;  // See Outcome.
  static Usage Unknown() { return {kUnknown, kUnknown, kUnknown, 0}; }

  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_tokens = 0;     // Prompt tokens taken from the prefix cache.
  int32_t reasoning_tokens = 0;  // Of completion_tokens: those of thoughts.
  // Some of these are estimated: a gateway's backend did not say them.
  bool estimated = false;
};

// A request's time by phase. A phase that it did not reach is zero.
struct PhaseTimes {
  std::chrono::nanoseconds queue{};  // From Submit to its first step.
  // The part of `queue` in which a slot was free and a static or dynamic batch waited for others.
  std::chrono::nanoseconds formation{};
  // From its first step to its first token; if it wants none, to the end of its prompt, from which
  // `output` counts then.
  std::chrono::nanoseconds prefill{};
  std::chrono::nanoseconds decode{};  // From its first token to its last.
  std::chrono::nanoseconds output{};  // From its last token to the report of its end.
};

// A limit of API keys, as answers name it.
inline constexpr char kTokensPerMinute[] = "tokens_per_minute";

// How a request ended, once per accepted request.
struct Finish {
  FinishReason reason = FinishReason::kStop;
  Usage usage;
  uint64_t seed = 0;              // The seed that was used.
  int32_t preemptions = 0;        // How often it was preempted.
  uint64_t first_token_step = 0;  // The engine step that produced its first token.
  int32_t session_tokens = 0;     // Of the session before this turn; 0: the turn began it, or none.
  // The number of the batch in which it started, counted from 1 (with "continuous", of the step's
  // starts; see EngineStats::total_batches). 0: it never started.
  uint64_t batch_num = 0;
  int32_t batch_size = 0;  // Requests that ran when that batch began.
  PhaseTimes times;
  // What the prompt left of max_model_len, where Request::max_tokens was more; 0: it was not.
  int32_t max_tokens = 0;
  const char* cut_by = "";  // With kLength, the server's limit that ended it: kTokensPerMinute.
  int32_t stop = -1;  // With kStop, which of Request::stop ended it; -1: none, or it is not known.
};

// A finished request, collected: what Wait and Poll return.
struct Result {
  RequestId id = 0;
  Status status;                           // OK for kStop and kLength; else why it ended.
  std::vector<OutputToken> prompt_tokens;  // With Request.prompt_logprobs.
  std::string text;
  std::vector<OutputToken> tokens;
  Finish finish;
  // Of a chat's answer; see Delta.
  std::string reasoning = {};
  std::vector<ToolCall> tool_calls = {};
  std::vector<float> embedding = {};  // With Request.embedding.
};

}  // namespace ropeway

#endif  // ROPEWAY_REQUEST_H_
