#include "server/key_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "base/words.h"

namespace ropeway::server {
namespace {

// The part of a bucket that is put aside for a choice, so that it is not ended at its first token
// by others that take the rest. A larger one would let fewer requests run at once.
constexpr int64_t kReservedParts = 64;

constexpr double kLongestRetry = 86'400;  // Seconds; a longer time would not help a client.

}  // namespace

// The unfinished requests of one key, its bucket, and what it has used.
class KeyAccount {
 public:
  using Reserve = KeyTicket::Reserve;

  KeyAccount(const ApiKey& key, std::shared_ptr<const base::Clock> clock)
      : name_(key.name),
        clock_(std::move(clock)),
        max_requests_(key.max_concurrent_requests),
        tokens_per_minute_(key.tokens_per_minute),
        tokens_(static_cast<double>(tokens_per_minute_)),
        filled_at_(clock_->Now()) {}

  // What was used stays used; where there was no limit, nothing was.
  void SetLimits(const ApiKey& key) {
    const std::lock_guard lock(mutex_);
    Free();  // At the old rate up to now.
    max_requests_ = key.max_concurrent_requests;
    if (tokens_per_minute_ == key.tokens_per_minute) return;
    const auto full = static_cast<double>(key.tokens_per_minute);
    tokens_ = tokens_per_minute_ == 0 ? full : std::min(tokens_, full);
    tokens_per_minute_ = key.tokens_per_minute;
  }

  // Takes slots for the choices of `demand` and puts tokens aside for them, or returns why not.
  KeyLimits::Grant Take(const KeyDemand& demand, Reserve* reserve) {
    const auto count = demand.as_one ? 1 : static_cast<int64_t>(demand.choices());
    const std::lock_guard lock(mutex_);
    KeyLimits::Grant grant;
    if (max_requests_ > 0 && count > max_requests_) {
      grant.status = InvalidArgument(
          fmt::format("This request asks for {} answers at once, but this API key may have at most "
                      "{} under way.",
                      count, base::Counted(max_requests_, "request")),
          "n");
      return grant;
    }
    if (max_requests_ > 0 && requests_ + count > max_requests_) {
      grant.limit = "requests";
      grant.status = {StatusCode::kResourceExhausted,
                      fmt::format("This API key may have at most {} under way (its "
                                  "max_concurrent_requests); it has {}.",
                                  base::Counted(max_requests_, "request"), requests_)};
      return grant;
    }
    const int64_t needed = Needed(demand);
    if (tokens_per_minute_ > 0 && Free() < static_cast<double>(needed)) {
      grant.limit = "tokens";
      grant.retry_after_seconds = SecondsUntil(needed);
      grant.status = OutOfTokens(grant.retry_after_seconds);
      return grant;
    }
    requests_ += count;
    reserved_ += needed;
    reserve->tokens = needed;
    reserve->tickets = demand.choices();
    reserve->as_one = demand.as_one;
    return grant;
  }

  Status ChargePrompt(Reserve* reserve, int32_t tokens) {
    const std::lock_guard lock(mutex_);
    if (tokens_per_minute_ > 0 && tokens > tokens_per_minute_) {
      return InvalidArgument(
          fmt::format("The prompt has {} tokens, but this API key gets {} a minute (its "
                      "tokens_per_minute).",
                      tokens, tokens_per_minute_),
          "prompt");
    }
    const int64_t beyond = tokens - reserve->tokens;
    if (tokens_per_minute_ > 0 && beyond > 0 && Free() < static_cast<double>(beyond)) {
      return OutOfTokens(SecondsUntil(beyond));
    }
    prompt_tokens_ += tokens;
    Charge(reserve, tokens);
    return {};
  }

  // Whether there is one more for the same choice.
  bool ChargeGenerated(Reserve* reserve, int64_t tokens) {
    const std::lock_guard lock(mutex_);
    generated_tokens_ += tokens;
    Charge(reserve, tokens);
    return tokens_per_minute_ == 0 || reserve->tokens > 0 || Free() >= 1;
  }

  void RefundPrompt(int32_t tokens) {
    const std::lock_guard lock(mutex_);
    prompt_tokens_ -= tokens;
    tokens_ += tokens;  // What is too much runs over when it is filled.
  }

  void Release(Reserve* reserve) {
    const std::lock_guard lock(mutex_);
    if (!reserve->as_one) --requests_;
    if (--reserve->tickets > 0) return;
    if (reserve->as_one) --requests_;
    reserved_ -= reserve->tokens;
    reserve->tokens = 0;
  }

