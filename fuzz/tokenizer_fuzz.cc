// A text: encoded, whole and in pieces, and decoded with a small vocabulary of every kind and
// several families of split patterns, detokenized in pieces, and searched for a stop string.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "fuzz/fuzz_target.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_char_map.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::fuzz {
namespace {

using Ids = std::vector<TokenId>;

using Tokenizers = std::vector<std::unique_ptr<tokenizer::Tokenizer>>;

std::unique_ptr<tokenizer::Tokenizer> Make(tokenizer::Vocabulary vocabulary) {
  const std::string name = vocabulary.model + " " + vocabulary.pre;
  auto tokenizer = tokenizer::MakeTokenizer(std::move(vocabulary));
  Require(tokenizer.ok(), name);
  return *std::move(tokenizer);
}

// Those that keep all bytes.
const Tokenizers& ByteTokenizers() {
  static const auto all = [] {
    Tokenizers made;
    for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm", "gpt-4o", "tekken", "falcon",
                            "deepseek-llm", "deepseek-v3"}) {
      made.push_back(Make(tokenizer::MakeVocabulary(
          pre, {"h e", "l l", "he ll", "Ġ w", "a a", "aa aa", "Ċ Ċ", "1 2"},
          {"<|im_start|>", "<|im_end|>", "<|im"}, {"[user]", "Ã©"})));
    }
    return made;
  }();
  return all;
}

// Those that may change the text.
const Tokenizers& OtherTokenizers() {
  static const auto all = [] {
    Tokenizers made;
    const std::vector<std::string> pieces = {"▁",  "a",  "e",  "h",    "l", "é",  "he", "ll",
                                             "▁a", "aa", "▁▁", "hell", "o", "▁w", "a▁", "1"};
    for (const char* model : {"llama", "t5"}) {
      for (const bool bytes : {true, false}) {
        tokenizer::Vocabulary vocabulary = tokenizer::MakeSentencePieceVocabulary(
            model, pieces, bytes, {"<|im_start|>", "<|im"}, {"[user]"});
        vocabulary.space_prefix = tokenizer::SpacePrefix::kEach;
        vocabulary.remove_extra_spaces = bytes;
        vocabulary.char_map =
            tokenizer::WriteCharMap({{"\t", " "}, {"e\u0301", "é"}, {"\x01", ""}});
        vocabulary.strip_right = {static_cast<TokenId>(vocabulary.tokens.size() - 1)};
        vocabulary.strip_left = {static_cast<TokenId>(vocabulary.tokens.size() - 2)};
        made.push_back(Make(std::move(vocabulary)));
      }
    }
    made.push_back(Make(tokenizer::MakeWordPieceVocabulary({"▁a", "a", "▁he", "ll", "▁1", "▁!"})));
    tokenizer::Vocabulary composed = tokenizer::MakeVocabulary("gpt-2", {"a a", "Ã ©"});
    composed.form = tokenizer::TextForm::kNfc;
    made.push_back(Make(std::move(composed)));
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

// The ids are tokens, and the same however many pieces they are encoded in.
void CheckOther(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  const Ids whole = tokenizer.Encode(text, {});
  for (const TokenId id : whole) {
    Require(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
  }
  for (const TokenId id : tokenizer.Encode(text, {.add_special = false, .parse_special = false})) {
    const std::string_view bytes = tokenizer.Bytes(id, /*with_special=*/true);
    const bool unknown = bytes == "<unk>" || bytes == "[UNK]";
    Require(unknown || !tokenizer.IsSpecial(id), "a control token in ordinary text");
  }
  for (const size_t work : {size_t{1}, size_t{7}}) {
    const auto encoding = tokenizer.Begin(text, {}, whole.size());
    while (!encoding->Run(work)) {
    }
    Require(encoding->ids() == whole, "encoded in pieces the ids differ");
  }
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
  for (const auto& tokenizer : ropeway::fuzz::ByteTokenizers()) {
    ropeway::fuzz::CheckRoundTrip(*tokenizer, text);
    ropeway::fuzz::CheckPieces(*tokenizer, text);
  }
  for (const auto& tokenizer : ropeway::fuzz::OtherTokenizers()) {
    ropeway::fuzz::CheckOther(*tokenizer, text);
  }
  ropeway::fuzz::CheckDetokenizer(text);
  ropeway::fuzz::CheckStops(text);
  return 0;
}
