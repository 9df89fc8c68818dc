// An answer that is computed anew because nothing could go on from what its client has of it: what
// the client has is compared, and passed over.
#ifndef ROPEWAY_GATEWAY_REPLAY_H_
#define ROPEWAY_GATEWAY_REPLAY_H_

#include <cstdint>
#include <string_view>
#include <utility>

#include "ropeway/request.h"

namespace ropeway::gateway {

// What a client was given, without the text itself, which may be long.
struct GivenOutput {
  uint64_t bytes = 0;  // Bytes of text.
  uint64_t hash = 0;   // Their hash.
  uint64_t tokens = 0;

  void Add(std::string_view text, uint64_t more_tokens);
};

// Thread rule: one thread at a time.
class Replay {
 public:
  // `shows_tokens`: the client sees tokens, not the text alone; then they are to be as many, too.
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
