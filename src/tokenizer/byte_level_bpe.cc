#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/piece_merger.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_model.h"

namespace ropeway::tokenizer {
namespace {

constexpr size_t kMaxPatterns = 32;
constexpr size_t kMaxPatternBytes = size_t{64} << 10U;

// The letters are bytes. Those that the vocabulary lacks have no id.
class ByteLetters {
 public:
  explicit ByteLetters(const TokenTable& table) {
    for (size_t byte = 0; byte < ids_.size(); ++byte) {
      ids_[byte] = table.Find(ByteToLetter(static_cast<uint8_t>(byte))).value_or(-1);
    }
  }

  bool Has(uint8_t byte) const { return ids_[byte] >= 0; }

  template <typename Add>
  size_t Next(std::string_view piece, size_t at, Add add) const {
    const TokenId id = ids_[static_cast<uint8_t>(piece[at])];
    if (id >= 0) add(id);
    return at + 1;
  }

 private:
  std::array<TokenId, 256> ids_{};
};

class ByteLevelBpe final : public TextModel {
 public:
  ByteLevelBpe(const TokenTable* table, PreTokenizer pre_tokenizer, TextForm form,
               const RankedMerges& merges)
      : table_(*table),
        pre_tokenizer_(std::move(pre_tokenizer)),
        form_(form),
        letters_(*table),
        merges_(merges.merges, merges.ranks) {
    for (TokenId id = 0; id < static_cast<TokenId>(table->size()); ++id) {
      if (!table->IsAdded(id)) longest_ = std::max(longest_, table->Bytes(id, true).size());
    }
  }

  std::unique_ptr<SegmentEncoder> NewEncoder() const override;
  // A composed character stands for more bytes than it has.
  bool Counts(uint8_t byte) const override {
    return form_ == TextForm::kAsIs && letters_.Has(byte);
  }
  bool adds_bos() const override { return pre_tokenizer_.adds_bos(); }

  const PreTokenizer& pre_tokenizer() const { return pre_tokenizer_; }
  TextForm form() const { return form_; }
  const ByteLetters& letters() const { return letters_; }
  const MergeTable& merges() const { return merges_; }

  // The token that a piece becomes without merges; -1: it is merged.
  TokenId WholePiece(std::string_view piece) const {
    if (!pre_tokenizer_.ignore_merges() || piece.size() > longest_) return -1;
    // The texts of added tokens are plain, not in the byte alphabet, and no merge makes them.
    const std::optional<TokenId> whole = table_.Find(ToByteLetters(piece));
    return whole && !table_.IsAdded(*whole) ? *whole : -1;
  }

 private:
  const TokenTable& table_;
  const PreTokenizer pre_tokenizer_;
  const TextForm form_;
  const ByteLetters letters_;
  const MergeTable merges_;
  size_t longest_ = 0;  // In bytes, of the tokens that are not added.
};

// It looks for the stretches of valid UTF-8; in those, for the pre-tokenizer's pieces; and merges
// each. Every stage goes on where it was left.
class ByteLevelEncoder final : public SegmentEncoder {
 public:
  explicit ByteLevelEncoder(const ByteLevelBpe* model)
      : model_(*model),
        pieces_(&model_.pre_tokenizer()),
        merger_(&model_.merges(), &model_.letters()) {}

  void Begin(std::string_view text, Before /*before*/) override {
    text_ = text;
    utf8_ = stretch_ = invalid_ = 0;
    stage_ = Stage::kStretch;
  }

  bool Run(Work* work, std::vector<TokenId>* ids) override {
    while (stage_ != Stage::kEnd) {
      if (!work->left()) return false;
      Advance(work, ids);
    }
    return true;
  }

  size_t bytes() const override {
    return merger_.bytes() + (model_.form() == TextForm::kAsIs ? 0 : composed_.capacity());
  }

 private:
  enum class Stage {
    kStretch,  // The next stretch of valid UTF-8.
    kCompose,  // It is normalized.
    kPieces,   // Its pieces are found.
    kMerge,    // Each piece is merged.
    kEnd,
  };

  void Advance(Work* work, std::vector<TokenId>* ids) {
    switch (stage_) {
      case Stage::kStretch:
        return Stretch(work);
      case Stage::kCompose:
        if (!composer_.Run(work, &composed_)) return;
        pieces_.Begin(composed_);
        stage_ = Stage::kPieces;
        return;
      case Stage::kPieces:
        return Pieces(work, ids);
      case Stage::kMerge:
        if (merger_.Run(work, ids)) stage_ = Stage::kPieces;
        return;
      case Stage::kEnd:
        return;
    }
  }

