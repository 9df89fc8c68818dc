// What an API key may use: unfinished requests, and tokens per minute; and what it has used.
#ifndef ROPEWAY_SERVER_KEY_LIMITS_H_
#define ROPEWAY_SERVER_KEY_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "ropeway/status.h"
#include "server/server_options.h"

namespace ropeway::server {

class KeyAccount;

// What one HTTP request asks of its key.
struct KeyDemand {
  size_t prompts = 1;
  size_t n = 1;               // Choices of each prompt.
  int64_t prompt_tokens = 0;  // All prompts together, about.
  int64_t max_tokens = 1;     // That each choice may generate; 0: prompts are all there is.
  bool as_one = false;        // All choices together count as one request.

  size_t choices() const { return prompts * n; }
};

// One choice's share of the limits of its key, released when the choice ends, whatever the end.
// Thread rule: one thread at a time; distinct tickets of a key may be used by distinct threads.
class KeyTicket {
 public:
  KeyTicket();  // Counts nothing.
  ~KeyTicket();
  KeyTicket(KeyTicket&& other) noexcept;
  KeyTicket& operator=(KeyTicket&& other) noexcept;

  // Charges the prompt, which was encoded and is queued now. If the key has not so many tokens,
  // nothing is charged and the request must end: kResourceExhausted, or kInvalidArgument (`prompt`)
  // if it will never have them.
  Status Admitted(int32_t prompt_tokens);
  // Charges tokens that were generated. False: the key has none left for this choice, which is to
  // end.
  bool Generated(int64_t tokens);
  // Returns the prompt's tokens: the request ended before it ran.
  void RefundPrompt();
  // Ends the request, which generated so many tokens in all. Further calls have no effect.
  void End(int64_t completion_tokens);

 private:
  friend class KeyLimits;
  // The tokens that are put aside for the choices of one HTTP request.
  struct Reserve {
    int64_t tokens = 0;
    size_t tickets = 0;   // That may use them.
    bool as_one = false;  // The tickets count as one request.
  };
  friend class KeyAccount;

  KeyTicket(std::shared_ptr<KeyAccount> account, std::shared_ptr<Reserve> reserve,
            bool counts_prompt);

  std::shared_ptr<KeyAccount> account_;  // Null: counts nothing (any more).
  std::shared_ptr<Reserve> reserve_;     // Under the account's lock.
  bool counts_prompt_ = false;           // Prompts with several choices count once.
  int32_t prompt_tokens_ = 0;            // Charged so far.
  int64_t generated_tokens_ = 0;         // Charged so far.
};

// What one key has used since the start, and uses.
struct KeyUsage {
  std::string name;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t requests = 0;  // Under way; each choice is one.
};

// The limits of all keys. Tokens are a token bucket that holds one minute's tokens and fills
// steadily; it never owes any, except for what the steps under way generate. So in any t minutes a
// key gets at most t + 1 times its tokens per minute: its limit and one burst.
//
// A request may start if the bucket holds enough beyond what is put aside for others: its prompt
// (as estimated from its length) and a share of the bucket, or all that it may generate if that is
// less. That much is put aside for it until it is used, or until the request ends. It is charged
// for its prompt when that is encoded, and for each token as it is generated. What it needs beyond
// its own share it takes from what is not put aside; where nothing is left, it ends.
//
// Thread rule: any thread.
class KeyLimits {
 public:
  static constexpr size_t kMostWithoutKey = 1000;

  KeyLimits(const std::vector<ApiKey>& keys, std::shared_ptr<const base::Clock> clock);
  ~KeyLimits();
  KeyLimits(const KeyLimits&) = delete;
  KeyLimits& operator=(const KeyLimits&) = delete;

  // Replaces the keys. A name that stays keeps what it has used, under its new limits. A name that
  // goes keeps it too, for its requests under way and in case it comes back. Beyond kMostWithoutKey
  // such names, the ones longest without a key are forgotten, unless they have requests under way
  // or their bucket is not full. Where it throws, nothing is changed.
  void Replace(const std::vector<ApiKey>& keys);

  struct Grant {
    // If not OK, nothing was taken. kResourceExhausted: may succeed later; kInvalidArgument (`n`):
    // never, the request has more choices than the key may have unfinished requests.
    Status status;
    // The limit that was hit, as OpenAI's error type: "requests" or "tokens".
    const char* limit = "";
    // Until there are tokens again; 0 for a limit of requests: when one of them ends.
    int retry_after_seconds = 0;
    std::vector<KeyTicket> tickets;  // One for each choice; a prompt's choices follow each other.
  };
  // Takes tickets for a request of `tenant`, a key's name. All or none. The tickets may outlive
  // this object.
  Grant Take(const std::string& tenant, const KeyDemand& demand);

  // Whether a key has this name.
  bool Has(const std::string& tenant) const;

  // OpenAI's headers for the token limit as of now; none for a key without one.
  std::vector<std::pair<std::string, std::string>> Headers(const std::string& tenant) const;

  // Whether it has a key, or had one and is not forgotten.
  bool Remembers(const std::string& tenant) const { return Find(tenant) != nullptr; }

  // The usage of all tenants that are remembered, by name.
  std::vector<KeyUsage> Usage() const;

 private:
  struct Entry {
    std::shared_ptr<KeyAccount> account;
    int64_t last = 0;  // The last change whose keys had it: now it has a key if that is changes_.
  };
  using Accounts = std::map<std::string, Entry>;  // By name.
  // `accounts`: a copy of accounts_, with the new ones, as of a change. REQUIRES: mutex_ is held.
  static void Forget(int64_t change, Accounts* accounts);
  // Null where no key has had the name, or it is forgotten.
  std::shared_ptr<KeyAccount> Find(const std::string& tenant) const;

  const std::shared_ptr<const base::Clock> clock_;
  mutable std::mutex mutex_;
  Accounts accounts_;    // GUARDED_BY(mutex_)
  int64_t changes_ = 0;  // How often the keys changed. GUARDED_BY(mutex_)
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_KEY_LIMITS_H_
