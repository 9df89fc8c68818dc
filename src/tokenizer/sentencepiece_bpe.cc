#include "tokenizer/sentencepiece_bpe.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/bpe_tables.h"
#include "tokenizer/characters.h"
#include "tokenizer/merge_list.h"
#include "tokenizer/piece_merger.h"
#include "tokenizer/sentencepiece_text.h"

namespace ropeway::tokenizer {
namespace {

// The letters are characters; a space is "▁".
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
  // Whether each character has tokens, so that none stands for several unknown ones.
  bool all_bytes() const {
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (table_.ByteToken(static_cast<uint8_t>(byte)) < 0) return false;
    }
    return true;
  }

  template <typename Add>
  size_t Next(std::string_view piece, size_t at, Add add) const {
    const base::Utf8Step step = base::StepUtf8(piece, at);
    const bool valid = step.kind == base::Utf8Kind::kValid;
    const std::string_view letter = piece.substr(at, valid ? step.length : 1);
    const size_t next = at + letter.size();
    const TokenId id = valid ? IdOf(step.code_point, letter) : -1;
    if (id >= 0) {
      add(id);
    } else if (HasBytes(letter)) {
      for (const char byte : letter) add(table_.ByteToken(static_cast<uint8_t>(byte)));
    } else if (unknown_ >= 0 && (at == 0 || !EndsUnknown(piece.substr(0, at)))) {
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

  // Whether the last letter of `text` is an unknown one.
  bool EndsUnknown(std::string_view text) const {
    size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 &&
           (static_cast<uint8_t>(text[begin]) & 0xC0U) == 0x80U) {
      --begin;
    }
    const base::Utf8Step step = base::StepUtf8(text, begin);
    if (step.kind != base::Utf8Kind::kValid || begin + step.length != text.size()) {
      // The last byte is a letter of its own.
      return !HasBytes(text.substr(text.size() - 1));
    }
    const std::string_view letter = text.substr(begin);
    return IdOf(step.code_point, letter) < 0 && !HasBytes(letter);
  }

  const TokenTable& table_;
  const TokenId unknown_;
  std::array<TokenId, 128> ascii_{};
};

class SentencePieceBpe final : public TextModel {
 public:
  SentencePieceBpe(const Vocabulary& vocabulary, const TokenTable* table,
                   const RankedMerges& merges)
      : prefix_(vocabulary.space_prefix),
        letters_(*table, vocabulary.unk.value_or(-1)),
        merges_(merges.merges, merges.ranks),
        counts_(letters_.all_bytes()) {
    for (const Merge& merge : merges.merges) bounds_.Add(table->Text(merge.merged));
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

 private:
  const SpacePrefix prefix_;
  const CharacterLetters letters_;
  const MergeTable merges_;
  const bool counts_;
  WordBounds bounds_;
};

// Finds one word after the other and merges it.
class SentencePieceEncoder final : public SegmentEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceBpe* model)
      : model_(*model), merger_(&model_.merges(), &model_.letters()) {}

  void Begin(std::string_view text, Before before) override {
    text_ = text;
    begin_ = end_ = 0;
    merging_ = false;
    first_ = HasSpacePrefix(model_.prefix(), before, text) ? model_.letters().space() : -1;
  }

  bool Run(Work* work, std::vector<TokenId>* ids) override {
    while (true) {
      if (!work->left()) return false;
      if (merging_) {
        if (!merger_.Run(work, ids)) return false;
        merging_ = false;
      }
      if (begin_ == text_.size()) return true;
      if (!work->left() || !FindEnd(work)) return false;
      merger_.Begin(text_.substr(begin_, end_ - begin_), first_);
      first_ = -1;
      begin_ = end_;
      merging_ = true;
    }
  }

  size_t bytes() const override { return merger_.bytes(); }

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
  size_t begin_ = 0;  // Of the word that is not merged yet,
  size_t end_ = 0;    // and how far its end was looked for.
  bool merging_ = false;
  TokenId first_ = -1;  // The space before the first word; -1: there is none.
  PieceMerger<CharacterLetters> merger_;
};

std::unique_ptr<SegmentEncoder> SentencePieceBpe::NewEncoder() const {
  return std::make_unique<SentencePieceEncoder>(this);
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
  return std::unique_ptr<const TextModel>(
      std::make_unique<SentencePieceBpe>(vocabulary, table, *merges));
}

}  // namespace ropeway::tokenizer
