// The relation of a session's token ids to its text.
#ifndef ROPEWAY_ENGINE_SESSION_TEXT_H_
#define ROPEWAY_ENGINE_SESSION_TEXT_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "store/session.h"
#include "tokenizer/tokenizer.h"

namespace ropeway::engine {

// The beginning of a text that a session's ids decode to.
struct KeptHistory {
  size_t ids = 0;    // The number of the session's first ids.
  size_t bytes = 0;  // The number of the text's first bytes, which those ids decode to.
};

// For a chat that continues: the ids of `session` that stand for the beginning of `text`, the whole
// chat rendered anew. All of them; or all but those that ended the answer, where the template ends
// a message otherwise. Nullopt where the text does not begin so: the template changes its history,
// or the model wrote what does not come back (special tokens, bytes that are no UTF-8).
std::optional<KeptHistory> FindHistory(const tokenizer::Tokenizer& tokenizer,
                                       const store::SessionState& session, std::string_view text);

// Ends a turn: of `next->ids` those from `prompt_ids` on were generated and are kept as they were
// sampled, as far as they stand for `answer`, the text that was shown. What a stop string cut off
// is dropped; what it left of a token that it cut becomes the tail. `hidden` says which ids show no
// text.
void KeepAnswer(const tokenizer::Tokenizer& tokenizer, const std::function<bool(TokenId)>& hidden,
                size_t prompt_ids, const std::string& answer, store::SessionState* next);

// Identifies a vocabulary, and how it encodes: ids of one mean nothing in another, and a session
// does not go on from a text whose beginning was encoded otherwise.
std::string VocabularyDigest(const tokenizer::Tokenizer& tokenizer);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_SESSION_TEXT_H_