  // REQUIRES: the text before `stretch_` is encoded.
  void Stretch(Work* work) {
    const size_t begin = utf8_;
    const size_t most = work->window();
    while (utf8_ < text_.size() && utf8_ - begin < most) {
      const base::Utf8Step step = base::StepUtf8(text_, utf8_);
      if (step.kind != base::Utf8Kind::kValid) {
        invalid_ = step.length;
        break;
      }
      utf8_ += step.length;
    }
    work->SpendScan(utf8_ - begin);
    if (invalid_ == 0 && utf8_ < text_.size()) return;
    const std::string_view stretch = text_.substr(stretch_, utf8_ - stretch_);
    if (model_.form() == TextForm::kNfc) {
      composed_.clear();
      composer_.Begin(stretch);
      stage_ = Stage::kCompose;
    } else {
      pieces_.Begin(stretch);
      stage_ = Stage::kPieces;
    }
  }

  void Pieces(Work* work, std::vector<TokenId>* ids) {
    if (rest_.empty()) {
      std::string_view next;
      const SplitStep step = pieces_.Next(work, &next);
      if (step == SplitStep::kEnd) EndStretch(ids);
      if (step != SplitStep::kPiece) return;
      rest_ = next;
    }
    const std::string_view piece = rest_.substr(0, kMaxPieceBytes);
    rest_.remove_prefix(piece.size());
    if (const TokenId whole = model_.WholePiece(piece); whole >= 0) {
      work->Spend(piece.size());
      ids->push_back(whole);
    } else {
      merger_.Begin(piece);
      stage_ = Stage::kMerge;
    }
  }

  void EndStretch(std::vector<TokenId>* ids) {
    for (const size_t end = utf8_ + std::exchange(invalid_, 0); utf8_ < end;) {
      utf8_ = model_.letters().Next(text_, utf8_, [ids](TokenId id) { ids->push_back(id); });
    }
    stretch_ = utf8_;
    stage_ = utf8_ < text_.size() ? Stage::kStretch : Stage::kEnd;
  }

  const ByteLevelBpe& model_;
  std::string_view text_;
  Stage stage_ = Stage::kEnd;

  // kStretch: [stretch_, utf8_) is valid UTF-8.
  size_t stretch_ = 0;
  size_t utf8_ = 0;
  size_t invalid_ = 0;  // Bytes at utf8_ that are not.

  Composer composer_;
  std::string composed_;
  PreTokenizer::Cursor pieces_;
  std::string_view rest_;  // What is left of a piece longer than kMaxPieceBytes.
  PieceMerger<ByteLetters> merger_;
};

std::unique_ptr<SegmentEncoder> ByteLevelBpe::NewEncoder() const {
  return std::make_unique<ByteLevelEncoder>(this);
}

StatusOr<PreTokenizer> MakePreTokenizer(const Vocabulary& vocabulary) {
  if (vocabulary.patterns.empty()) return PreTokenizer::Create(vocabulary.pre);
  size_t bytes = 0;
  for (const std::string& pattern : vocabulary.patterns) bytes += pattern.size();
  if (vocabulary.patterns.size() > kMaxPatterns || bytes > kMaxPatternBytes) {
    return VocabularyError("pre_tokenizer", "must have at most " + std::to_string(kMaxPatterns) +
                                                " patterns, with at most " +
                                                std::to_string(kMaxPatternBytes) +
                                                " bytes in total");
  }
  StatusOr<PreTokenizer> made =
      PreTokenizer::Create(vocabulary.patterns, vocabulary.ignore_merges.value_or(false));
  if (!made.ok()) return VocabularyError("pre_tokenizer", made.status().message());
  return made;
}

}  // namespace

StatusOr<std::unique_ptr<const TextModel>> MakeByteLevelBpe(const Vocabulary& vocabulary,
                                                            const TokenTable* table) {
  StatusOr<PreTokenizer> pre_tokenizer = MakePreTokenizer(vocabulary);
  if (!pre_tokenizer.ok()) return pre_tokenizer.status();
  const StatusOr<RankedMerges> merges = MergesOfList(vocabulary.merges, *table);
  if (!merges.ok()) return merges.status();
  return std::unique_ptr<const TextModel>(
      std::make_unique<ByteLevelBpe>(table, *std::move(pre_tokenizer), vocabulary.form, *merges));
}

}  // namespace ropeway::tokenizer