  // The limit and what is left of it; absent without such a limit.
  std::optional<std::pair<int64_t, int64_t>> LimitAndRest() {
    const std::lock_guard lock(mutex_);
    if (tokens_per_minute_ == 0) return std::nullopt;
    return std::pair(tokens_per_minute_, static_cast<int64_t>(std::max(0.0, std::floor(Free()))));
  }

  // Whether a new account would do as well, except for what has been used.
  bool Idle() {
    const std::lock_guard lock(mutex_);
    return requests_ == 0 &&
           (tokens_per_minute_ == 0 || Free() >= static_cast<double>(tokens_per_minute_));
  }

  KeyUsage Usage() {
    const std::lock_guard lock(mutex_);
    return {name_, prompt_tokens_, generated_tokens_, requests_};
  }

 private:
  // REQUIRES, of all of these: mutex_ is held.

  // What is put aside for a request: never more than the bucket holds.
  int64_t Needed(const KeyDemand& demand) const {
    if (tokens_per_minute_ == 0) return 0;
    const int64_t share = std::clamp(demand.max_tokens, int64_t{0},
                                     std::max(int64_t{1}, tokens_per_minute_ / kReservedParts));
    // A product of two numbers below 10^6 and 10^12, and a sum that no body reaches.
    const int64_t generated = share * static_cast<int64_t>(demand.choices());
    return std::min(tokens_per_minute_, demand.prompt_tokens + generated);
  }

  // Takes tokens of the request's own first.
  void Charge(Reserve* reserve, int64_t tokens) {
    const int64_t own = std::min(tokens, reserve->tokens);
    reserve->tokens -= own;
    reserved_ -= own;
    tokens_ -= static_cast<double>(tokens);
  }

  // Fills the bucket up to now and returns what is not put aside.
  double Free() {
    const base::TimePoint now = clock_->Now();
    const auto full = static_cast<double>(tokens_per_minute_);
    tokens_ = std::min(full, tokens_ + full * base::ToSeconds(now - filled_at_) / 60);
    filled_at_ = now;
    return tokens_ - static_cast<double>(reserved_);
  }

  // Until so many are free, if what is put aside is used.
  int SecondsUntil(int64_t tokens) {
    const double per_second = static_cast<double>(tokens_per_minute_) / 60;
    const double missing = static_cast<double>(tokens) - Free();
    const double wait = std::min(std::ceil(missing / per_second), kLongestRetry);
    return std::max(1, static_cast<int>(wait));
  }

  Status OutOfTokens(int retry_after_seconds) const {
    Status status(
        StatusCode::kResourceExhausted,
        fmt::format("This API key's {} tokens per minute (its tokens_per_minute) are used up or "
                    "reserved for its requests under way; try again in {} s.",
                    tokens_per_minute_, retry_after_seconds));
    status.set_retry_after_seconds(retry_after_seconds);
    return status;
  }

