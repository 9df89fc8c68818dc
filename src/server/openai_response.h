// The output of a request as OpenAI's JSON. No threads, no I/O: one object per answer, used by one
// thread at a time.
#ifndef ROPEWAY_SERVER_OPENAI_RESPONSE_H_
#define ROPEWAY_SERVER_OPENAI_RESPONSE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/backend.h"
#include "ropeway/request.h"

namespace ropeway {

// What every part of one answer repeats.
struct AnswerHead {
  std::string id;       // "cmpl-..." or "chatcmpl-...".
  int64_t created = 0;  // Unix seconds.
  std::string model;    // The served name.
  bool chat = false;
  bool include_usage = false;
  bool logprobs = false;
  bool prompt_logprobs = false;  // vLLM's field.
  int32_t n = 1;                 // Choices of each prompt.
  std::string service_tier;      // "": not shown.
  // With echo: the texts of the prompts, shown before the completions'. Else empty.
  std::vector<std::string> echo;
};

// What became of one choice. Choice i of an answer belongs to prompt i / head.n.
struct ChoiceOutput {
  std::string text;
  std::vector<OutputToken> tokens;
  std::vector<OutputToken> prompt_tokens;
  Finish finish;
};

// Turns byte offsets in a text into offsets in characters, as OpenAI's `text_offset` counts.
// Offsets must not decrease.
class TextOffsets {
 public:
  void Append(std::string_view text) { text_ += text; }
  int64_t Characters(uint64_t byte_offset);

 private:
  std::string text_;
  size_t at_ = 0;           // Bytes counted so far.
  int64_t characters_ = 0;  // Characters that begin before at_.
};

// Where the text of a prompt begins in the bytes of its tokens: after what the model's vocabulary
// puts before any text.
size_t PromptTextBegin(const std::vector<OutputToken>& prompt_tokens, std::string_view text);

// Of all choices together. A prompt's tokens count once, however many choices it has.
Usage SumUsage(const std::vector<Finish>& finishes, int32_t n);

// The whole answer to a request that is not streamed.
std::string AnswerJson(const AnswerHead& head, const std::vector<ChoiceOutput>& choices);

// "usage" and "ropeway" as JSON texts: {"batch_num": the engine step of the first token, or null
// where there is none, "seed": what the tokens were drawn with, "batch" and "batch_size": see
// Finish, or null where it never started}.
std::string UsageJson(const Usage& usage);
std::string RopewayJson(const Finish& finish);
// OpenAI's name of the class: "priority", "default" or "flex".
const char* ServiceTierName(Priority priority);
// "length" or "stop".
const char* FinishReasonText(FinishReason reason);

// The list of GET /v1/models, and one entry of it.
std::string ModelsJson(const std::vector<ModelInfo>& models);
std::string ModelJson(const ModelInfo& model);

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_OPENAI_RESPONSE_H_
