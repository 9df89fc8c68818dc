#include "server/submission.h"

#include <utility>

#include "base/random.h"

namespace ropeway {

Submission::~Submission() { CancelAll(); }

void Submission::CancelAll() {
  for (Choice& choice : choices_) {
    choice.sink->Close();
    if (!choice.ended) backend_->Cancel(choice.id);
  }
  choices_.clear();
}

Status Submission::SubmitOne(Request request, KeyTicket ticket, const SinkMaker& make_sink) {
  std::shared_ptr<ServerSink> sink = make_sink();
  sink->SetTicket(std::move(ticket));
  StatusOr<RequestId> id = backend_->Submit(std::move(request), sink);
  if (!id.ok()) return id.status();
  choices_.push_back({*id, std::move(sink), false});
  return {};
}

Status Submission::Submit(ApiRequest api, std::vector<KeyTicket> tickets,
                          const SinkMaker& make_sink) {
  tenant_ = api.request.tenant;
  // One alone gets its seed from the backend.
  if (api.choices() > 1 && !api.request.sampling.seed) {
    api.request.sampling.seed = SystemRandom().Next64();
  }
  choices_.reserve(api.choices());  // Nothing may fail once the backend has a request.
  for (Prompt& prompt : api.prompts) {
    for (int32_t k = 0; k < api.n; ++k) {
      Request request = api.request;
      request.choice = static_cast<uint32_t>(k);
      // A chat's answer shows its prompt's log-probabilities once.
      if (api.chat && k > 0 && request.max_tokens != 0) request.prompt_logprobs.reset();
      if (k + 1 < api.n) {
        request.prompt = prompt;
      } else {
        request.prompt = std::move(prompt);
      }
      Status status = SubmitOne(std::move(request), std::move(tickets[choices_.size()]), make_sink);
      if (status.ok()) continue;
      CancelAll();
      return status;
    }
  }
  return {};
}

ServerSink::Output Submission::Take(size_t choice) {
  ServerSink::Output output = choices_[choice].sink->Take();
  if (output.end) choices_[choice].ended = true;
  return output;
}

}  // namespace ropeway
