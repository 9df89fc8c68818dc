// The merges of BPE, from what a vocabulary has of them.
#ifndef ROPEWAY_TOKENIZER_MERGE_LIST_H_
#define ROPEWAY_TOKENIZER_MERGE_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ropeway/status.h"
#include "tokenizer/bpe_tables.h"
#include "tokenizer/token_table.h"

namespace ropeway::tokenizer {

// Merges and their ranks, of which the lowest is merged first.
struct RankedMerges {
  std::vector<Merge> merges;
  std::vector<uint32_t> ranks;
};

// By the vocabulary's list, "left right", best first.
StatusOr<RankedMerges> MergesOfList(const std::vector<std::string>& list, const TokenTable& table);

// SentencePiece's: two neighbours become the token that they spell together, that of the highest
// score first. Of tokens of type kNormal, each with all of its divisions into two such tokens.
StatusOr<RankedMerges> MergesOfScores(const std::vector<float>& scores, const TokenTable& table);

// Scores must be numbers, one for each token.
Status CheckScores(const std::vector<float>& scores, const TokenTable& table);

}  // namespace ropeway::tokenizer

#endif  // ROPEWAY_TOKENIZER_MERGE_LIST_H_
