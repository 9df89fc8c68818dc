#include "server/input_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/chat_size.h"
#include "http/http_options.h"

namespace ropeway::server {

Status FewerDimensions(int32_t dimensions, size_t size) {
  return InvalidArgument(
      fmt::format("'dimensions' is {}, but the model's embeddings have {}.", dimensions, size),
      "dimensions");
}

Status TooManyEmbeddings() {
  return {StatusCode::kUnavailable,
          "The embeddings of this request and your unread answers take too much memory together; "
          "ask for fewer inputs at a time.",
          "prompt"};
}

Status InputFeed::Begin(api::ApiRequest* api, std::vector<KeyTicket> tickets) {
  common_ = api->request;  // The dialect still needs it.
  inputs_.resize(api->prompts.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].prompt = std::move(api->prompts[i]);
    inputs_[i].tokens = static_cast<int64_t>(base::EstimatedTokens(inputs_[i].prompt));
    inputs_[i].ticket = std::move(tickets[i]);
    waiting_.push_back(i);
  }
  static_cast<void>(Advance());
  return failure_.ok() ? rejection_ : failure_;
}

bool InputFeed::HasRoom(const Input& next) const {
  if (under_way_ >= window_.most) return false;
  return under_way_ < window_.least || tokens_under_way_ + next.tokens <= window_.tokens;
}

std::optional<std::chrono::milliseconds> InputFeed::TimeLeft() const {
  if (!common_.timeout) return std::nullopt;
  const auto gone = std::chrono::steady_clock::now() - begun_;
  return *common_.timeout - std::chrono::duration_cast<std::chrono::milliseconds>(gone);
}

Status InputFeed::Submit(const std::vector<size_t>& batch) {
  const std::optional<std::chrono::milliseconds> left = TimeLeft();
  if (left && left->count() <= 0) {
    return {StatusCode::kDeadlineExceeded,
            fmt::format("the request's time of {} ms is over", common_.timeout->count())};
  }
  std::vector<SinkRequest> requests;
  requests.reserve(batch.size());
  for (const size_t i : batch) {
    Input& input = inputs_[i];
    input.sink = std::make_shared<CollectorSink>(false, wake_);
    if (memory_.answers != nullptr) input.sink->SetBudget(memory_.answers, memory_.tenant);
    SinkRequest& request = requests.emplace_back(common_, input.sink);
    request.request.prompt = input.prompt;
    if (left) request.request.timeout = *left;
  }
  StatusOr<std::vector<RequestId>> ids = backend_->SubmitAll(std::move(requests));
  if (!ids.ok()) {
    for (const size_t i : batch) inputs_[i].sink->Close();
    return ids.status();
  }
  for (size_t i = 0; i < batch.size(); ++i) inputs_[batch[i]].id = (*ids)[i];
  return {};
}

InputFeed::Time InputFeed::Advance() {
  const Time now = std::chrono::steady_clock::now();
  if (waiting_.empty() || !failure_.ok()) return Time::max();
  if (now < not_before_) return not_before_;
  std::vector<size_t> batch;
  while (!waiting_.empty() && HasRoom(inputs_[waiting_.front()])) {
    Input& input = inputs_[waiting_.front()];
    batch.push_back(waiting_.front());
    waiting_.pop_front();
    input.state = State::kUnderWay;
    ++under_way_;
    tokens_under_way_ += input.tokens;
  }
  if (batch.empty()) return Time::max();
  Status status = Submit(batch);
  if (status.ok()) return Time::max();
  for (size_t i = batch.size(); i > 0; --i) {
    Leave(&inputs_[batch[i - 1]]);
    waiting_.push_front(batch[i - 1]);
  }
  rejection_ = status;
  const bool full = status.code() == StatusCode::kResourceExhausted;
  if (!full || now - moved_ > kPatience) {
    failure_ = std::move(status);
    return now;
  }
  not_before_ = now + kPause;
  return not_before_;
}

void InputFeed::Leave(Input* input) {
  --under_way_;
  tokens_under_way_ -= input->tokens;
  input->state = State::kWaiting;
  input->sink.reset();
  input->id = 0;
}

AnswerSource::Progress InputFeed::Look(size_t index) {
  Input& input = inputs_[index];
  if (input.state == State::kUnderWay) {
    Progress progress = input.sink->Look();
    if (progress.admitted) {
      accepted_ = true;
      moved_ = std::chrono::steady_clock::now();
      if (!position_) position_ = input.sink->queue_position();
    }
    if (!progress.failed || progress.admitted) return progress;
    Output output = input.sink->Take();
    if (TriesAgain(output.end->status)) {
      rejection_ = output.end->status;
      not_before_ = std::chrono::steady_clock::now() + kPause;
      Leave(&input);
      waiting_.insert(std::lower_bound(waiting_.begin(), waiting_.end(), index), index);
      return {};
    }
    if (failure_.ok()) failure_ = output.end->status;
    Leave(&input);
  }
  const bool failed = !failure_.ok();
  return {.admitted = false, .ended = failed, .failed = failed};
}

bool InputFeed::TriesAgain(const Status& end) const {
  return accepted_ && end.code() == StatusCode::kResourceExhausted &&
         std::chrono::steady_clock::now() - moved_ < kPatience;
}

bool InputFeed::Keep(Output* output) {
  if (memory_.answers == nullptr) return true;
  for (const Delta& delta : output->deltas) {
    kept_bytes_ += delta.embedding.size() * kEmbeddingNumberBytes;
  }
  output->held.Release();  // The sink's, which small ones do not have.
  const auto more = static_cast<int64_t>(kept_bytes_) - kept_.amount();
  if (kept_bytes_ <= http::kFreeAnswerBytes || more <= 0) return true;
  return kept_.taken() ? kept_.Grow(more) : memory_.answers->Take(memory_.tenant, more, &kept_);
}

AnswerSource::Output InputFeed::Take(size_t index) {
  Input& input = inputs_[index];
  Output output;
  if (input.state == State::kUnderWay) {
    output = input.sink->Take();
  } else {
    output.end = Outcome::Failed(failure_);
  }
  if (!output.end) return output;
  if (input.state == State::kUnderWay) {
    input.facts = input.sink->facts();
    if (input.sink->cut() || (output.end->status.ok() && !Keep(&output))) {
      cut_ = true;
      output.end = Outcome::Failed(TooManyEmbeddings());
    }
    // What was computed for it costs something all the same.
    if (!output.end->status.ok()) input.sink->ChargeAtEnd(std::move(input.ticket));
    Leave(&input);
  }
  input.state = State::kEnded;
  if (++ended_ == inputs_.size()) output.held = std::move(kept_);
  input.prompt = std::string();
  if (output.end->status.ok()) {
    moved_ = std::chrono::steady_clock::now();
    const Status within = input.ticket.Admitted(output.end->finish.usage.prompt_tokens);
    if (!within.ok()) output.end = Outcome::Failed(within);
  }
  input.ticket.End(0);
  return output;
}

void InputFeed::Cancel() {
  for (Input& input : inputs_) {
    if (input.state != State::kUnderWay) continue;
    input.facts = input.sink->facts();
    input.sink->ChargeAtEnd(std::move(input.ticket));
    input.sink->Close();
    if (input.id != 0) static_cast<void>(backend_->Cancel(input.id));
    Leave(&input);
    input.state = State::kEnded;
  }
  waiting_.clear();
}

}  // namespace ropeway::server
