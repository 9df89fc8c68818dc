#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/piece_merger.h"
#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

// The letters are symbols and characters; a space is "▁".
class CharacterLetters {
 public:
  // `unknown`: the unknown token, or -1.
  CharacterLetters(const TokenTable& table, TokenId unknown) : table_(table), unknown_(unknown) {
    for (size_t byte = 0; byte < ascii_.size(); ++byte) {
      const auto letter = static_cast<char>(byte);
      const std::string_view text = letter == ' ' ? kSpaceSymbol : std::string_view(&letter, 1);
      ascii_[byte] = table.FindNormal(text).value_or(-1);
    }
  }

  TokenId space() const { return ascii_[' ']; }
  TokenId unknown() const { return unknown_; }
  // Whether each character has tokens, so that none stands for several unknown ones.
  bool all_bytes() const {
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (table_.ByteToken(static_cast<uint8_t>(byte)) < 0) return false;
    }
    return true;
  }

  template <typename Add>
  size_t Next(std::string_view piece, size_t at, Add add) const {
    if (const auto symbol = table_.symbols().FindFirst(piece, at, at + 1)) {
      add(symbol->id);
      return at + symbol->length;
    }
    const base::Utf8Step step = base::StepUtf8(piece, at);
    const bool valid = step.kind == base::Utf8Kind::kValid;
    const std::string_view letter = piece.substr(at, valid ? step.length : 1);
    const size_t next = at + letter.size();
    const TokenId id = valid ? IdOf(step.code_point, letter) : -1;
    if (id >= 0) {
      add(id);
    } else if (HasBytes(letter)) {
      for (const char byte : letter) add(table_.ByteToken(static_cast<uint8_t>(byte)));
    } else if (unknown_ >= 0) {
      add(unknown_);
    }
    return next;
  }

 private:
  TokenId IdOf(char32_t code_point, std::string_view letter) const {
    if (code_point < ascii_.size()) return ascii_[code_point];
    return table_.FindNormal(letter).value_or(-1);
  }

  bool HasBytes(std::string_view letter) const {
    return std::all_of(letter.begin(), letter.end(), [&](char byte) {
      return table_.ByteToken(static_cast<uint8_t>(byte)) >= 0;
    });
  }

  const TokenTable& table_;
  const TokenId unknown_;
  std::array<TokenId, 128> ascii_{};
};

class SentencePieceBpe final : public TextModel {
 public:
  // `rules`: how the text is normalized, if it is.
  SentencePieceBpe(const Vocabulary& vocabulary, const TokenTable* table,
                   const RankedMerges& merges, std::optional<SentencePieceRules> rules)
      : prefix_(vocabulary.space_prefix),
        letters_(*table, vocabulary.unk.value_or(-1)),
        merges_(merges.merges, merges.ranks),
        rules_(std::move(rules)),
        counts_(letters_.all_bytes() && (!rules_ || rules_->keeps_characters())) {
    for (const Merge& merge : merges.merges) bounds_.Add(table->Text(merge.merged));
    for (TokenId id = 0; id < static_cast<TokenId>(table->size()); ++id) {
      if (table->Type(id) == TokenType::kSymbol) bounds_.Add(table->Text(id));
    }
  }

  std::unique_ptr<SegmentEncoder> NewEncoder() const override;

  // A "▁" in the text becomes a token of a space, which is shorter.
  bool Counts(uint8_t byte) const override {
    return counts_ && kSpaceSymbol.find(static_cast<char>(byte)) == std::string_view::npos;
  }
  bool AddsSpace(Before before) const override { return MayHaveSpacePrefix(prefix_, before); }

  SpacePrefix prefix() const { return prefix_; }
  const CharacterLetters& letters() const { return letters_; }
  const MergeTable& merges() const { return merges_; }
  const WordBounds& bounds() const { return bounds_; }
  const std::optional<SentencePieceRules>& rules() const { return rules_; }

 private:
  const SpacePrefix prefix_;
  const CharacterLetters letters_;
  const MergeTable merges_;
  const std::optional<SentencePieceRules> rules_;
  const bool counts_;
  WordBounds bounds_;
};

// The words of a text as it is, with the functions of NormalizedWords.
class WordsAsTheyAre {
 public:
  explicit WordsAsTheyAre(const SentencePieceBpe* model) : model_(*model) {}

  void Begin(std::string_view text, Before before) {
    text_ = text;
    begin_ = end_ = 0;
    whole_ = false;
    first_ = HasSpacePrefix(model_.prefix(), before, text) ? model_.letters().space() : -1;
  }

  bool Next(Work* work) {
    if (whole_) begin_ = end_;
    whole_ = begin_ == text_.size() || FindEnd(work);
    return whole_;
  }

  std::string_view word() const { return text_.substr(begin_, end_ - begin_); }
  // The space before the first word, once; -1: there is none.
  TokenId TakeFirst() { return std::exchange(first_, -1); }
  size_t bytes() const { return 0; }

