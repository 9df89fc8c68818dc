#include "engine/session_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>

#include "store/session.h"

namespace ropeway::engine {
namespace {

// Spaces in runs and at the ends, a ligature, wide and combining characters, contractions, digits,
// bytes that are no UTF-8: what normalizers and split patterns treat otherwise than plain words.
constexpr std::string_view kProbe =
    " A  word,\tthe \xEF\xAC\x81rst \xE2\x91\xA0 \xEF\xBC\xA1 e\xCC\x81 12345\n\n don't  "
    "\xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80\xFF ";

// How the vocabulary encodes: the ids of a text, and of a text with special tokens in it.
std::string EncodingOf(const tokenizer::Tokenizer& tokenizer) {
  std::string text(kProbe);
  for (TokenId id = 0, found = 0; id < tokenizer.vocab_size() && found < 3; ++id) {
    if (!tokenizer.IsSpecial(id)) continue;
    ++found;
    text.append(tokenizer.Bytes(id, true)).append("x ").append(tokenizer.Bytes(id, true));
    text.append(" x  ");
  }
  try {
    return fmt::format("{}", fmt::join(tokenizer.Encode(text, {}), " "));
  } catch (const tokenizer::EncodingError& error) {
    return error.what();
  }
}

}  // namespace

std::optional<KeptHistory> FindHistory(const tokenizer::Tokenizer& tokenizer,
                                       const store::SessionState& session, std::string_view text) {
  KeptHistory kept;
  const size_t all = session.ids.size();
  const size_t without_end = all - static_cast<size_t>(session.end_ids);
  std::optional<KeptHistory> before_end;
  std::optional<TokenId> last;
  for (; kept.ids < all; ++kept.ids) {
    if (kept.ids == without_end) before_end = kept;
    const TokenId id = session.ids[kept.ids];
    const std::optional<size_t> bytes = tokenizer.Covers(text.substr(kept.bytes), id, last);
    if (!bytes) return before_end;
    kept.bytes += *bytes;
    last = id;
  }
  return kept;
}

void KeepAnswer(const tokenizer::Tokenizer& tokenizer, const std::function<bool(TokenId)>& hidden,
                size_t prompt_ids, const std::string& answer, store::SessionState* next) {
  const std::string_view shown = answer;
  size_t bytes = 0;
  size_t kept = prompt_ids;
  size_t end_ids = 0;
  for (; kept < next->ids.size(); ++kept) {
    const TokenId id = next->ids[kept];
    if (hidden(id)) {
      ++end_ids;
      continue;
    }
    const std::string_view text = tokenizer.Bytes(id);
    if (shown.substr(bytes, text.size()) != text) break;
    bytes += text.size();
    end_ids = 0;
  }
  next->tail = shown.substr(bytes);
  if (kept < next->ids.size()) {
    // What was cut off may have followed ids without a text: they are no end.
    end_ids = 0;
    next->ids.resize(kept);
  }
  if (next->kind == store::SessionState::Kind::kText) {
    next->ids.resize(next->ids.size() - end_ids);
    end_ids = 0;
  }
  next->end_ids = static_cast<int32_t>(end_ids);
}

std::string VocabularyDigest(const tokenizer::Tokenizer& tokenizer) {
  std::string all = EncodingOf(tokenizer) + '\n';
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.Bytes(id, true);
    all += fmt::format("{}:", bytes.size());
    all += bytes;
    all += static_cast<char>('0' + (tokenizer.IsSpecial(id) ? 1 : 0) +
                             (tokenizer.IsEnd(id) ? 2 : 0) + (tokenizer.IsUnused(id) ? 4 : 0));
  }
  return fmt::format("{:016x}", store::Checksum(all));
}

}  // namespace ropeway::engine
