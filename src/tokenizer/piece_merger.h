// The merges of BPE: from what a vocabulary has of them, and of one piece of a text, whatever its
// letters are.
#ifndef ROPEWAY_TOKENIZER_PIECE_MERGER_H_
#define ROPEWAY_TOKENIZER_PIECE_MERGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"
#include "tokenizer/bpe_tables.h"
#include "tokenizer/token_table.h"
#include "tokenizer/work.h"

namespace ropeway::tokenizer {

// Merges and their ranks: the lowest rank is merged first.
struct RankedMerges {
  std::vector<Merge> merges;
  std::vector<uint32_t> ranks;
};

// By the vocabulary's list, "left right", best first.
StatusOr<RankedMerges> MergesOfList(const std::vector<std::string>& list, const TokenTable& table);

// SentencePiece's: two neighbours become the token that they spell together, the one with the
// highest score first. Takes tokens of type kNormal, each with all divisions into two such tokens.
StatusOr<RankedMerges> MergesOfScores(const std::vector<float>& scores, const TokenTable& table);

// Scores must be numbers, one for each token.
Status CheckScores(const std::vector<float>& scores, const TokenTable& table);

// MergeTable counts in 32 bits; no real piece comes near. A piece may have an id more than bytes.
inline constexpr size_t kMaxPieceBytes = size_t{1} << 28U;

// Merges the ids of a piece's letters, in parts where it is long. Letters has
//
//   // Calls add(id) for the ids of the letter at piece[at], at most one for each of its bytes, and
//   // returns where the next letter begins.
//   template <typename Add> size_t Next(std::string_view piece, size_t at, Add add) const;
//
// One thread at a time.
template <typename Letters>
class PieceMerger {
 public:
  // Both must outlive it.
  PieceMerger(const MergeTable* merges, const Letters* letters)
      : merges_(*merges), letters_(*letters) {}

  // `first`: an id before the ids of the letters; -1: none. REQUIRES: the piece is not longer than
  // kMaxPieceBytes.
  void Begin(std::string_view piece, TokenId first = -1) {
    piece_ = piece;
    filled_ = 0;
    stage_ = piece.size() <= kMostAtOnce ? Stage::kShort : Stage::kFill;
    short_.clear();
    if (stage_ == Stage::kFill) long_.emplace(&merges_, piece.size() + 1);
    if (first >= 0) Add(first);
  }

  // Appends the merged ids. Returns whether all are there; false: no work is left.
  bool Run(Work* work, std::vector<TokenId>* ids) {
    while (stage_ != Stage::kEnd) {
      if (!work->left()) return false;
      Advance(work, ids);
    }
    return true;
  }

  size_t bytes() const { return long_ ? long_->bytes() : 0; }

 private:
  enum class Stage {
    kShort,  // A short piece is merged at once.
    kFill,   // The letters of a long piece become ids.
    kMerge,  // These ids are merged.
    kTake,   // The merged ids are appended.
    kEnd,
  };
  static constexpr size_t kMostAtOnce = 512;

  void Advance(Work* work, std::vector<TokenId>* ids) {
    switch (stage_) {
      case Stage::kShort:
        work->Spend(piece_.size());
        Fill(piece_.size());
        merges_.Apply(short_);
        ids->insert(ids->end(), short_.begin(), short_.end());
        stage_ = Stage::kEnd;
        return;
      case Stage::kFill: {
        const size_t begin = filled_;
        Fill(std::min(piece_.size(), begin + work->window() / Work::kScanned));
        work->Spend(filled_ - begin);
        if (filled_ == piece_.size()) stage_ = Stage::kMerge;
        return;
      }
      case Stage::kMerge:
        if (long_->Run(work)) stage_ = Stage::kTake;
        return;
      case Stage::kTake:
        if (!long_->Take(work, ids)) return;
        long_.reset();
        stage_ = Stage::kEnd;
        return;
      case Stage::kEnd:
        return;
    }
  }

  // The letters that begin before `until`.
  void Fill(size_t until) {
    while (filled_ < until) {
      filled_ = letters_.Next(piece_, filled_, [this](TokenId id) { Add(id); });
    }
  }

  void Add(TokenId id) {
    if (long_) {
      long_->Add(id);
    } else {
      short_.push_back(id);
    }
  }

  const MergeTable& merges_;
  const Letters& letters_;
  std::string_view piece_;
  size_t filled_ = 0;  // Bytes whose ids were added.
  Stage stage_ = Stage::kEnd;
  std::vector<TokenId> short_;
  std::optional<MergeTable::LongMerge> long_;
};

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_PIECE_MERGER_H_