 private:
  // Whether end_ is the end of the word at begin_; false: no work is left.
  bool FindEnd(Work* work) {
    if (end_ == begin_) ++end_;
    while (end_ < text_.size() && !IsEnd()) {
      if (!work->left()) return false;
      const size_t begin = end_;
      const size_t most = std::min(text_.size(), begin + work->window());
      while (end_ < most && !IsEnd()) ++end_;
      work->SpendScan(end_ - begin);
    }
    return true;
  }

  // Whether the word may end before end_, which is within the text.
  bool IsEnd() const {
    if (end_ - begin_ >= kMaxPieceBytes) return true;
    if (text_[end_] != ' ' && !text_.substr(end_).starts_with(kSpaceSymbol)) return false;
    const char last = text_[end_ - 1] == ' ' ? kSpaceSymbol.back() : text_[end_ - 1];
    return model_.bounds().MayCutAfter(static_cast<uint8_t>(last));
  }

  const SentencePieceBpe& model_;
  std::string_view text_;
  size_t begin_ = 0;  // Where the word begins.
  size_t end_ = 0;    // How far the word's end was looked for.
  bool whole_ = false;
  TokenId first_ = -1;
};

class WordsOfRules : public NormalizedWords {
 public:
  explicit WordsOfRules(const SentencePieceBpe* model)
      : NormalizedWords(&*model->rules(), &model->bounds()) {}
  TokenId TakeFirst() { return -1; }  // The space is in the word.
};

// Finds one word after the other and merges it.
template <typename Words>
class SentencePieceEncoder final : public SegmentEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceBpe* model)
      : words_(model),
        unknown_(model->letters().unknown()),
        merger_(&model->merges(), &model->letters()) {}

  void Begin(std::string_view text, Before before) override {
    words_.Begin(text, before);
    merging_ = false;
    word_ids_.clear();
    after_unknown_ = false;
  }

  bool Run(Work* work, std::vector<TokenId>* ids) override {
    while (true) {
      if (!work->left()) return false;
      if (merging_) {
        if (!merger_.Run(work, &word_ids_)) return false;
        merging_ = false;
        TakeWord(ids);
      }
      if (!work->left() || !words_.Next(work)) return false;
      if (words_.word().empty()) return true;
      merger_.Begin(words_.word(), words_.TakeFirst());
      merging_ = true;
    }
  }

  size_t bytes() const override {
    return merger_.bytes() + words_.bytes() + word_ids_.capacity() * sizeof(TokenId);
  }

 private:
  // Several unknown characters in a row are one token. They become it here, behind the merging, so
  // that `ids` are never more than the text's.
  void TakeWord(std::vector<TokenId>* ids) {
    for (const TokenId id : word_ids_) {
      const bool unknown = id == unknown_;
      if (!unknown || !after_unknown_) ids->push_back(id);
      after_unknown_ = unknown;
    }
    word_ids_.clear();
    if (word_ids_.capacity() > kMostKept) std::vector<TokenId>().swap(word_ids_);
  }

  // What a word may leave allocated.
  static constexpr size_t kMostKept = size_t{1} << 16U;

  Words words_;
  const TokenId unknown_;
  bool merging_ = false;
  std::vector<TokenId> word_ids_;  // The ids of the word that is being merged.
  bool after_unknown_ = false;
  PieceMerger<CharacterLetters> merger_;
};

std::unique_ptr<SegmentEncoder> SentencePieceBpe::NewEncoder() const {
  if (rules_) return std::make_unique<SentencePieceEncoder<WordsOfRules>>(this);
  return std::make_unique<SentencePieceEncoder<WordsAsTheyAre>>(this);
}

}  // namespace

StatusOr<std::unique_ptr<const TextModel>> MakeSentencePieceBpe(const Vocabulary& vocabulary,
                                                                const TokenTable* table) {
  if (vocabulary.merges.empty() && vocabulary.scores.empty()) {
    return VocabularyError("tokenizer.ggml.scores",
                           "there are neither scores nor merges (tokenizer.ggml.merges)");
  }
  // Gemma 4's files have both, and the scores say nothing.
  const bool by_scores =
      vocabulary.merges.empty() || (vocabulary.model == "llama" && !vocabulary.scores.empty());
  const StatusOr<RankedMerges> merges = by_scores ? MergesOfScores(vocabulary.scores, *table)
                                                  : MergesOfList(vocabulary.merges, *table);
  if (!merges.ok()) return merges.status();
  std::optional<SentencePieceRules> rules;
  if (vocabulary.normalizes) {
    StatusOr<SentencePieceRules> made = SentencePieceRules::Create(vocabulary, table);
    if (!made.ok()) return made.status();
    rules = *std::move(made);
  }
  return std::unique_ptr<const TextModel>(
      std::make_unique<SentencePieceBpe>(vocabulary, table, *merges, std::move(rules)));
}

}  // namespace ropeway::tokenizer
