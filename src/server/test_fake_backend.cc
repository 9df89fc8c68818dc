#include "server/test_fake_backend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/failure.h"

namespace ropeway::server {
namespace {

std::string PromptText(const Request& request) {
  if (const auto* text = std::get_if<std::string>(&request.prompt)) return *text;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    return std::string(ids->begin(), ids->end());
  }
  return std::get<Chat>(request.prompt).messages.front().content;
}

// Token i of a prompt has the log-probability -i/4, and is the second best where that is asked for.
Delta PromptDelta(const Request& request, const std::string& begin) {
  Delta delta;
  const auto add = [&](const std::string& bytes, TokenId id) {
    OutputToken token;
    token.id = id;
    token.bytes = bytes;
    const auto i = static_cast<float>(delta.prompt_tokens.size());
    token.logprob = i == 0 ? std::numeric_limits<float>::quiet_NaN() : -i / 4;
    if (i > 0 && *request.prompt_logprobs > 0) {
      token.top_logprobs = {{900, -0.125F}};
      token.top_bytes = {"best"};
    }
    if (!delta.prompt_tokens.empty()) {
      const OutputToken& before = delta.prompt_tokens.back();
      token.text_offset = before.text_offset + before.bytes.size();
    }
    delta.prompt_tokens.push_back(std::move(token));
  };
  if (!begin.empty()) add(begin, 1);
  for (const char c : PromptText(request)) add(std::string(1, c), static_cast<uint8_t>(c));
  return delta;
}

class FakeTokenization final : public service::Tokenization {
 public:
  FakeTokenization(std::string text, bool add_special, std::atomic<int>* alive)
      : text_(std::move(text)), alive_(alive) {
    if (add_special) ids_.push_back(1);
    ++*alive_;
  }
  ~FakeTokenization() override { --*alive_; }

  StatusOr<bool> Step() override {
    if (text_.starts_with(kFakeEndless)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      return false;
    }
    if (text_.starts_with(kFakeGrowing)) {
      grown_ += size_t{1} << 20;
      return false;
    }
    const size_t end = std::min(text_.size(), at_ + kFakePiece);
    for (; at_ < end; ++at_) ids_.push_back(static_cast<uint8_t>(text_[at_]));
    return at_ == text_.size();
  }
  const std::string* text() const override { return &text_; }
  size_t bytes() const override {
    return text_.size() + ids_.capacity() * sizeof(TokenId) + grown_;
  }
  std::vector<TokenId> Take() override { return std::move(ids_); }

 private:
  static constexpr size_t kFakePiece = size_t{64} << 10;

  const std::string text_;
  std::atomic<int>* const alive_;
  std::vector<TokenId> ids_;
  size_t at_ = 0;
  size_t grown_ = 0;  // The bytes that kFakeGrowing took.
};

}  // namespace

FakeBackend::FakeBackend() : script_([](const Request&) { return FakeScript(); }) {
  thread_ = std::thread([this] { Run(); });
}

FakeBackend::~FakeBackend() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void FakeBackend::set_script(ScriptFn script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeBackend::set_rejection(Status rejection) {
  std::lock_guard lock(mutex_);
  rejection_ = std::move(rejection);
}

void FakeBackend::set_health(service::Health health) {
  std::lock_guard lock(mutex_);
  health_ = std::move(health);
}

void FakeBackend::set_tokenize_hook(std::function<void()> hook) {
  std::lock_guard lock(mutex_);
  tokenize_hook_ = std::move(hook);
}

void FakeBackend::set_step_pause(std::chrono::microseconds pause) {
  std::lock_guard lock(mutex_);
  pause_ = pause;
}

void FakeBackend::set_hold_failures(bool hold) {
  std::lock_guard lock(mutex_);
  hold_failures_ = hold;
}

void FakeBackend::set_hold_steps(bool hold) {
  std::lock_guard lock(mutex_);
  hold_steps_ = hold;
  changed_.notify_all();
}

std::vector<Request> FakeBackend::submitted() const {
  std::lock_guard lock(mutex_);
  return submitted_;
}

std::vector<size_t> FakeBackend::submissions() const {
  std::lock_guard lock(mutex_);
  return submissions_;
}

int FakeBackend::active() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(running_.size());
}

int FakeBackend::most_active() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(most_active_);
}

std::vector<float> FakeBackend::EmbeddingOf(const std::string& text, int32_t size) {
  std::vector<float> embedding(static_cast<size_t>(size));
  uint64_t hash = std::hash<std::string>()(text);
  for (float& x : embedding) {
    hash = hash * 6364136223846793005U + 1442695040888963407U;
    x = static_cast<float>(hash >> 40U) / 16777216.0F - 0.5F;
  }
  return embedding;
}

int FakeBackend::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

int64_t FakeBackend::deltas() const {
  std::lock_guard lock(mutex_);
  return deltas_;
}

bool FakeBackend::WaitFor(const std::function<bool()>& holds) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(60), holds);
}

bool FakeBackend::WaitIdle() const {
  return WaitFor([this] { return running_.empty(); });
}

