#include "server/submission.h"

#include <algorithm>

#include "base/random.h"
#include "http/http_reply.h"
#include "server/delta_merge.h"

namespace ropeway::server {
namespace {

// As ChoiceCharge has it: a prompt that waited until it was cancelled costs nothing.
int32_t ComputedTokens(const Outcome& end) {
  const bool computed = end.status.ok() || end.finish.batch_num > 0;
  return computed ? end.finish.usage.prompt_tokens : 0;
}

}  // namespace

ServerSink::Output ServerSink::Take() {
  std::lock_guard lock(mutex_);
  Output taken = std::move(pending_);
  pending_ = Output{};
  pending_.admitted = taken.admitted;
  pending_bytes_ = 0;
  signalled_ = false;
  OnTaken();
  return taken;
}

ServerSink::Progress ServerSink::Look() {
  std::lock_guard lock(mutex_);
  signalled_ = false;
  const std::optional<Outcome>& end = pending_.end;
  return {pending_.admitted, end.has_value(), end.has_value() && !end->status.ok()};
}

void ServerSink::Close() {
  // Destroyed after the lock is released: the function may own objects that lock in turn.
  WakeFn dropped;
  Output unread;
  std::lock_guard lock(mutex_);
  dropped.swap(wake_);
  std::swap(unread, pending_);
}

// Tickets lock their key's account: not under this lock.

void ServerSink::ChargeAtEnd(KeyTicket ticket) {
  {
    std::lock_guard lock(mutex_);
    if (!computed_) {
      owing_ = std::move(ticket);
      return;
    }
  }
  if (*computed_ > 0) static_cast<void>(ticket.Admitted(*computed_));
}

void ServerSink::Signal(Wake why) {
  if (!wake_ || (signalled_ && why == Wake::kNews)) return;
  signalled_ = true;
  wake_(why);
}

void ServerSink::EndEarly(Status status) {
  if (!wake_ || ended_early_) return;
  ended_early_ = true;
  pending_.deltas.clear();
  pending_.held.Release();
  pending_.end = Outcome::Failed(std::move(status));
  Signal(Wake::kNews);
}

bool ServerSink::ended_early() {
  std::lock_guard lock(mutex_);
  return ended_early_;
}

bool ServerSink::cut() {
  std::lock_guard lock(mutex_);
  return cut_;
}

void ServerSink::SetBudget(std::shared_ptr<base::SharedBudget> answers, std::string tenant) {
  answers_ = std::move(answers);
  tenant_ = std::move(tenant);
}

bool ServerSink::Charge(size_t bytes) {
  pending_bytes_ += bytes;
  if (answers_ == nullptr || pending_bytes_ <= http::kFreeAnswerBytes) return true;
  const auto all = static_cast<int64_t>(pending_bytes_);
  base::SharedBudget::Hold& held = pending_.held;
  if (!held.taken()) return answers_->Take(tenant_, all, &held);
  // A delta may be empty, and what is held stays held, whatever others have taken since.
  return all <= held.amount() || held.Grow(all - held.amount());
}

std::optional<int32_t> ServerSink::queue_position() {
  std::lock_guard lock(mutex_);
  return queue_position_;
}

AnswerFacts ServerSink::facts() {
  std::lock_guard lock(mutex_);
  return facts_;
}

// The key's account is updated before the client can see the event: its next request may come at
// once.

void ServerSink::OnAdmitted(RequestId, const Admission& admission) {
  Status within = charge_.Admitted(admission);
  std::lock_guard lock(mutex_);
  queue_position_ = admission.queue_position;
  facts_.admitted = true;
  facts_.prompt_tokens = admission.prompt_tokens;
  if (!within.ok()) {
    EndEarly(std::move(within));
    return;
  }
  pending_.admitted = true;
  Signal(Wake::kNews);
}

bool ServerSink::OnDelta(RequestId, Delta delta) {
  const auto tokens = static_cast<int64_t>(delta.tokens.size());
  const bool within = charge_.Generated(tokens);
  std::lock_guard lock(mutex_);
  facts_.generated += tokens;
  if (tokens > 0 && !facts_.first) facts_.first = std::chrono::steady_clock::now() - made_;
  if (!wake_ || ended_early_) return false;
  const Kept kept = Keep(std::move(delta), &pending_.deltas);
  if (kept == Kept::kYes) {
    if (wakes_on_delta()) Signal(Wake::kNews);
    return within;
  }
  if (kept == Kept::kTooMuchMemory && is_whole()) {
    cut_ = true;
    EndEarly(http::TooManyAnswers());
    return false;
  }
  Signal(kept == Kept::kTooSlow ? Wake::kSlowReader : Wake::kOverBudget);
  wake_ = nullptr;
  return false;
}

void ServerSink::OnEnd(RequestId, const Outcome& outcome) {
  Outcome end = charge_.Ended(outcome);
  const int32_t computed = ComputedTokens(outcome);
  KeyTicket owing;
  {
    std::lock_guard lock(mutex_);
    computed_ = computed;
    owing = std::move(owing_);
  }
  if (computed > 0) static_cast<void>(owing.Admitted(computed));
  std::lock_guard lock(mutex_);
  if (ended_early_) return;
  if (end.status.ok()) facts_ = FactsOf(end.finish);
  pending_.end = std::move(end);
  Signal(Wake::kNews);
}

ServerSink::Kept StreamSink::Keep(Delta delta, std::vector<Delta>* pending) {
  const size_t bytes = MemoryOf(delta);
  if (!Charge(bytes)) return Kept::kTooMuchMemory;
  // The prompt's tokens arrive at once, however fast the reader is; max_model_len bounds them.
  if (!delta.prompt_tokens.empty()) {
    pending->push_back(std::move(delta));
    return Kept::kYes;
  }
  bytes_ += bytes;
  // One delta alone is always taken, however large: its reader may be fast.
  if (!pending->empty() && (bytes_ > max_bytes_ || pending->size() >= max_events_)) {
    return Kept::kTooSlow;
  }
  pending->push_back(std::move(delta));
  return Kept::kYes;
}

ServerSink::Kept CollectorSink::Keep(Delta delta, std::vector<Delta>* pending) {
  // What grows keeps up to half of its memory free.
  const size_t tokens = MemoryOf(delta.prompt_tokens) + (keep_tokens_ ? MemoryOf(delta.tokens) : 0);
  if (!Charge(2 * (MemoryOfSaid(delta) + tokens))) return Kept::kTooMuchMemory;
  if (pending->empty()) pending->emplace_back();
  Append(std::move(delta), keep_tokens_, &pending->back());
  return Kept::kYes;
}

void Submission::Cancel() {
  for (Choice& choice : choices_) {
    const bool under_way = !choice.ended || choice.sink->ended_early();
    choice.sink->Close();
    if (under_way && choice.id != 0) static_cast<void>(backend_->Cancel(choice.id));
  }
  choices_.clear();
}

std::vector<Request> ChoiceRequests(api::ApiRequest* api) {
  std::vector<Request> requests;
  requests.reserve(api->choices());
  for (api::Prompt& prompt : api->prompts) {
    for (int32_t k = 0; k < api->n; ++k) {
      Request& request = requests.emplace_back(api->request);
      request.choice += static_cast<uint32_t>(k);
      if (api->prompt_logprobs_once && k > 0) request.prompt_logprobs.reset();
      if (k + 1 < api->n) {
        request.prompt = prompt;
      } else {
        request.prompt = std::move(prompt);
      }
    }
  }
  return requests;
}

void DrawSeed(Request* request) {
  SamplingParams& sampling = request->sampling;
  if (sampling.seed) return;
  constexpr uint64_t kMostSeed = 0x7FFFFFFF;
  sampling.seed = base::SystemRandom().Next64() & kMostSeed;
  sampling.given |= SamplingParams::kSeed;
}

Status Submission::Submit(api::ApiRequest* api, std::vector<KeyTicket> tickets,
                          const SinkMaker& make_sink) {
  // Else the backend draws the seed of a single choice, of 64 bits.
  if (api->choices() > 1 || api->shows_seed) DrawSeed(&api->request);
  std::vector<SinkRequest> all;
  all.reserve(api->choices());
  choices_.reserve(api->choices());
  for (Request& request : ChoiceRequests(api)) {
    std::shared_ptr<ServerSink> sink = make_sink();
    sink->SetCharge({std::move(tickets[choices_.size()]), request.resume_ids.size()});
    choices_.push_back({0, sink, false});
    all.push_back({std::move(request), std::move(sink)});
  }
  const StatusOr<std::vector<RequestId>> ids = backend_->SubmitAll(std::move(all));
  if (!ids.ok()) {
    Cancel();
    return ids.status();
  }
  for (size_t i = 0; i < choices_.size(); ++i) choices_[i].id = (*ids)[i];
  return {};
}

bool Submission::cut() const {
  return std::any_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return choice.sink->cut(); });
}

AnswerSource::Output Submission::Take(size_t choice) {
  Output output = choices_[choice].sink->Take();
  if (output.end) choices_[choice].ended = true;
  return output;
}

}  // namespace ropeway::server
