// POST /v1/completions: OpenAI's completions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/openai_format.h"

namespace ropeway::server {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's.

struct CompletionBody : OpenAiBody {
  std::optional<int32_t> best_of;
};

StatusOr<Prompt> ReadOnePrompt(const json& value, const std::string& field) {
  if (value.is_string()) return Prompt(value.get<std::string>());
  if (!value.is_array()) {
    return Mismatch(value, field, "a string, a list of token ids, or a list of either");
  }
  if (value.empty()) return InvalidArgument(fmt::format("'{}' is empty.", field), field);
  StatusOr<std::vector<TokenId>> ids = ReadTokenIds(value, field);
  if (!ids.ok()) return ids.status();
  return Prompt(*std::move(ids));
}

// A list of prompts holds prompts of one kind.
Status ReadPrompt(const json& value, const std::string& field, CompletionBody* body) {
  const bool several =
      value.is_array() && !value.empty() && (value.front().is_string() || value.front().is_array());
  if (several && value.size() > static_cast<size_t>(body->max_choices)) {
    return InvalidArgument(fmt::format("'{}' holds {} prompts; at most {} are allowed.", field,
                                       value.size(), body->max_choices),
                           field);
  }
  const size_t count = several ? value.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const json& prompt = several ? value[i] : value;
    if (several && prompt.type() != value.front().type()) {
      return Mismatch(prompt, field, "a list of prompts of one kind");
    }
    StatusOr<Prompt> read = ReadOnePrompt(prompt, field);
    if (!read.ok()) return read.status();
    body->prompts.push_back(*std::move(read));
  }
  return {};
}

Status ReadBestOf(const json& value, const std::string& field, CompletionBody* body) {
  return Store(ReadInt32(value, field, 1, body->max_choices), &body->best_of);
}

const FieldTable<CompletionBody>& CompletionFields() {
  static const FieldTable<CompletionBody> table =
      WithOpenAiFields<CompletionBody>({{"prompt", ReadPrompt},
                                        {"logprobs", IntField(0, kMaxLogprobs, &Request::logprobs)},
                                        {"best_of", ReadBestOf},
                                        {"echo", FieldOf(ReadBool, &CompletionBody::shows_prompts)},
                                        {"suffix", Reject},
                                        {"add_special_tokens", RejectUnlessTrue},
                                        {"prompt_embeds", Reject}});
  return table;
}

// Turns byte offsets in a text into offsets in characters, as OpenAI's `text_offset` counts.
// Offsets must not decrease.
class TextOffsets {
 public:
  void Append(std::string_view text) { text_ += text; }

  int64_t Characters(uint64_t byte_offset) {
    const size_t end = std::min<uint64_t>(byte_offset, text_.size());
    for (; at_ < end; ++at_) {
      const bool begins = (static_cast<uint8_t>(text_[at_]) & 0xC0) != 0x80;
      characters_ += begins ? 1 : 0;
    }
    // Text that is still held back (it may become a stop string) counts by its bytes.
    return characters_ + static_cast<int64_t>(byte_offset - std::min<uint64_t>(byte_offset, at_));
  }

 private:
  std::string text_;
  size_t at_ = 0;           // Bytes counted so far.
  int64_t characters_ = 0;  // Characters that begin before at_.
};

// Where the text of a prompt begins in the bytes of its tokens: after what the model's vocabulary
// puts before any text.
size_t PromptTextBegin(const std::vector<OutputToken>& prompt_tokens, std::string_view text) {
  std::string all;
  for (const OutputToken& token : prompt_tokens) all += token.bytes;
  return all.ends_with(text) ? all.size() - text.size() : 0;
}

// The lists of a completion's "logprobs".
class CompletionLogprobs {
 public:
  // The prompt's text and tokens, before any output.
  void AddPrompt(const std::string& text, const std::vector<OutputToken>& tokens) {
    offsets_.Append(text);
    const uint64_t begin = PromptTextBegin(tokens, text);
    for (const OutputToken& token : tokens) {
      Add(token, token.text_offset - std::min(begin, token.text_offset));
    }
    prompt_bytes_ = text.size();
  }

  void AddOutput(const std::string& text, const std::vector<OutputToken>& tokens) {
    offsets_.Append(text);
    for (const OutputToken& token : tokens) Add(token, prompt_bytes_ + token.text_offset);
  }

  // The lists of what was added since the last call.
  Json Take() { return std::exchange(lists_, Empty()); }

 private:
  static Json Empty() {
    return {{"text_offset", Json::array()},
            {"token_logprobs", Json::array()},
            {"tokens", Json::array()},
            {"top_logprobs", Json::array()}};
  }

  // A token's own log-probability is among its top ones, as at OpenAI; the first token of a prompt
  // has null for both.
  static Json Top(const OutputToken& token) {
    if (std::isnan(token.logprob)) return nullptr;
    Json top = Json::object();
    // Control tokens have no bytes and would share one key: the more probable one keeps it.
    for (size_t i = 0; i < TopCount(token); ++i) {
      top.emplace(TokenKey(token.top_bytes[i]), FiniteLogprob(token.top_logprobs[i].logprob));
    }
    top.emplace(TokenKey(token.bytes), FiniteLogprob(token.logprob));
    return top;
  }

