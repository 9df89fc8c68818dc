// A session's turn on its way through the engine's threads, as a part of its LiveRequest.
#ifndef ROPEWAY_ENGINE_LIVE_TURN_H_
#define ROPEWAY_ENGINE_LIVE_TURN_H_

#include <cstddef>
#include <string>

#include "store/session.h"
#include "store/session_store.h"

namespace ropeway {

struct LiveTurn {
  SessionTurn turn;  // Set before the request is shared; any thread may abandon it.

  // The front end's until LiveRequest::Stage::kEngine, then the output thread's.
  SessionState next;        // The session with this turn's prompt, and with what is generated.
  size_t prompt_ids = 0;    // Of next.ids, those before what is generated.
  int32_t session_ids = 0;  // Of the prompt's, those that the session had before.
  std::string answer;       // The text that was shown of what is generated.
};

}  // namespace ropeway

#endif  // ROPEWAY_ENGINE_LIVE_TURN_H_