bool FakeBackend::WaitActive(int count) const {
  return WaitFor([this, count] { return static_cast<int>(running_.size()) == count; });
}

bool FakeBackend::WaitDeltas(int64_t count) const {
  return WaitFor([this, count] { return deltas_ >= count; });
}

StatusOr<std::vector<RequestId>> FakeBackend::SubmitAll(std::vector<SinkRequest> requests) {
  {
    std::lock_guard lock(mutex_);
    submissions_.push_back(requests.size());
  }
  std::vector<RequestId> ids;
  ids.reserve(requests.size());
  const auto cancel = [&] {
    for (const RequestId id : ids) static_cast<void>(Cancel(id));
  };
  for (SinkRequest& request : requests) {
    try {
      StatusOr<RequestId> id = SubmitOne(std::move(request));
      if (!id.ok()) {
        cancel();
        return id.status();
      }
      ids.push_back(*id);
    } catch (...) {
      cancel();
      throw;
    }
  }
  return ids;
}

service::QueueInfo FakeBackend::Queue(const std::string* tenant, double weight) const {
  service::QueueInfo queue = queue_;
  if (tenant == nullptr) return queue;
  for (service::QueueInfo::Class& one : queue.classes) one.wait_seconds *= weight;
  return queue;
}

StatusOr<RequestId> FakeBackend::SubmitOne(SinkRequest submitted) {
  Request& request = submitted.request;
  std::shared_ptr<Sink>& sink = submitted.sink;
  std::lock_guard lock(mutex_);
  if (!rejection_.ok()) return rejection_;
  Running running;
  running.script = script_(request);
  if (!running.script.rejection.ok()) return running.script.rejection;
  submitted_.push_back(request);
  const RequestId id = next_id_++;
  if (running.script.fail_in_submit) {
    sink->OnAdmitted(id, {.prompt_tokens = 3});
    sink->OnEnd(id, Outcome::Failed(running.script.failure));
    return id;
  }
  running.emitted = static_cast<int>(request.resume_ids.size());
  running.request = std::move(request);
  running.sink = std::move(sink);
  running_.emplace(id, std::move(running));
  most_active_ = std::max(most_active_, running_.size());
  changed_.notify_all();
  return id;
}

Status FakeBackend::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  auto found = running_.find(id);
  if (found == running_.end()) return NotUnderWay(id);
  found->second.cancelled = true;
  changed_.notify_all();
  return {};
}

std::vector<service::ModelInfo> FakeBackend::Models() const {
  if (!models_.empty()) return models_;
  service::ModelInfo model;
  model.id = "fake-model";
  model.max_model_len = 2048;
  model.created = 1700000000;
  model.sampling = sampling_;
  return {model};
}

service::Health FakeBackend::GetHealth() const {
  std::lock_guard lock(mutex_);
  return health_;
}

StatusOr<std::unique_ptr<service::Tokenization>> FakeBackend::Tokenize(std::string text,
                                                                       bool add_special) const {
  std::function<void()> hook;
  {
    const std::lock_guard lock(mutex_);
    hook = tokenize_hook_;
  }
  if (hook) hook();
  if (!no_tokenizer_.ok()) return no_tokenizer_;
  return std::unique_ptr<service::Tokenization>(
      std::make_unique<FakeTokenization>(std::move(text), add_special, &tokenizations_));
}

StatusOr<std::unique_ptr<service::Tokenization>> FakeBackend::TokenizeChat(Chat chat,
                                                                           bool add_special) const {
  std::string text;
  for (const Tool& tool : chat.tools) text += tool.name + tool.parameters + "\n";
  if (!chat.template_arguments.empty()) text += chat.template_arguments + "\n";
  for (const ChatMessage& message : chat.messages) {
    text += message.role + ":" + message.content + "\n";
  }
  if (chat.add_generation_prompt) text += "assistant:";
  return Tokenize(std::move(text), add_special);
}

std::vector<service::RequestInfo> FakeBackend::Requests() const {
  const std::lock_guard lock(mutex_);
  std::vector<service::RequestInfo> all;
  for (const auto& [id, running] : running_) {
    const auto state = running.admitted ? service::RequestInfo::State::kRunning
                                        : service::RequestInfo::State::kWaiting;
    all.push_back({id, running.request.tenant, state, 0.0, running.request.priority,
                   running.admitted ? -1 : running.script.queue_position});
  }
  return all;
}

void FakeBackend::set_activity(service::Activity activity) {
  const std::lock_guard lock(mutex_);
  activity_ = std::move(activity);
}

service::Activity FakeBackend::ActivityAfter(const service::ActivityCursor& cursor) const {
  const std::lock_guard lock(mutex_);
  ++looks_;
  service::Activity after = activity_;
  std::erase_if(after.steps, [&](const auto& step) { return step.step <= cursor.step; });
  std::erase_if(after.ended, [&](const auto& ended) { return ended.number <= cursor.ended; });
  return after;
}

