// The encoding of one text by a BpeTokenizer, in pieces.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {
namespace {

// MergeTable counts in 32 bits; no real piece comes near.
constexpr size_t kMaxPieceBytes = size_t{1} << 28U;

// A longer piece is merged in parts.
constexpr size_t kMostMergedAtOnce = 512;

}  // namespace

// It looks for the added tokens; between two of them, for the stretches of valid UTF-8; in those,
// for the pre-tokenizer's pieces; and merges each. Every stage goes on where it was left.
class BpeTokenizer::Pass final : public Encoding {
 public:
  Pass(const BpeTokenizer* tokenizer, std::string_view text, const EncodeOptions& options,
       size_t most)
      : its_(*tokenizer),
        text_(text),
        options_(options),
        most_(most),
        stage_(most < text.size() ? Stage::kCount : Stage::kFind),
        pieces_(&its_.pre_tokenizer_) {
    if (options.add_special && its_.add_bos_) ids_.push_back(*its_.vocabulary_.bos);
  }

  bool Run(size_t units) override {
    Work work(std::max<size_t>(units, 1));
    while (stage_ != Stage::kEnd) {
      if (!work.left()) return false;
      Advance(&work);
      if (least() > most_) stage_ = Stage::kEnd;
    }
    return true;
  }

  size_t bytes() const override { return Encoding::bytes() + (merging_ ? merging_->bytes() : 0); }

 private:
  enum class Stage {
    kCount,     // How many ids there must be, by the lengths of tokens alone.
    kFind,      // The next added token.
    kOrdinary,  // Ordinary text before it: the next stretch of valid UTF-8.
    kPieces,    // The pieces of that.
    kFill,      // A long piece becomes its bytes' ids,
    kMerge,     // which are merged,
    kTake,      // and appended.
    kEnd,
  };

  void Advance(Work* work) {
    switch (stage_) {
      case Stage::kCount:
        return Count(work);
      case Stage::kFind:
        return Find(work);
      case Stage::kOrdinary:
        return Ordinary(work);
      case Stage::kPieces:
        return Pieces(work);
      case Stage::kFill:
        return Fill(work);
      case Stage::kMerge:
        if (merging_->Run(work)) stage_ = Stage::kTake;
        return;
      case Stage::kTake:
        if (!merging_->Take(work, &ids_)) return;
        merging_.reset();
        stage_ = Stage::kPieces;
        return;
      case Stage::kEnd:
        return;
    }
  }

  // The fewest tokens that can cover the text: each reaches no further than the longest one that
  // begins with the two bytes at some position that those before it reach.
  void Count(Work* work) {
    const size_t end = std::min(text_.size(), counted_ + work->window());
    work->SpendScan(end - counted_);
    for (; counted_ < end; ++counted_) {
      const auto byte = static_cast<uint8_t>(text_[counted_]);
      if (!its_.HasByte(byte)) continue;
      if (before_ >= 0) {
        CountAt(its_.longest_from_[static_cast<size_t>(before_) << 8U | byte]);
        if (least_ > most_) return;
      }
      before_ = byte;
    }
    if (counted_ < text_.size()) return;
    if (before_ >= 0) CountAt(1);
    stage_ = Stage::kFind;
  }

  void CountAt(size_t longest) {
    furthest_ = std::max(furthest_, position_ + longest);
    if (position_++ != reach_) return;
    ++least_;
    reach_ = furthest_;
  }

  void Find(Work* work) {
    size_t to = std::min(text_.size(), found_from_ + work->window());
    size_t control_until = text_.size();
    const bool parse = options_.parse_special;
    if (parse) {
      // Within quoted text no control token begins, and none reaches into it.
      while (quoted_ < options_.quoted.size() && options_.quoted[quoted_].end <= found_from_) {
        ++quoted_;
      }
      if (quoted_ < options_.quoted.size()) {
        const Span& span = options_.quoted[quoted_];
        const bool inside = span.begin <= found_from_;
        control_until = inside ? 0 : span.begin;
        to = std::min(to, inside ? span.end : span.begin);
      }
    }
    const SpecialTokens& added = parse ? its_.all_added_ : its_.user_defined_;
    found_ = added.FindFirst(text_, found_from_, to, control_until);
    work->SpendScan((found_ ? found_->begin : to) - found_from_);
    found_from_ = to;
    if (!found_ && to < text_.size()) return;
    ordinary_end_ = found_ ? found_->begin : text_.size();
    utf8_ = stretch_ = ordinary_;
    stage_ = Stage::kOrdinary;
  }

