#include "tokenizer/piece_merger.h"

#include <cmath>
#include <functional>

namespace ropeway::tokenizer {
namespace {

// The most divisions of tokens into two, for merges by scores: a token may have many.
constexpr size_t kMaxDivisions = size_t{1} << 26U;

// Trained pieces have up to about 100 bytes; each of a piece's bytes costs a look at the whole.
constexpr size_t kMaxMergedBytes = 4096;

Status TooManyMerges(const char* field, size_t count, size_t most) {
  return VocabularyError(
      field, "must have at most " + std::to_string(most) + " merges, got " + std::to_string(count));
}

// Appends the divisions of the token into two.
void AddDivisions(TokenId id, const TokenTable& table, std::vector<Merge>* merges) {
  const std::string_view text = table.Text(id);
  for (size_t at = 1; at < text.size(); ++at) {
    if ((static_cast<uint8_t>(text[at]) & 0xC0U) == 0x80U) continue;
    const std::optional<TokenId> left = table.FindNormal(text.substr(0, at));
    if (!left) continue;
    const std::optional<TokenId> right = table.FindNormal(text.substr(at));
    if (right) merges->push_back({*left, *right, id});
  }
}

}  // namespace

StatusOr<RankedMerges> MergesOfList(const std::vector<std::string>& list, const TokenTable& table) {
  if (list.size() > kMaxVocabularyMerges) {
    return TooManyMerges("tokenizer.ggml.merges", list.size(), kMaxVocabularyMerges);
  }
  RankedMerges result;
  result.merges.reserve(list.size());
  result.ranks.reserve(list.size());
  std::string joined;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string_view text = list[i];
    const auto fail = [&](const std::string& what) {
      return VocabularyError(IndexedField("tokenizer.ggml.merges", i), what);
    };
    const size_t space = text.find(' ');
    if (space == 0 || space == text.npos || space + 1 == text.size() ||
        text.find(' ', space + 1) != text.npos) {
      return fail("expected two tokens with one space between them");
    }
    const std::optional<TokenId> left = table.Find(text.substr(0, space));
    const std::optional<TokenId> right = table.Find(text.substr(space + 1));
    joined.assign(text.substr(0, space)).append(text.substr(space + 1));
    const std::optional<TokenId> merged = table.Find(joined);
    if (!left || !right || !merged) {
      return fail("one of its tokens, or the merged token, is not in the vocabulary");
    }
    result.merges.push_back({*left, *right, *merged});
    result.ranks.push_back(static_cast<uint32_t>(i));
  }
  return result;
}

Status CheckScores(const std::vector<float>& scores, const TokenTable& table) {
  if (scores.size() != table.size()) {
    return VocabularyError("tokenizer.ggml.scores", "expected " + std::to_string(table.size()) +
                                                        " scores, one for each token, got " +
                                                        std::to_string(scores.size()));
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) continue;
    return VocabularyError(IndexedField("tokenizer.ggml.scores", i), "must be a finite number");
  }
  return {};
}

StatusOr<RankedMerges> MergesOfScores(const std::vector<float>& scores, const TokenTable& table) {
  if (Status status = CheckScores(scores, table); !status.ok()) return status;
  std::vector<float> best_first = scores;
  std::sort(best_first.begin(), best_first.end(), std::greater<>());
  best_first.erase(std::unique(best_first.begin(), best_first.end()), best_first.end());
  RankedMerges result;
  for (TokenId id = 0; id < static_cast<TokenId>(table.size()); ++id) {
    if (table.Type(id) != TokenType::kNormal) continue;
    const auto index = static_cast<size_t>(id);
    if (table.Text(id).size() > kMaxMergedBytes) {
      return VocabularyError(IndexedField("tokenizer.ggml.tokens", index),
                             "must have at most " + std::to_string(kMaxMergedBytes) +
                                 " bytes, got " + std::to_string(table.Text(id).size()));
    }
    AddDivisions(id, table, &result.merges);
    if (result.merges.size() > kMaxDivisions) {
      return TooManyMerges("tokenizer.ggml.tokens", result.merges.size(), kMaxDivisions);
    }
    const auto rank =
        std::lower_bound(best_first.begin(), best_first.end(), scores[index], std::greater<>()) -
        best_first.begin();
    result.ranks.resize(result.merges.size(), static_cast<uint32_t>(rank));
  }
  return result;
}

}  // namespace ropeway::tokenizer
