// The lengths of a vocabulary's tokens, for masks near the end of a string of limited length.
#ifndef ROPEWAY_THIRD_PARTY_XGRAMMAR_TOKEN_LENGTHS_H_
#define ROPEWAY_THIRD_PARTY_XGRAMMAR_TOKEN_LENGTHS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace xgrammar {

// Indices are those of the sorted vocabulary, lengths are in characters. Const and thread-safe.
struct TokenLengths {
  static constexpr int32_t kLevels = 64;
  static constexpr uint8_t kNoMark = UINT8_MAX;

  using SortedTokens = std::vector<std::pair<int32_t, std::string>>;

  void Build(const SortedTokens& tokens, const std::vector<int32_t>& lengths, int32_t vocab_size) {
    const size_t words = (static_cast<size_t>(vocab_size) + 31) / 32;
    const auto longest = std::max_element(lengths.begin(), lengths.end());
    const int32_t levels = lengths.empty() ? 1 : std::min(*longest + 1, kLevels);
    within.assign(static_cast<size_t>(levels), std::vector<uint32_t>(words));
    first_mark.assign(tokens.size(), kNoMark);
    for (size_t index = 0; index < tokens.size(); ++index) {
      const auto& [id, text] = tokens[index];
      if (lengths[index] < levels) {
        within[static_cast<size_t>(lengths[index])][static_cast<size_t>(id) / 32] |= 1U
                                                                                     << (id % 32);
      } else {
        longer.push_back(static_cast<int32_t>(index));
      }
      const size_t mark = text.find_first_of("\"\\");
      if (mark == std::string::npos) continue;
      const auto begins = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
      const auto before =
          std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(mark), begins);
      first_mark[index] = static_cast<uint8_t>(std::min<std::ptrdiff_t>(before, kNoMark - 1));
      marked.push_back(static_cast<int32_t>(index));
    }
    for (size_t level = 1; level < within.size(); ++level) {
      for (size_t word = 0; word < words; ++word) within[level][word] |= within[level - 1][word];
    }
  }

  // within[n]: by id, a bit for each token of at most n characters.
  std::vector<std::vector<uint32_t>> within;
  std::vector<int32_t> longer;  // The tokens of kLevels or more characters.
  // By index, the characters before the first quotation mark or backslash, at most kNoMark - 1.
  std::vector<uint8_t> first_mark;
  std::vector<int32_t> marked;  // The tokens that have such a mark.
};

}  // namespace xgrammar

#endif  // ROPEWAY_THIRD_PARTY_XGRAMMAR_TOKEN_LENGTHS_H_
