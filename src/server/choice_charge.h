// What one choice of a request costs its API key.
#ifndef ROPEWAY_SERVER_CHOICE_CHARGE_H_
#define ROPEWAY_SERVER_CHOICE_CHARGE_H_

#include <cstddef>
#include <cstdint>

#include "ropeway/backend.h"
#include "server/answer_source.h"
#include "server/key_limits.h"

namespace ropeway::server {

// Charges the key for a choice as the backend's calls of its sink come. Thread rule: those calls'.
class ChoiceCharge {
 public:
  ChoiceCharge() = default;  // Charges nothing.
  // `resumed`: the number of tokens that another server generated; it has charged them, and the
  // prompt.
  ChoiceCharge(KeyTicket ticket, size_t resumed)
      : ticket_(std::move(ticket)), resumed_(static_cast<int64_t>(resumed)) {}

  // As KeyTicket::Admitted.
  Status Admitted(const Admission& admission);
  // False: the key has no more tokens for it.
  bool Generated(int64_t tokens);
  // How it ended for its client: one that was admitted and is cancelled has an answer so far, and
  // one that the key's limit has cut ends as by max_tokens.
  Outcome Ended(const Outcome& outcome);

 private:
  KeyTicket ticket_;
  int64_t resumed_ = 0;
  bool admitted_ = false;
  int64_t generated_ = 0;  // Tokens.
  bool limited_ = false;   // The key had no more tokens.
};

// What the end of an answer tells.
AnswerFacts FactsOf(const Finish& finish);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_CHOICE_CHARGE_H_
