// A text: encoded, whole and in pieces, and decoded with a small vocabulary and every kind of
// pre-tokenizer, detokenized in pieces, and searched for a stop string.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "fuzz/fuzz_target.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::fuzz {
namespace {

using Ids = std::vector<TokenId>;

std::unique_ptr<tokenizer::Tokenizer> Make(const char* pre) {
  tokenizer::Vocabulary vocabulary =
      tokenizer::MakeVocabulary(pre, {"h e", "l l", "he ll", "Ġ w", "a a", "aa aa", "Ċ Ċ", "1 2"},
                                {"<|im_start|>", "<|im_end|>", "<|im"}, {"[user]", "Ã©"});
  auto tokenizer = tokenizer::MakeTokenizer(std::move(vocabulary));
  Require(tokenizer.ok(), pre);
  return *std::move(tokenizer);
}

const std::vector<std::unique_ptr<tokenizer::Tokenizer>>& Tokenizers() {
  static const auto all = [] {
    std::vector<std::unique_ptr<tokenizer::Tokenizer>> made;
    for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm"}) made.push_back(Make(pre));
    return made;
  }();
  return all;
}

// The vocabulary has all bytes, so decoding must return the encoded bytes.
void CheckRoundTrip(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {false, true}) {
    const Ids ids = tokenizer.Encode(text, {.add_special = false, .parse_special = parse_special});
    std::string decoded;
    for (const TokenId id : ids) {
      Require(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
      Require(parse_special || !tokenizer.IsSpecial(id), "a control token in ordinary text");
      decoded += tokenizer.Bytes(id, /*with_special=*/true);
    }
    Require(decoded == text, "the decoded text differs");
    Require(ids.size() <= text.size(), "more tokens than bytes");
  }
}

// Encoded in pieces the ids are the same, and a quotation in the middle has no control token.
void CheckPieces(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  tokenizer::Spans quoted;
  tokenizer::AddSpan(text.size() / 3, text.size() - text.size() / 3, &quoted);
  const tokenizer::EncodeOptions options = {.add_special = false, .quoted = quoted};
  const Ids whole = tokenizer.Encode(text, options);
  size_t at = 0;
  for (const TokenId id : whole) {
    const size_t end = at + tokenizer.Bytes(id, /*with_special=*/true).size();
    Require(!tokenizer.IsSpecial(id) || SpansWithin(quoted, at, end).empty(),
            "a control token in a quotation");
    at = end;
  }
  for (const size_t work : {size_t{1}, size_t{7}}) {
    const auto encoding = tokenizer.Begin(text, options);
    while (!encoding->Run(work)) {
    }
    Require(encoding->ids() == whole, "encoded in pieces the ids differ");
  }
  const auto bounded = tokenizer.Begin(text, options, whole.size());
  while (!bounded->Run(7)) {
  }
  Require(bounded->ids() == whole, "the ids are more than they are known to be at least");
}

// However the bytes are split, the pieces are whole characters and make the same text.
void CheckDetokenizer(std::string_view text) {
  const std::string whole = base::ReplaceInvalidUtf8(text);
  for (const size_t step : {size_t{1}, size_t{3}, size_t{7}}) {
    tokenizer::Detokenizer detokenizer;
    std::string joined;
    for (size_t at = 0; at < text.size(); at += step) {
      const std::string piece = detokenizer.Append(text.substr(at, step));
      Require(base::IsValidUtf8(piece), "a part of a character was emitted");
      joined += piece;
    }
    joined += detokenizer.Finish();
    Require(joined == whole, "detokenized in pieces the text differs");
  }
}

// The matcher, fed byte after byte, stops where a plain search finds the stop string.
void CheckStops(std::string_view text) {
  if (text.empty()) return;
  const std::string stop(text.substr(text.size() / 2, 3));
  tokenizer::StopMatcher matcher({stop});
  std::string emitted;
  bool stopped = false;
  for (size_t at = 0; at < text.size() && !stopped; ++at) {
    const tokenizer::StopMatcher::Step step = matcher.Append(text.substr(at, 1));
    emitted += step.text;
    stopped = step.stop.has_value();
  }
  Require(stopped, "a stop string in the text was missed");
  Require(emitted == text.substr(0, text.find(stop)), "the text before the stop string differs");
}

}  // namespace
}  // namespace ropeway::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : ropeway::fuzz::Tokenizers()) {
    ropeway::fuzz::CheckRoundTrip(*tokenizer, text);
    ropeway::fuzz::CheckPieces(*tokenizer, text);
  }
  ropeway::fuzz::CheckDetokenizer(text);
  ropeway::fuzz::CheckStops(text);
  return 0;
}
