// POST /v1/completions: OpenAI's completions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/dialects.h"
#include "api/openai_format.h"
#include "base/utf8.h"

namespace ropeway::api {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;

constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's.

Status ReadPrompt(const json& value, const std::string& field, OpenAiBody* body) {
  return ReadPrompts(value, field, body->max_choices, "prompts", &body->prompts);
}

Status ReadBestOf(const json& value, const std::string& field, OpenAiBody* body) {
  return Store(ReadInt32(value, field, 1, body->max_choices), &body->best_of);
}

// The `text_offset` of one token after another, whole or streamed: the number of characters that
// begin in the bytes of the tokens before it. Bytes that are no UTF-8 are as many characters as the
// text shows U+FFFD for them. That a character began is known from its first byte, so no token has
// to wait for those that complete its text.
class TextOffsets {
 public:
  int64_t Next(const OutputToken& token) {
    const uint64_t gone = token.text_offset - std::min(token.text_offset, begin_);
    const auto shown = static_cast<size_t>(std::min<uint64_t>(gone, last_.size()));
    Count(std::string_view(last_).substr(0, shown));    // Nothing, if the text hides the token.
    characters_ += static_cast<int64_t>(gone - shown);  // Another engine reported them.
    begin_ = token.text_offset;
    last_ = token.bytes;
    return characters_;
  }

 private:
  void Count(std::string_view bytes) {
    const bool has_begun = !pending_.empty();
    const std::string input = std::exchange(pending_, {}).append(bytes);
    for (size_t at = 0; at < input.size();) {
      const base::Utf8Step step = base::StepUtf8(input, at);
      if (at > 0 || !has_begun) ++characters_;
      if (step.kind == base::Utf8Kind::kTruncated) pending_ = input.substr(at);
      at += step.length;
    }
  }

  uint64_t begin_ = 0;      // Where the last token began, in bytes.
  std::string last_;        // The last token's bytes.
  std::string pending_;     // The beginning of a character that was counted already.
  int64_t characters_ = 0;  // That begin before the last token.
};

// REQUIRES: `text` is valid UTF-8.
int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80U; });
}

// The characters of a prompt's tokens before its text: what the model's vocabulary puts before any
// text.
int64_t CharactersBeforeText(const std::vector<OutputToken>& prompt_tokens, std::string_view text) {
  std::string all;
  for (const OutputToken& token : prompt_tokens) all += token.bytes;
  all = base::ReplaceInvalidUtf8(all);
  return all.ends_with(text) ? CountCharacters(all) - CountCharacters(text) : 0;
}

// The lists of a completion's "logprobs".
class CompletionLogprobs {
 public:
  // The prompt's text and tokens, before any output. No offset is beyond the text, which a
  // vocabulary may have normalized to something longer.
  void AddPrompt(const std::string& echo, const std::vector<OutputToken>& tokens) {
    TextOffsets offsets;
    const std::string text = base::ReplaceInvalidUtf8(echo);  // As the answer shows it.
    prompt_characters_ = CountCharacters(text);
    const int64_t before = CharactersBeforeText(tokens, text);
    for (const OutputToken& token : tokens) {
      Add(token, std::clamp<int64_t>(offsets.Next(token) - before, 0, prompt_characters_));
    }
  }

  void AddOutput(const std::vector<OutputToken>& tokens) {
    for (const OutputToken& token : tokens) Add(token, prompt_characters_ + output_.Next(token));
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

  void Add(const OutputToken& token, int64_t offset) {
    const bool known = !std::isnan(token.logprob);
    lists_["text_offset"].push_back(offset);
    lists_["token_logprobs"].push_back(known ? Json(FiniteLogprob(token.logprob)) : Json(nullptr));
    lists_["tokens"].push_back(TokenKey(token.bytes));
    lists_["top_logprobs"].push_back(Top(token));
  }

  TextOffsets output_;
  int64_t prompt_characters_ = 0;  // The echo's.
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
                     CompletionFields(), &body_) {}

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
    if (!HasEvent(choice, &delta)) return "";
    if (!logprobs()) return Chunk(choice, TextMember(delta.text), "null", delta.tokens);
    const std::string echo = TakeEcho(choice);
    state.logprobs.AddOutput(delta.tokens);
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

  void FinishBody(FieldReport* report) override {
    if (body_.prompts.empty()) {
      report->AddTogether(InvalidArgument("'prompt' is required.", "prompt"));
    }
    Request& request = body_.request;
    if (body_.best_of && *body_.best_of != body_.n) {
      report->AddTogether({StatusCode::kUnimplemented, "'best_of' must equal 'n'.", "best_of"},
                          {"n"});
    }
    if (!request.max_tokens && !body_.to_context_end) request.max_tokens = kDefaultMaxTokens;
    if (body_.shows_prompts && request.logprobs) {
      if (request.prompt_logprobs.value_or(*request.logprobs) != *request.logprobs) {
        report->AddTogether(
            InvalidArgument(
                "'logprobs' and 'prompt_logprobs' differ; with 'echo', give one of them.",
                "prompt_logprobs"),
            {"echo", "logprobs"});
      }
      // The prompt's log-probabilities precede the completion's, as many of them.
      request.prompt_logprobs = request.logprobs;
    }
  }

  Json ChoiceJson(size_t choice, const ChoiceOutput& output) const override {
    const std::string* echo = body_.shows_prompts ? &EchoOf(choice) : nullptr;
    Json object = {{"index", choice}};
    object["text"] = echo == nullptr ? output.text : *echo + output.text;
    object["logprobs"] = nullptr;
    if (logprobs()) {
      CompletionLogprobs lists;
      if (echo != nullptr) lists.AddPrompt(*echo, output.prompt_tokens);
      lists.AddOutput(output.tokens);
      object["logprobs"] = lists.Take();
    }
    if (body_.prompt_logprobs) object["prompt_logprobs"] = PromptLogprobs(output.prompt_tokens);
    return object;
  }

  const std::string& EchoOf(size_t choice) const {
    return head().prompt_texts[choice / static_cast<size_t>(body_.n)];
  }

  std::string OutputMember(const Delta& delta) const override { return TextMember(delta.text); }

  static std::string TextMember(std::string_view text) {
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

  OpenAiBody body_;
  std::vector<Choice> choices_;  // For streams.
};

}  // namespace

const FieldTable<OpenAiBody>& CompletionFields() {
  static const FieldTable<OpenAiBody> table =
      WithOpenAiFields(kCompletions, {{"prompt", ReadPrompt},
                                      {"logprobs", IntField(0, kMaxLogprobs, &Request::logprobs)},
                                      {"best_of", ReadBestOf},
                                      {"echo", FieldOf(ReadBool, &OpenAiBody::shows_prompts)}});
  return table;
}

std::unique_ptr<ApiFormat> MakeOpenAiCompletions() { return std::make_unique<CompletionFormat>(); }

}  // namespace ropeway::api
