// An answer that is computed anew because nothing could go on from what its client has of it: what
// the client has is compared, and passed over.
#ifndef ROPEWAY_GATEWAY_REPLAY_H_
#define ROPEWAY_GATEWAY_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ropeway/request.h"

namespace ropeway::gateway {

// What an answer says is one sequence of bytes: a delta's thoughts, then its text, then of each of
// its calls the name and the arguments. Each byte counts with the part that it belongs to, and a
// name has one more byte, its end. So pieces may be cut anywhere, and a cut behind a name differs
// from one within it. Ids of calls do not count: they differ from one run of a server to the next.
uint64_t SaidLength(const Delta& delta);
// Takes the first `length` of what `delta` says off it. A call whose name goes loses its id too: it
// goes on in its middle.
void SkipSaid(uint64_t length, Delta* delta);

// What a client was given, without the words themselves, which may be many.
struct GivenOutput {
  uint64_t length = 0;  // Of what was said.
  uint64_t hash = 0;    // Its hash.
  uint64_t tokens = 0;

  // Adds the first `most` of what `delta` says, and its tokens.
  void Add(const Delta& delta, uint64_t most = UINT64_MAX);
};

// Thread rule: one thread at a time.
class Replay {
 public:
  // `shows_tokens`: the client sees tokens, not words alone; then they are to be as many, too.
  Replay(GivenOutput given, bool shows_tokens)
      : given_(std::move(given)), shows_tokens_(shows_tokens) {}

  // Takes off `delta` what the client has. Returns false once all of that has come again and was
  // something else: the rest of this answer would not fit.
  bool Skip(Delta* delta);
  // All that the client has has come again.
  bool done() const;

 private:
  const GivenOutput given_;
  const bool shows_tokens_;
  GivenOutput again_;  // What came again.
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_REPLAY_H_
