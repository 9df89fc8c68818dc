#include "gateway/answer_length.h"

#include <algorithm>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "base/chat_size.h"

namespace ropeway::gateway {
namespace {

constexpr uint64_t kCharactersPerToken = 4;
// Text with more characters a token is rare, except for a few tokens.
constexpr uint64_t kMostCharactersPerToken = 8;
constexpr uint64_t kSpareCharacters = 32;
// Tokens of an answer that have no text: its end, marks, what a stop string takes away.
constexpr uint64_t kSpareTokens = 64;
// Of a call: the marks and the names of fields around its own name and arguments.
constexpr uint64_t kBytesAroundCall = 64;
// Tokens of a prompt beyond one for each byte: the vocabulary's first one, and a few.
constexpr uint64_t kSparePromptTokens = 16;
// Tokens around each message of a chat.
constexpr uint64_t kMostTokensAroundMessage = 16;
// Tokens of the system prompt that a template or a server's configuration adds.
constexpr uint64_t kMostTemplateTokens = 4096;

int32_t Saturated(uint64_t count) {
  return static_cast<int32_t>(std::min<uint64_t>(count, std::numeric_limits<int32_t>::max()));
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

// No tokenizer has more tokens for a text than it has bytes.
int32_t MostPromptTokens(const Request& request) {
  uint64_t most = kSparePromptTokens;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    most += ids->size();
  } else if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    most += text->size();
  } else {
    const Chat& chat = std::get<Chat>(request.prompt);
    most += kMostTemplateTokens + base::OtherTextBytes(chat) +
            chat.tools.size() * kMostTokensAroundMessage;
    for (const ChatMessage& message : chat.messages) {
      most += (1 + message.tool_calls.size()) * kMostTokensAroundMessage + base::TextBytes(message);
    }
  }
  return Saturated(most);
}

// Cuts off what the `tokens` do not account for: all, where their bytes are not known. Calls go as
// a whole: how many tokens one has of what a delta says of it is never known.
void CutBehind(const std::vector<OutputToken>& tokens, Delta* delta) {
  size_t bytes = 0;
  for (const OutputToken& token : tokens) bytes += token.bytes.size();
  const auto cut = [&bytes](std::string* text) {
    size_t fits = std::min(bytes, text->size());
    while (fits > 0 && fits < text->size() && !BeginsCharacter((*text)[fits])) --fits;
    bytes -= fits;
    if (fits < text->size()) bytes = 0;
    text->resize(fits);
  };
  cut(&delta->reasoning);
  cut(&delta->text);
  delta->tool_calls.clear();
}

}  // namespace

uint64_t CountCharacters(std::string_view text) {
  return static_cast<uint64_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

uint64_t CountCharacters(const Delta& delta) {
  uint64_t characters = CountCharacters(delta.reasoning) + CountCharacters(delta.text);
  for (const ToolCallDelta& call : delta.tool_calls) {
    characters += CountCharacters(call.name) + CountCharacters(call.arguments);
  }
  return characters;
}

int32_t EstimatedTokens(uint64_t characters) {
  return Saturated((characters + kCharactersPerToken - 1) / kCharactersPerToken);
}

AnswerLength::AnswerLength(std::optional<int32_t> most)
    : most_(most ? std::optional<uint64_t>(std::max(*most, 0)) : std::nullopt) {}

bool AnswerLength::IsTooLong() const {
  if (!most_) return false;
  const uint64_t most = *most_;
  const auto characters_beyond = [&](uint64_t tokens) {
    return characters_ > kMostCharactersPerToken * tokens + kSpareCharacters;
  };
  // Behind tokens that were told, one piece is what was held back to the end.
  const uint64_t pieces = told_ + pieces_ - (told_ > 0 && pieces_ > 0 ? 1 : 0);
  if (pieces > most) return words_ > most || characters_beyond(most);
  const uint64_t far_too_many = 4 * most + kSpareTokens;
  return words_ > far_too_many && characters_beyond(far_too_many);
}

size_t AnswerLength::Fitting(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i])) ++characters_;
    const bool in_word = !IsSpace(text[i]);
    if (in_word && !in_word_) ++words_;
    in_word_ = in_word;
    if (IsTooLong()) {
      while (i > 0 && IsSpace(text[i - 1])) --i;  // They begin the word that is cut.
      return i;
    }
    ++bytes_;
  }
  return text.size();
}

bool AnswerLength::Fit(std::string* text) {
  const size_t fits = Fitting(*text);
  const bool all = fits == text->size();
  text->resize(fits);
  return all;
}

bool AnswerLength::FitCalls(std::vector<ToolCallDelta>* calls) {
  for (auto call = calls->begin(); call != calls->end(); ++call) {
    const bool begins = !call->name.empty();
    if (begins) bytes_ += kBytesAroundCall;
    // Half a name is none.
    const bool named = Fitting(call->name) == call->name.size();
    if (named && Fit(&call->arguments)) continue;
    const bool stays = named && (begins || !call->arguments.empty());
    calls->erase(stays ? call + 1 : call, calls->end());
    return false;
  }
  return true;
}

bool AnswerLength::Take(Delta* delta) {
  std::vector<OutputToken>& tokens = delta->tokens;
  if (tokens.empty() && !delta->says()) return true;
  bool all = true;
  if (most_ && tokens.size() > *most_ - told_) {
    all = false;
    tokens.resize(*most_ - told_);
    CutBehind(tokens, delta);
  }
  told_ += tokens.size();
  for (const OutputToken& token : tokens) has_ids_ = has_ids_ || token.id >= 0;
  if (tokens.empty() && delta->says()) {
    ++pieces_;
    untold_ = untold_ || !has_ids_;
  }
  if (!Fit(&delta->reasoning)) {
    all = false;
    delta->text.clear();
    delta->tool_calls.clear();
  }
  if (!Fit(&delta->text)) {
    all = false;
    delta->tool_calls.clear();
  }
  return FitCalls(&delta->tool_calls) && all;
}

int32_t AnswerLength::tokens() const {
  const bool told = told_ > 0 && !untold_;
  return std::min(told ? Saturated(told_) : EstimatedTokens(characters_), MostTokens());
}

int32_t AnswerLength::LeastTokens() const {
  return std::min(Saturated(std::max<uint64_t>(told_, characters_ > 0 ? 1 : 0)), MostTokens());
}

int32_t AnswerLength::MostTokens() const {
  const int32_t can_be = Saturated(told_ + bytes_ + kSpareTokens);
  return most_ ? std::min(can_be, Saturated(*most_)) : can_be;
}

Usage Believed(Usage usage, const Request& request, const AnswerLength& length, bool* changed) {
  const auto believe = [changed](int32_t* said, int32_t least, int32_t most) {
    if (*said == Usage::kUnknown) return;
    const int32_t believed = std::clamp(*said, least, std::max(least, most));
    *changed = *changed || believed != *said;
    *said = believed;
  };
  // A backend counts those that its answer goes on from, too.
  const int32_t before = Saturated(request.resume_ids.size());
  believe(&usage.prompt_tokens, 0, MostPromptTokens(request));
  believe(&usage.completion_tokens, length.LeastTokens(),
          Saturated(static_cast<uint64_t>(length.MostTokens()) + static_cast<uint64_t>(before)));
  believe(&usage.cached_tokens, 0,
          usage.prompt_tokens == Usage::kUnknown ? MostPromptTokens(request) : usage.prompt_tokens);
  believe(
      &usage.reasoning_tokens, 0,
      usage.completion_tokens == Usage::kUnknown ? length.MostTokens() : usage.completion_tokens);
  return usage;
}

}  // namespace ropeway::gateway