  // REQUIRES: the ordinary text before `stretch_` is encoded.
  void Ordinary(Work* work) {
    const std::string_view text = text_.substr(0, ordinary_end_);
    const size_t begin = utf8_;
    const size_t most = work->window();
    while (utf8_ < ordinary_end_ && utf8_ - begin < most) {
      const base::Utf8Step step = base::StepUtf8(text, utf8_);
      if (step.kind == base::Utf8Kind::kValid) {
        utf8_ += step.length;
        continue;
      }
      invalid_ = step.length;
      break;
    }
    work->SpendScan(utf8_ - begin);
    if (invalid_ == 0 && utf8_ < ordinary_end_) return;
    pieces_.Begin(text_.substr(stretch_, utf8_ - stretch_));
    stage_ = Stage::kPieces;
  }

  // The stretch is encoded.
  void EndStretch() {
    AddBytes(text_.substr(utf8_, invalid_), &ids_);
    utf8_ += std::exchange(invalid_, 0);
    stretch_ = utf8_;
    stage_ = Stage::kOrdinary;
    if (utf8_ < ordinary_end_) return;
    if (found_) {
      ids_.push_back(found_->id);
      ordinary_ = found_from_ = found_->begin + found_->length;
      stage_ = Stage::kFind;
      return;
    }
    if (options_.add_special && its_.add_eos_) ids_.push_back(*its_.vocabulary_.eos);
    stage_ = Stage::kEnd;
  }

  void Pieces(Work* work) {
    if (rest_.empty()) {
      std::string_view next;
      const SplitStep step = pieces_.Next(work, &next);
      if (step == SplitStep::kEnd) EndStretch();
      if (step != SplitStep::kPiece) return;
      rest_ = next;
    }
    const std::string_view piece = rest_.substr(0, kMaxPieceBytes);
    rest_.remove_prefix(piece.size());
    if (const TokenId whole = its_.WholePiece(piece); whole >= 0) {
      work->Spend(piece.size());
      ids_.push_back(whole);
    } else if (piece.size() <= kMostMergedAtOnce) {
      work->Spend(piece.size());
      piece_ids_.clear();
      AddBytes(piece, &piece_ids_);
      its_.merges_.Apply(piece_ids_);
      ids_.insert(ids_.end(), piece_ids_.begin(), piece_ids_.end());
    } else {
      merging_.emplace(&its_.merges_, piece.size());
      long_piece_ = piece;
      stage_ = Stage::kFill;
    }
  }

  void Fill(Work* work) {
    const std::string_view part = long_piece_.substr(0, work->window() / Work::kScanned);
    work->Spend(part.size());
    for (const char byte : part) {
      const TokenId id = its_.byte_ids_[static_cast<uint8_t>(byte)];
      if (id >= 0) merging_->Add(id);
    }
    long_piece_.remove_prefix(part.size());
    if (long_piece_.empty()) stage_ = Stage::kMerge;
  }

  // The ids of the bytes that have one.
  void AddBytes(std::string_view bytes, std::vector<TokenId>* ids) const {
    for (const char byte : bytes) {
      const TokenId id = its_.byte_ids_[static_cast<uint8_t>(byte)];
      if (id >= 0) ids->push_back(id);
    }
  }

  const BpeTokenizer& its_;
  const std::string_view text_;
  const EncodeOptions options_;
  const size_t most_;
  Stage stage_;

  // kCount. Positions are those of bytes that have a token.
  size_t counted_ = 0;  // Bytes of the text that were looked at.
  int before_ = -1;     // The byte at position_; -1: none was found yet.
  size_t position_ = 0;
  size_t reach_ = 0;     // What least_ tokens can cover, at most.
  size_t furthest_ = 0;  // What one more could.

  // kFind.
  size_t found_from_ = 0;  // No added token begins in [ordinary_, found_from_).
  size_t quoted_ = 0;      // The first quoted span that ends after found_from_.
  std::optional<SpecialTokens::Found> found_;

  // kOrdinary: the text [ordinary_, ordinary_end_), of which [stretch_, utf8_) is valid UTF-8.
  size_t ordinary_ = 0;
  size_t ordinary_end_ = 0;
  size_t stretch_ = 0;
  size_t utf8_ = 0;
  size_t invalid_ = 0;  // Bytes at utf8_ that are not.

  // kPieces and the stages of a long piece.
  PreTokenizer::Cursor pieces_;
  std::string_view rest_;  // Of a piece beyond kMaxPieceBytes.
  std::vector<TokenId> piece_ids_;
  std::optional<MergeTable::LongMerge> merging_;
  std::string_view long_piece_;  // What is to be filled in.
};

std::unique_ptr<Encoding> BpeTokenizer::Begin(std::string_view text, const EncodeOptions& options,
                                              size_t most) const {
  return std::make_unique<Pass>(this, text, options, most);
}

std::vector<TokenId> BpeTokenizer::Encode(std::string_view text,
                                          const EncodeOptions& options) const {
  Pass pass(this, text, options, Encoding::kNoLimit);
  while (!pass.Run(SIZE_MAX)) {
  }
  return pass.TakeIds();
}

}  // namespace ropeway::tokenizer
