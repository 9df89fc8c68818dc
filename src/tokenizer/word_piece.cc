#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/bert_characters.h"
#include "tokenizer/characters.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

constexpr size_t kMostWordCharacters = 100;

// The blocks of ideographs, as `tokenizers` has them.
bool IsChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool IsDropped(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return c == 0xFFFD || BertKindOf(c) == CharacterKind::kControl;
}

bool IsWordOfItsOwn(char32_t c) {
  if (c < 0x80) {
    return (c > 0x20 && c < 0x30) || (c > 0x39 && c < 0x41) || (c > 0x5A && c < 0x61) ||
           (c > 0x7A && c < 0x7F);
  }
  return BertKindOf(c) == CharacterKind::kPunctuation;
}

class WordPiece final : public TextModel {
 public:
  WordPiece(const Vocabulary& vocabulary, const TokenTable* table)
      : unknown_(*vocabulary.unk),
        lowercase_(vocabulary.lowercase),
        strip_accents_(vocabulary.strip_accents) {
    for (TokenId id = 0; id < static_cast<TokenId>(table->size()); ++id) {
      const std::string_view text = table->Text(id);
      if (table->Type(id) != TokenType::kNormal || text.empty()) continue;
      const uint32_t node = trie_.Add(text);
      tokens_.resize(trie_.nodes(), -1);
      if (tokens_[node] < 0) tokens_[node] = id;
    }
  }

  std::unique_ptr<SegmentEncoder> NewEncoder() const override;
  // A word of any length may be unknown.
  bool Counts(uint8_t /*byte*/) const override { return false; }

  // The characters that `c` is normalized to.
  void AppendNormalized(char32_t c, std::u32string* to) const {
    std::u32string whole;
    if (strip_accents_) {
      AppendDecomposed(c, &whole);
    } else {
      whole.push_back(c);
    }
    for (const char32_t part : whole) {
      if (strip_accents_ && BertKindOf(part) == CharacterKind::kNonspacingMark) continue;
      if (lowercase_) {
        AppendLowercase(part, to);
      } else {
        to->push_back(part);
      }
    }
  }

  // Appends the ids of a word, which begins with "▁".
  void Divide(std::string_view word, std::vector<TokenId>* ids) const {
    const size_t before = ids->size();
    for (size_t at = 0; at < word.size();) {
      // The first token has the "▁" and more; another one has none.
      const size_t least = at == 0 ? kSpaceSymbol.size() + 1 : 1;
      uint32_t node = ByteTrie::kRoot;
      TokenId longest = -1;
      size_t longest_end = at;
      for (size_t end = at; end < word.size();) {
        node = trie_.Child(node, static_cast<uint8_t>(word[end]));
        if (node == ByteTrie::kNone) break;
        ++end;
        if (tokens_[node] < 0 || end - at < least) continue;
        longest = tokens_[node];
        longest_end = end;
      }
      if (longest < 0 || (at > 0 && word.substr(at).starts_with(kSpaceSymbol))) {
        ids->resize(before);
        ids->push_back(unknown_);
        return;
      }
      ids->push_back(longest);
      at = longest_end;
    }
  }

  TokenId unknown() const { return unknown_; }

 private:
  const TokenId unknown_;
  const bool lowercase_;
  const bool strip_accents_;
  ByteTrie trie_;
  std::vector<TokenId> tokens_;  // By the trie's node; -1: none.
};

class WordPieceEncoder final : public SegmentEncoder {
 public:
  explicit WordPieceEncoder(const WordPiece* model) : model_(*model) {}

  void Begin(std::string_view text, Before /*before*/) override {
    text_ = text;
    at_ = 0;
    StartWord();
  }

  bool Run(Work* work, std::vector<TokenId>* ids) override {
    while (at_ < text_.size()) {
      if (!work->left()) return false;
      const base::Utf8Step step = base::StepUtf8(text_, at_);
      at_ += step.length;
      work->Spend(1);
      // What is not UTF-8 is U+FFFD, which is dropped.
      if (step.kind == base::Utf8Kind::kValid) Take(step.code_point, work, ids);
    }
    EndWord(work, ids);
    return true;
  }

  size_t bytes() const override { return 0; }

 private:
  void Take(char32_t c, Work* work, std::vector<TokenId>* ids) {
    if (IsDropped(c)) return;
    if (IsWhiteSpace(c)) return EndWord(work, ids);
    const bool chinese = IsChinese(c);
    if (chinese) EndWord(work, ids);
    parts_.clear();
    model_.AppendNormalized(c, &parts_);
    for (const char32_t part : parts_) {
      const bool alone = IsWordOfItsOwn(part);
      if (alone) EndWord(work, ids);
      // A word that is too long is not kept.
      if (++characters_ <= kMostWordCharacters) base::AppendUtf8(part, word_);
      if (alone) EndWord(work, ids);
    }
    if (chinese) EndWord(work, ids);
  }

  void EndWord(Work* work, std::vector<TokenId>* ids) {
    if (characters_ == 0) return;
    if (characters_ > kMostWordCharacters) {
      ids->push_back(model_.unknown());
    } else {
      work->Spend(word_.size());
      model_.Divide(word_, ids);
    }
    StartWord();
  }

  void StartWord() {
    word_ = kSpaceSymbol;
    characters_ = 0;
  }

  const WordPiece& model_;
  std::string_view text_;
  size_t at_ = 0;
  std::string word_;       // "▁" and the word so far.
  size_t characters_ = 0;  // The number of characters in the word.
  std::u32string parts_;
};

std::unique_ptr<SegmentEncoder> WordPiece::NewEncoder() const {
  return std::make_unique<WordPieceEncoder>(this);
}

}  // namespace

StatusOr<std::unique_ptr<const TextModel>> MakeWordPiece(const Vocabulary& vocabulary,
                                                         const TokenTable* table) {
  if (!vocabulary.unk.has_value()) {
    return VocabularyError("tokenizer.ggml.unknown_token_id", "is missing");
  }
  return std::unique_ptr<const TextModel>(std::make_unique<WordPiece>(vocabulary, table));
}

}  // namespace ropeway::tokenizer
