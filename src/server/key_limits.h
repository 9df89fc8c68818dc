// What one API key may take at a time: requests under way, and tokens per minute.
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

namespace ropeway {

class KeyAccount;

// One request's place among those of its key. Gives it back when it ends, whatever way that is.
// Thread rule: used by one thread at a time; distinct ones of a key by distinct threads.
class KeyTicket {
 public:
  KeyTicket();  // Of a key without limits: nothing is counted.
  // Counts in `account`. `counts_prompt`: whether its prompt's tokens do; those of a prompt with
  // several choices count once.
  KeyTicket(std::shared_ptr<KeyAccount> account, bool counts_prompt);
  ~KeyTicket();
  KeyTicket(KeyTicket&& other) noexcept;
  KeyTicket& operator=(KeyTicket&& other) noexcept;

  // The request is queued with a prompt of so many tokens.
  void Admitted(int32_t prompt_tokens);
  // The request ended before it ran: its prompt's tokens are given back.
  void GiveBackPrompt();
  // The request ended after so many generated tokens. Whatever is called after it has no effect.
  void End(int32_t completion_tokens);

 private:
  std::shared_ptr<KeyAccount> account_;  // Null: nothing is counted, or any more.
  bool counts_prompt_ = false;
  int32_t charged_ = 0;  // For its prompt.
};

// Tokens are kept in a token bucket, which holds one minute's tokens and fills steadily. A request
// may start while there is any token in it, and takes what its prompt has when it is queued and
// what it generated when it ends; it may leave less than nothing, which has to fill up first. So
// over time no key gets more than its tokens per minute, and no request is refused for its size.
//
// Thread rule: any thread.
class KeyLimits {
 public:
  KeyLimits(const std::vector<ApiKey>& keys, std::shared_ptr<const Clock> clock);
  ~KeyLimits();
  KeyLimits(const KeyLimits&) = delete;
  KeyLimits& operator=(const KeyLimits&) = delete;

  struct Admission {
    // Not OK: nothing was taken. kResourceExhausted: later; kInvalidArgument (`n`): never, there
    // are more requests than the key may have under way.
    Status status;
    // OpenAI's type of the error: which limit refused, "requests" or "tokens".
    const char* limit = "";
    // After which there are tokens again; 0 for a limit of requests: when one of them ends.
    int retry_after_seconds = 0;
    std::vector<KeyTicket> tickets;  // One a request.
  };
  // Whether `tenant`, a key's name, may begin with `prompts` times `n` requests now, of which each
  // n share a prompt. All or none. The tickets may outlive this object.
  Admission Admit(const std::string& tenant, size_t prompts, size_t n);

  // OpenAI's headers of the tokens' limit as it stands now; none for a key without it.
  std::vector<std::pair<std::string, std::string>> Headers(const std::string& tenant) const;

 private:
  // Of the keys that have limits, by name; never changes.
  std::map<std::string, std::shared_ptr<KeyAccount>> accounts_;
};

}  // namespace ropeway

#endif  // ROPEWAY_SERVER_KEY_LIMITS_H_
