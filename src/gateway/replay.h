// An answer that is computed anew because nothing could go on from what its client has of it: what
// the client has is compared, and passed over.
#ifndef ROPEWAY_GATEWAY_REPLAY_H_
#define ROPEWAY_GATEWAY_REPLAY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "ropeway/request.h"

namespace ropeway::gateway {

// What a client was given.
struct GivenOutput {
  std::string text;
  uint64_t tokens = 0;
};

// Thread rule: one thread at a time.
class Replay {
 public:
  // `shows_tokens`: the client sees tokens, not the text alone; then they are to be as many, too.
  Replay(GivenOutput given, bool shows_tokens)
      : given_(std::move(given)), shows_tokens_(shows_tokens) {}

  // Takes off `delta` what the client has. Returns false if it is something else: the rest of this
  // answer would not fit.
  bool Skip(Delta* delta);
  // All that the client has has come again.
  bool done() const;

 private:
  const GivenOutput given_;
  const bool shows_tokens_;
  uint64_t bytes_ = 0;  // That came again, as did the next.
  uint64_t tokens_ = 0;
};

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_REPLAY_H_