StatusOr<std::string> FakeBackend::Detokenize(const std::vector<TokenId>& ids) const {
  if (!no_tokenizer_.ok()) return no_tokenizer_;
  std::string text;
  for (const TokenId id : ids) {
    if (id < 0 || id > 255) {
      return InvalidArgument(fmt::format("token id {} is not in the vocabulary of 256", id),
                             "tokens");
    }
    if (id == 1) {
      text += kFakeBegin;
    } else {
      text += static_cast<char>(id);
    }
  }
  return text;
}

Status FakeBackend::Drain(std::chrono::nanoseconds) {
  set_rejection({StatusCode::kUnavailable, "The engine is stopping."});
  return WaitIdle() ? Status() : Status(StatusCode::kDeadlineExceeded, "Requests still ran.");
}

void FakeBackend::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (running_.empty() || hold_steps_) {
      changed_.wait(lock);
      continue;
    }
    std::vector<RequestId> ids;
    for (const auto& [id, unused] : running_) ids.push_back(id);
    for (RequestId id : ids) {
      Running* running = &running_.at(id);  // Only this thread erases; map nodes do not move.
      Running state = *running;
      lock.unlock();  // As a real backend: a sink may be called while Submit and Cancel arrive.
      const bool goes_on = Step(id, &state);
      lock.lock();
      state.cancelled = state.cancelled || running->cancelled;
      if (goes_on) {
        *running = std::move(state);
      } else {
        if (state.cancelled) ++cancelled_;
        running_.erase(id);
      }
    }
    changed_.notify_all();
    changed_.wait_for(lock, pause_);
  }
}

bool FakeBackend::Step(RequestId id, Running* running) {
  const FakeScript& script = running->script;
  Sink& sink = *running->sink;
  Finish finish;
  finish.usage = {.prompt_tokens = 3, .completion_tokens = running->emitted, .cached_tokens = 1};
  finish.reason = script.finish_failed ? FinishReason::kFailed : FinishReason::kLength;
  finish.seed = running->request.sampling.seed.value_or(77);
  if (running->emitted > 0 || (running->request.embedding && running->prompt_sent)) {
    finish.batch_num = 11 + running->request.choice;
    finish.batch_size = 2;
    finish.times.queue = std::chrono::milliseconds(5);
  }
  if (running->cancelled) {
    finish.reason = FinishReason::kCancelled;
    if (running->admitted) {
      sink.OnEnd(id, {base::RequestCancelled(), finish});
    } else {
      sink.OnEnd(id, Outcome::Failed({StatusCode::kCancelled, "Cancelled while it waited."}));
    }
    return false;
  }
  if (script.fail_unadmitted) {
    sink.OnEnd(id, Outcome::Failed(script.failure));
    return false;
  }
  if (!script.admit) return true;
  if (!running->admitted) {
    running->admitted = true;
    {
      // Requests() shows it before the client can know.
      std::lock_guard lock(mutex_);
      running_.at(id).admitted = true;
    }
    sink.OnAdmitted(
        id, {.prompt_tokens = script.prompt_tokens, .queue_position = script.queue_position});
    return true;
  }
  if (!script.starts) return true;
  if (running->request.prompt_logprobs && !running->prompt_sent) {
    running->prompt_sent = true;
    if (!sink.OnDelta(id, PromptDelta(running->request, script.prompt_begin))) {
      running->cancelled = true;
    }
    return true;
  }
  if (running->request.embedding && !running->prompt_sent) {
    running->prompt_sent = true;
    const auto* text = std::get_if<std::string>(&running->request.prompt);
    const int32_t size =
        std::max({script.embedding_size,
                  script.embedding_size == 0 ? Models().front().embedding_size : 0, 1});
    Delta delta;
    delta.embedding = EmbeddingOf(text == nullptr ? "" : *text, size);
    if (!sink.OnDelta(id, std::move(delta))) running->cancelled = true;
    std::lock_guard lock(mutex_);
    ++deltas_;
    return true;
  }
  if (running->request.embedding && !script.ends) return true;
  if (running->emitted == script.fail_after) {
    {
      std::lock_guard lock(mutex_);
      if (hold_failures_) return true;
    }
    sink.OnEnd(id, Outcome::Failed(script.failure));
    return false;
  }
  if (!script.endless && running->emitted == running->request.max_tokens.value_or(5)) {
    sink.OnEnd(id, {base::StatusOfEnd(finish.reason), finish});
    return false;
  }
  Delta delta;
  delta.text = script.text(running->emitted);
  OutputToken token;
  token.id = running->emitted;
  token.bytes = delta.text;
  token.logprob = -0.5F;
  token.text_offset = running->text_bytes;
  running->text_bytes += delta.text.size();
  for (int i = 0; i < running->request.logprobs.value_or(0); ++i) {
    token.top_logprobs.push_back({i, -0.5F - static_cast<float>(i)});
    token.top_bytes.push_back(i == 0 ? delta.text : fmt::format("t{}", i));
  }
  delta.tokens.push_back(std::move(token));
  ++running->emitted;
  const bool wanted = sink.OnDelta(id, std::move(delta));
  if (!wanted) running->cancelled = true;
  std::lock_guard lock(mutex_);
  ++deltas_;
  return true;
}

}  // namespace ropeway::server
