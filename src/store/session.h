// The state of a session between two turns, and its records.
#ifndef ROPEWAY_STORE_SESSION_H_
#define ROPEWAY_STORE_SESSION_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::store {

// XXH3, 64 bits: detects accidents, not attacks.
uint64_t Checksum(std::string_view bytes);

// Packs numbers little-endian, and texts and lists after their lengths.
class RecordWriter {
 public:
  void Number(uint64_t value);
  void Text(std::string_view text);
  void Ids(std::span<const TokenId> ids);

  // The packed bytes, followed by their checksum.
  std::string Seal() &&;

 private:
  std::string bytes_;
};

// Unpacks in the order of packing. A record that is torn, changed, or shorter or longer than the
// values read from it is not ok(); values read from it are then meaningless.
class RecordReader {
 public:
  // `record` must outlive the reader.
  explicit RecordReader(std::string_view record);

  uint64_t Number();
  std::string Text();
  std::vector<TokenId> Ids();
  // A number of elements of at least `least_bytes` each; 0 if so many cannot follow.
  size_t Count(size_t least_bytes);

  // Whether the record is valid and was read completely.
  bool ok() const { return !broken_ && bytes_.empty(); }

 private:
  std::string_view Take(size_t bytes);

  std::string_view bytes_;  // The unread rest.
  bool broken_ = false;
};

// The state that the next turn continues. An engine's goes on from token ids. A gateway's has none,
// for it knows no vocabulary: `vocabulary` and `ids` are empty, a chat is its messages, a text is
// `tail` alone, and the next turn is sent to a backend with all of it.
struct SessionState {
  enum class Kind : uint8_t {
    kChat,  // Turns are messages.
    kText,  // Turns are text or token ids.
  };

  Kind kind = Kind::kText;
  // The digest of the vocabulary of `ids`.
  std::string vocabulary;
  // The prompt of the last turn and the tokens sampled for it.
  std::vector<TokenId> ids;
  // How many of the last ids (0 or 1) ended the answer and have no text: a template may end a
  // message differently.
  int32_t end_ids = 0;
  // Text after the ids: the rest of a token that a stop string cut.
  std::string tail;
  std::vector<ChatMessage> messages;  // kChat: all so far, including the model's answers.
  // Without ids: how many tokens the history has, as far as known. The head keeps it, not the
  // state's record.
  int64_t tokens = 0;

  int64_t num_tokens() const { return ids.empty() ? tokens : static_cast<int64_t>(ids.size()); }
};

// kInvalidArgument if a turn of `kind` cannot go on from `before`, the state of the session `id`.
Status CheckKind(const std::string& id, const SessionState& before, SessionState::Kind kind);

// A session's key in the store, unique per pair.
std::string SessionKey(const std::string& tenant, const std::string& id);
// The pair of a key; false if `key` is not one.
bool ParseSessionKey(std::string_view key, std::string* tenant, std::string* id);

// The data for the list of sessions, small enough to be read for all sessions at start. It has its
// own record.
struct SessionHead {
  int64_t created_ms = 0;       // Unix time.
  int64_t last_used_ms = 0;     // Unix time when the last turn ended.
  int64_t expires_ms = 0;       // Unix time.
  int64_t turns = 0;            // 0: no state yet.
  int64_t tokens = 0;           // SessionState::num_tokens.
  uint64_t state_bytes = 0;     // The size of the state's record.
  uint64_t state_checksum = 0;  // The record's checksum, which binds head and state together.
};

// Both contain `key`, which detects a record under another session's key. The results are sealed
// (RecordWriter).
std::string PackHead(const std::string& key, const SessionHead& head);
std::string PackState(const std::string& key, const SessionState& state);

// kDataLoss, with the reason, for a record that is torn, changed, another session's or of an
// unknown version.
StatusOr<SessionHead> UnpackHead(const std::string& key, std::string_view record);
StatusOr<SessionState> UnpackState(const std::string& key, const SessionHead& head,
                                   std::string_view record);

}  // namespace ropeway::store

#endif  // ROPEWAY_STORE_SESSION_H_
