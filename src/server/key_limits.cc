#include "server/key_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

namespace ropeway::server {

// The unfinished requests of one key, and its bucket.
class KeyAccount {
 public:
  KeyAccount(const ApiKey& key, std::shared_ptr<const base::Clock> clock)
      : clock_(std::move(clock)),
        max_requests_(key.max_concurrent_requests),
        tokens_per_minute_(key.tokens_per_minute),
        tokens_(static_cast<double>(tokens_per_minute_)),
        filled_at_(clock_->Now()) {}

  // Takes slots for `count` requests, or returns why not.
  KeyLimits::Grant Take(int64_t count) {
    const std::lock_guard lock(mutex_);
    KeyLimits::Grant grant;
    if (max_requests_ > 0 && count > max_requests_) {
      grant.status = InvalidArgument(
          fmt::format("This request asks for {} answers at once, but this API key may have at most "
                      "{} requests under way.",
                      count, max_requests_),
          "n");
    } else if (max_requests_ > 0 && requests_ + count > max_requests_) {
      grant.limit = "requests";
      grant.status = {StatusCode::kResourceExhausted,
                      fmt::format("This API key may have at most {} requests under way (its "
                                  "max_concurrent_requests); it has {}.",
                                  max_requests_, requests_)};
    } else if (tokens_per_minute_ > 0 && Fill() < 1) {
      const double per_second = static_cast<double>(tokens_per_minute_) / 60;
      const double wait = std::min(std::ceil((1 - tokens_) / per_second), kLongestWait);
      grant.limit = "tokens";
      grant.retry_after_seconds = std::max(1, static_cast<int>(wait));
      grant.status = {
          StatusCode::kResourceExhausted,
          fmt::format("This API key's {} tokens per minute (its tokens_per_minute) are used up; "
                      "try again in {} s.",
                      tokens_per_minute_, grant.retry_after_seconds)};
    } else {
      requests_ += count;
    }
    return grant;
  }

  void Release() {
    const std::lock_guard lock(mutex_);
    --requests_;
  }

  void Charge(int32_t tokens) {
    if (tokens_per_minute_ == 0) return;
    const std::lock_guard lock(mutex_);
    Fill();
    tokens_ -= tokens;
  }

  // The limit and what is left of it; absent without such a limit.
  std::optional<std::pair<int64_t, int64_t>> LimitAndRest() {
    if (tokens_per_minute_ == 0) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return std::pair(tokens_per_minute_, static_cast<int64_t>(std::max(0.0, std::floor(Fill()))));
  }

 private:
  static constexpr double kLongestWait = 86'400;  // Seconds; a longer time would not help a client.

  // Fills the bucket up to now and returns its level. REQUIRES: mutex_ is held.
  double Fill() {
    const base::TimePoint now = clock_->Now();
    const auto full = static_cast<double>(tokens_per_minute_);
    tokens_ = std::min(full, tokens_ + full * base::ToSeconds(now - filled_at_) / 60);
    filled_at_ = now;
    return tokens_;
  }

  const std::shared_ptr<const base::Clock> clock_;
  const int64_t max_requests_;       // 0: no limit.
  const int64_t tokens_per_minute_;  // Likewise.
  std::mutex mutex_;
  int64_t requests_ = 0;
  double tokens_;              // Negative: a debt.
  base::TimePoint filled_at_;  // When tokens_ was computed.
};

KeyTicket::KeyTicket() = default;

KeyTicket::KeyTicket(std::shared_ptr<KeyAccount> account, bool counts_prompt)
    : account_(std::move(account)), counts_prompt_(counts_prompt) {}

KeyTicket::~KeyTicket() { End(0); }

KeyTicket::KeyTicket(KeyTicket&& other) noexcept = default;

KeyTicket& KeyTicket::operator=(KeyTicket&& other) noexcept {
  if (this == &other) return *this;
  End(0);
  account_ = std::move(other.account_);
  counts_prompt_ = other.counts_prompt_;
  charged_ = other.charged_;
  return *this;
}

void KeyTicket::Admitted(int32_t prompt_tokens) {
  if (account_ == nullptr || !counts_prompt_) return;
  charged_ = prompt_tokens;
  account_->Charge(prompt_tokens);
}

void KeyTicket::RefundPrompt() {
  if (account_ != nullptr) account_->Charge(-charged_);
  charged_ = 0;
}

void KeyTicket::End(int32_t completion_tokens) {
  if (account_ == nullptr) return;
  if (completion_tokens > 0) account_->Charge(completion_tokens);
  account_->Release();
  account_.reset();
}

KeyLimits::KeyLimits(const std::vector<ApiKey>& keys, std::shared_ptr<const base::Clock> clock) {
  for (const ApiKey& key : keys) {
    if (key.max_concurrent_requests == 0 && key.tokens_per_minute == 0) continue;
    accounts_[key.name] = std::make_shared<KeyAccount>(key, clock);
  }
}

KeyLimits::~KeyLimits() = default;

KeyLimits::Grant KeyLimits::Take(const std::string& tenant, size_t prompts, size_t n) {
  const size_t count = prompts * n;
  std::vector<KeyTicket> tickets(count);  // Nothing may fail once the account has counted them.
  const auto found = accounts_.find(tenant);
  Grant grant;
  if (found != accounts_.end()) {
    grant = found->second->Take(static_cast<int64_t>(count));
    if (!grant.status.ok()) return grant;
    for (size_t i = 0; i < count; ++i) tickets[i] = KeyTicket(found->second, i % n == 0);
  }
  grant.tickets = std::move(tickets);
  return grant;
}

std::vector<std::pair<std::string, std::string>> KeyLimits::Headers(
    const std::string& tenant) const {
  const auto found = accounts_.find(tenant);
  if (found == accounts_.end()) return {};
  const auto tokens = found->second->LimitAndRest();
  if (!tokens) return {};
  return {{"x-ratelimit-limit-tokens", fmt::format("{}", tokens->first)},
          {"x-ratelimit-remaining-tokens", fmt::format("{}", tokens->second)}};
}

}  // namespace ropeway::server