  void Add(const OutputToken& token, uint64_t byte_offset) {
    const bool known = !std::isnan(token.logprob);
    lists_["text_offset"].push_back(offsets_.Characters(byte_offset));
    lists_["token_logprobs"].push_back(known ? Json(FiniteLogprob(token.logprob)) : Json(nullptr));
    lists_["tokens"].push_back(TokenKey(token.bytes));
    lists_["top_logprobs"].push_back(Top(token));
  }

  TextOffsets offsets_;
  size_t prompt_bytes_ = 0;
  Json lists_ = Empty();
};

class CompletionFormat final : public OpenAiFormat {
 public:
  CompletionFormat()
      : OpenAiFormat({.id_prefix = "cmpl-",
                      .object = "text_completion",
                      .chunk_object = "text_completion",
                      .no_output = "\"text\":\"\"",
                      .zero_tokens_need = "'echo' or 'prompt_logprobs'"},
                     &body_) {}

  void Start(AnswerHead head) override {
    OpenAiFormat::Start(std::move(head));
    choices_.resize(body_.stream ? body_.choices() : 0);
    for (Choice& choice : choices_) choice.echo_due = body_.shows_prompts && logprobs();
  }

  // The prompts' texts; with log-probabilities each comes when its tokens were computed.
  std::string Begin() override {
    std::string out;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (body_.shows_prompts && !choices_[i].echo_due && !EchoOf(i).empty()) {
        out += Chunk(i, TextMember(EchoOf(i)), "null");
      }
    }
    return out;
  }

  std::string OnDelta(size_t choice, Delta delta) override {
    Choice& state = choices_[choice];
    if (state.echo_due) {
      std::move(delta.prompt_tokens.begin(), delta.prompt_tokens.end(),
                std::back_inserter(state.prompt_tokens));
    }
    if (!HasEvent(choice, delta)) return "";
    if (!logprobs()) return Chunk(choice, TextMember(delta.text), "null", delta.tokens);
    const std::string echo = TakeEcho(choice);
    state.logprobs.AddOutput(delta.text, delta.tokens);
    return echo +
           Chunk(choice, TextMember(delta.text), DumpJson(state.logprobs.Take()), delta.tokens);
  }

  std::string OnEnd(size_t choice, const Finish& finish) override {
    return TakeEcho(choice) + OpenAiFormat::OnEnd(choice, finish);
  }

 private:
  struct Choice {
    CompletionLogprobs logprobs;
    bool echo_due = false;  // The echo with log-probabilities was not sent yet.
    std::vector<OutputToken> prompt_tokens;
  };

  Status ReadBody(const json& document) override {
    return ReadFields(document, CompletionFields(), &body_);
  }

  Status FinishBody() override {
    if (body_.prompts.empty()) return InvalidArgument("'prompt' is required.", "prompt");
    Request& request = body_.request;
    if (body_.best_of && *body_.best_of != body_.n) {
      return {StatusCode::kUnimplemented, "'best_of' must equal 'n'.", "best_of"};
    }
    if (!request.max_tokens) request.max_tokens = kDefaultMaxTokens;
    if (body_.shows_prompts && request.logprobs) {
      if (request.prompt_logprobs.value_or(*request.logprobs) != *request.logprobs) {
        return InvalidArgument(
            "With 'echo', 'logprobs' and 'prompt_logprobs' differ; give one of them.",
            "prompt_logprobs");
      }
      // The prompt's log-probabilities precede the completion's, as many of them.
      request.prompt_logprobs = request.logprobs;
    }
    return {};
  }

  Json ChoiceJson(size_t choice, const ChoiceOutput& output) const override {
    const std::string* echo = body_.shows_prompts ? &EchoOf(choice) : nullptr;
    Json object = {{"index", choice}};
    object["text"] = echo == nullptr ? output.text : *echo + output.text;
    object["logprobs"] = nullptr;
    if (logprobs()) {
      CompletionLogprobs lists;
      if (echo != nullptr) lists.AddPrompt(*echo, output.prompt_tokens);
      lists.AddOutput(output.text, output.tokens);
      object["logprobs"] = lists.Take();
    }
    if (body_.prompt_logprobs) object["prompt_logprobs"] = PromptLogprobs(output.prompt_tokens);
    return object;
  }

  const std::string& EchoOf(size_t choice) const {
    return head().prompt_texts[choice / static_cast<size_t>(body_.n)];
  }

  std::string TextMember(std::string_view text) const override {
    std::string member = "\"text\":";
    AppendJsonString(text, &member);
    return member;
  }

  // The echo with log-probabilities, where it is due.
  std::string TakeEcho(size_t choice) {
    Choice& state = choices_[choice];
    if (!std::exchange(state.echo_due, false)) return "";
    state.logprobs.AddPrompt(EchoOf(choice), std::exchange(state.prompt_tokens, {}));
    return Chunk(choice, TextMember(EchoOf(choice)), DumpJson(state.logprobs.Take()));
  }

  CompletionBody body_;
  std::vector<Choice> choices_;  // Of a stream.
};

}  // namespace

std::unique_ptr<ApiFormat> MakeOpenAiCompletions() { return std::make_unique<CompletionFormat>(); }

}  // namespace ropeway::server
