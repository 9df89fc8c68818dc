// What an API key grants its requests, and the limits of a key: unfinished requests, and tokens per
// minute.
#ifndef ROPEWAY_SERVER_KEY_LIMITS_H_
#define ROPEWAY_SERVER_KEY_LIMITS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway::server {

class KeyAccount;

// One request's share of the limits of its key, released when the request ends, whatever the end.
// Thread rule: one thread at a time; distinct tickets of a key may be used by distinct threads.
class KeyTicket {
 public:
  KeyTicket();  // Of a key without limits: counts nothing.
  // `counts_prompt`: whether the prompt's tokens count; those of a prompt with several choices
  // count once.
  KeyTicket(std::shared_ptr<KeyAccount> account, bool counts_prompt);
  ~KeyTicket();
  KeyTicket(KeyTicket&& other) noexcept;
  KeyTicket& operator=(KeyTicket&& other) noexcept;

  // Charges the prompt of a request that was queued.
  void Admitted(int32_t prompt_tokens);
  // Returns the prompt's tokens: the request ended before it ran.
  void RefundPrompt();
  // Ends the request after so many generated tokens. Further calls have no effect.
  void End(int32_t completion_tokens);

 private:
  std::shared_ptr<KeyAccount> account_;  // Null: counts nothing (any more).
  bool counts_prompt_ = false;
  int32_t charged_ = 0;  // For the prompt.
};

// The limits of all keys. Tokens are a token bucket that holds one minute's tokens and fills
// steadily. A request may start while the bucket holds a token; it is charged for its prompt when
// it is queued and for what it generated when it ends, which may leave a debt to fill up first. So
// over time no key gets more than its tokens per minute, and no request is rejected for its size.
//
// Thread rule: any thread.
class KeyLimits {
 public:
  KeyLimits(const std::vector<ApiKey>& keys, std::shared_ptr<const base::Clock> clock);
  ~KeyLimits();
  KeyLimits(const KeyLimits&) = delete;
  KeyLimits& operator=(const KeyLimits&) = delete;

  struct Grant {
    // If not OK, nothing was taken. kResourceExhausted: may succeed later; kInvalidArgument (`n`):
    // never, the request has more choices than the key may have unfinished requests.
    Status status;
    // The limit that was hit, as OpenAI's error type: "requests" or "tokens".
    const char* limit = "";
    // Until there are tokens again; 0 for a limit of requests: when one of them ends.
    int retry_after_seconds = 0;
    std::vector<KeyTicket> tickets;  // One for each request.
  };
  // Takes tickets for `prompts` times `n` requests of `tenant`, a key's name; each n requests share
  // a prompt. All or none. The tickets may outlive this object.
  Grant Take(const std::string& tenant, size_t prompts, size_t n);

  // OpenAI's headers for the token limit as of now; none for a key without one.
  std::vector<std::pair<std::string, std::string>> Headers(const std::string& tenant) const;

 private:
  // Of the keys with limits, by name; never changes.
  std::map<std::string, std::shared_ptr<KeyAccount>> accounts_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_KEY_LIMITS_H_
