// What is kept of a session between two turns, and how it is written down.
#ifndef ROPEWAY_STORE_SESSION_H_
#define ROPEWAY_STORE_SESSION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway {

// All that the next turn goes on from.
struct SessionState {
  enum class Kind : uint8_t {
    kChat,  // Its turns are messages.
    kText,  // Its turns are text or token ids.
  };

  Kind kind = Kind::kText;
  // The digest of the vocabulary that `ids` are of: with another one they mean another text.
  std::string vocabulary;
  // The prompt of the last turn and what was generated for it, as it was sampled.
  std::vector<TokenId> ids;
  // So many of the last ids (0 or 1) ended the answer and show no text: a template may write
  // another end of a message.
  int32_t end_ids = 0;
  // Text that belongs behind the ids: what a stop string left of a token that it cut.
  std::string tail;
  std::vector<ChatMessage> messages;  // kChat: all so far, the model's answers too.
};

// A session's name for the store: no two pairs have the same one.
std::string SessionKey(const std::string& tenant, const std::string& id);
// The pair that a key names; false where it is no key.
bool ParseSessionKey(std::string_view key, std::string* tenant, std::string* id);

// What the list of sessions needs, small enough to be read for all of them at start. A record of
// its own beside the state's.
struct SessionHead {
  int64_t created_ms = 0;    // Unix time, as are the next two.
  int64_t last_used_ms = 0;  // When the last turn ended.
  int64_t expires_ms = 0;
  int64_t turns = 0;            // 0: there is no state yet.
  int64_t tokens = 0;           // Of the state's ids.
  uint64_t state_bytes = 0;     // Of the state's record,
  uint64_t state_checksum = 0;  // and its checksum: head and state belong together.
};

// Both carry `key`, so that a record in another's place is found out. The replies are sealed
// (record.h).
std::string PackHead(const std::string& key, const SessionHead& head);
std::string PackState(const std::string& key, const SessionState& state);

// kDataLoss, with what is wrong, for a record that is torn, changed, another session's or of an
// unknown version.
StatusOr<SessionHead> UnpackHead(const std::string& key, std::string_view record);
StatusOr<SessionState> UnpackState(const std::string& key, const SessionHead& head,
                                   std::string_view record);

}  // namespace ropeway

#endif  // ROPEWAY_STORE_SESSION_H_
