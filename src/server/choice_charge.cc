#include "server/choice_charge.h"

#include <algorithm>

namespace ropeway::server {

Status ChoiceCharge::Admitted(const Admission& admission) {
  admitted_ = true;
  return resumed_ == 0 ? ticket_.Admitted(admission.prompt_tokens) : Status();
}

bool ChoiceCharge::Generated(int64_t tokens) {
  generated_ += tokens;
  if (!ticket_.Generated(tokens)) limited_ = true;
  return !limited_;
}

Outcome ChoiceCharge::Ended(const Outcome& outcome) {
  const Finish& finish = outcome.finish;
  const bool cancelled = finish.reason == FinishReason::kCancelled;
  const bool answered = outcome.status.ok() || (cancelled && admitted_);
  if (!answered) {
    ticket_.End(generated_);
    return outcome;
  }
  if (cancelled && finish.batch_num == 0 && generated_ == 0) ticket_.RefundPrompt();
  ticket_.End(std::max(int64_t{finish.usage.completion_tokens} - resumed_, generated_));
  Outcome end = Outcome::Ended(finish);
  if (limited_ && cancelled) {
    end.finish.reason = FinishReason::kLength;
    end.finish.cut_by = kTokensPerMinute;
  }
  return end;
}

AnswerFacts FactsOf(const Finish& finish) {
  return {true,
          finish.usage.prompt_tokens,
          finish.usage.cached_tokens,
          finish.usage.completion_tokens,
          finish.times.queue,
          finish.times.queue + finish.times.prefill};
}

}  // namespace ropeway::server