  const std::string name_;
  const std::shared_ptr<const base::Clock> clock_;
  std::mutex mutex_;           // Guards all below.
  int64_t max_requests_;       // 0: no limit.
  int64_t tokens_per_minute_;  // 0: no limit.
  int64_t requests_ = 0;
  double tokens_;              // In the bucket; below 0 by what the steps under way generate.
  int64_t reserved_ = 0;       // The part of tokens_ that is put aside.
  base::TimePoint filled_at_;  // When tokens_ was computed.
  int64_t prompt_tokens_ = 0;  // Used since the start.
  int64_t generated_tokens_ = 0;
};

KeyTicket::KeyTicket() = default;

KeyTicket::KeyTicket(std::shared_ptr<KeyAccount> account, std::shared_ptr<Reserve> reserve,
                     bool counts_prompt)
    : account_(std::move(account)), reserve_(std::move(reserve)), counts_prompt_(counts_prompt) {}

KeyTicket::~KeyTicket() { End(0); }

KeyTicket::KeyTicket(KeyTicket&& other) noexcept = default;

KeyTicket& KeyTicket::operator=(KeyTicket&& other) noexcept {
  if (this == &other) return *this;
  End(0);
  account_ = std::move(other.account_);
  reserve_ = std::move(other.reserve_);
  counts_prompt_ = other.counts_prompt_;
  prompt_tokens_ = other.prompt_tokens_;
  generated_tokens_ = other.generated_tokens_;
  return *this;
}

Status KeyTicket::Admitted(int32_t prompt_tokens) {
  if (account_ == nullptr || !counts_prompt_) return {};
  Status status = account_->ChargePrompt(reserve_.get(), prompt_tokens);
  if (status.ok()) prompt_tokens_ = prompt_tokens;
  return status;
}

bool KeyTicket::Generated(int64_t tokens) {
  if (account_ == nullptr || tokens == 0) return true;
  generated_tokens_ += tokens;
  return account_->ChargeGenerated(reserve_.get(), tokens);
}

void KeyTicket::RefundPrompt() {
  if (account_ != nullptr) account_->RefundPrompt(prompt_tokens_);
  prompt_tokens_ = 0;
}

void KeyTicket::End(int64_t completion_tokens) {
  if (account_ == nullptr) return;
  Generated(std::max(int64_t{0}, completion_tokens - generated_tokens_));
  account_->Release(reserve_.get());
  account_.reset();
  reserve_.reset();
}

KeyLimits::KeyLimits(const std::vector<ApiKey>& keys, std::shared_ptr<const base::Clock> clock)
    : clock_(std::move(clock)) {
  Replace(keys);
}

KeyLimits::~KeyLimits() = default;

void KeyLimits::Replace(const std::vector<ApiKey>& keys) {
  const std::lock_guard lock(mutex_);
  Accounts accounts = accounts_;
  const int64_t change = changes_ + 1;
  for (const ApiKey& key : keys) {
    Entry& entry = accounts[key.name];
    entry.last = change;
    if (entry.account == nullptr) entry.account = std::make_shared<KeyAccount>(key, clock_);
  }
  Forget(change, &accounts);
  // Nothing fails from here on.
  accounts_.swap(accounts);
  changes_ = change;
  for (const ApiKey& key : keys) accounts_.find(key.name)->second.account->SetLimits(key);
}

void KeyLimits::Forget(int64_t change, Accounts* accounts) {
  // A request between Find and its end holds the account; so do the two maps.
  constexpr int64_t kHolders = 2;
  size_t without_key = 0;
  std::vector<std::pair<int64_t, Accounts::iterator>> idle;
  for (auto it = accounts->begin(); it != accounts->end(); ++it) {
    const Entry& entry = it->second;
    if (entry.last == change) continue;
    ++without_key;
    if (entry.account.use_count() <= kHolders && entry.account->Idle()) {
      idle.emplace_back(entry.last, it);
    }
  }
  std::sort(idle.begin(), idle.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->first) < std::tie(b.first, b.second->first);
  });
  for (const auto& [last, it] : idle) {
    if (without_key <= kMostWithoutKey) return;
    accounts->erase(it);
    --without_key;
  }
}

bool KeyLimits::Has(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(tenant);
  return found != accounts_.end() && found->second.last == changes_;
}

std::shared_ptr<KeyAccount> KeyLimits::Find(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(tenant);
  return found == accounts_.end() ? nullptr : found->second.account;
}

KeyLimits::Grant KeyLimits::Take(const std::string& tenant, const KeyDemand& demand) {
  const size_t count = demand.choices();
  std::vector<KeyTicket> tickets(count);  // Nothing may fail once the account has counted them.
  const std::shared_ptr<KeyAccount> account = Find(tenant);
  Grant grant;
  if (account != nullptr) {
    auto reserve = std::make_shared<KeyTicket::Reserve>();
    grant = account->Take(demand, reserve.get());
    if (!grant.status.ok()) return grant;
    for (size_t i = 0; i < count; ++i) {
      tickets[i] = KeyTicket(account, reserve, i % demand.n == 0);
    }
  }
  grant.tickets = std::move(tickets);
  return grant;
}

std::vector<std::pair<std::string, std::string>> KeyLimits::Headers(
    const std::string& tenant) const {
  const std::shared_ptr<KeyAccount> account = Find(tenant);
  if (account == nullptr) return {};
  const auto tokens = account->LimitAndRest();
  if (!tokens) return {};
  return {{"x-ratelimit-limit-tokens", fmt::format("{}", tokens->first)},
          {"x-ratelimit-remaining-tokens", fmt::format("{}", tokens->second)}};
}

std::vector<KeyUsage> KeyLimits::Usage() const {
  std::vector<KeyUsage> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : accounts_) all.push_back(entry.account->Usage());
  return all;
}

}  // namespace ropeway::server
