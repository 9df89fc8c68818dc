// Pieces of output, one after the other, as one.
#ifndef ROPEWAY_SERVER_DELTA_MERGE_H_
#define ROPEWAY_SERVER_DELTA_MERGE_H_

#include <cstddef>
#include <vector>

#include "api/api_format.h"
#include "ropeway/request.h"

namespace ropeway::server {

// The approximate sizes in memory: of a piece, of what the model says in it, as text or as an
// embedding, and of tokens.
size_t MemoryOf(const Delta& delta);
size_t MemoryOfSaid(const Delta& delta);
size_t MemoryOf(const std::vector<OutputToken>& tokens);

// Puts a piece behind what came before it; pieces of one call of a tool become one. Without
// `keep_tokens` only the prompt's tokens are kept.
void Append(Delta more, bool keep_tokens, Delta* all);

// A choice's whole output.
api::ChoiceOutput OutputOf(Delta all, const Finish& finish);
api::ChoiceOutput OutputOf(const std::vector<Delta>& pieces, const Finish& finish);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_DELTA_MERGE_H_
