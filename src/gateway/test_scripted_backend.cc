#include "gateway/test_scripted_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/failure.h"
#include "service/sinks.h"

namespace ropeway::gateway {
namespace {

constexpr std::chrono::seconds kTestPatience(60);

uint64_t HashOf(const Request& request) {
  uint64_t hash = base::Mix64(request.sampling.seed.value_or(0), request.choice);
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    for (const char c : *text) hash = base::Mix64(hash, static_cast<unsigned char>(c));
  }
  return hash;
}

TokenId IdAt(const Request& request, int i) {
  return static_cast<TokenId>(base::Mix64(HashOf(request), static_cast<uint64_t>(i)) % 50'000);
}

std::string TextAt(const Request& request, int i) {
  return "t" + std::to_string(IdAt(request, i)) + " ";
}

// Whether the token's text comes with the next one.
bool HeldAt(int i) { return i % 3 == 2; }

// Adds what token `i` says.
void SayAt(const Request& request, int i, const std::string& calls, Delta* delta) {
  const std::string text = TextAt(request, i);
  const int place = i % 9;
  if (calls.empty() || (place >= 3 && place < 6)) {
    delta->text += text;
  } else if (place < 3) {
    delta->reasoning += text;
  } else {
    ToolCallDelta& call = delta->tool_calls.emplace_back();
    call.index = i / 9;
    if (place == 6) {
      call.id = calls + std::to_string(call.index);
      call.name = "f" + std::to_string(call.index);
    }
    call.arguments = text;
  }
}

}  // namespace

ChatMessage ExpectedAnswer(const Request& request, int tokens, const std::string& calls) {
  Delta all;
  for (int i = 0; i < tokens; ++i) SayAt(request, i, calls, &all);
  ChatMessage answer{"assistant", ""};
  service::AddTo(all, &answer);
  return answer;
}

std::string Shown(const ChatMessage& answer) {
  std::string shown = answer.reasoning_content + "|" + answer.content;
  for (const ToolCall& call : answer.tool_calls) {
    shown += "|" + call.id + " " + call.name + "(" + call.arguments + ")";
  }
  return shown;
}

std::vector<float> ExpectedEmbedding(const Request& request) {
  return {static_cast<float>(HashOf(request) % 1000), 0.5F};
}

std::string ExpectedText(const Request& request, int tokens) {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += TextAt(request, i);
  return text;
}

// --- The backend.

struct ScriptedBackend::Stream {
  std::atomic<int>* ended = nullptr;
  RequestId id = 0;
  std::atomic<bool> cancelled{false};
  std::mutex mu;               // Held while the sink is called: Kill comes from another thread.
  std::shared_ptr<Sink> sink;  // Null: it was told the end.
  Request request;
  BackendScript script;
  int at = 0;    // Tokens, with those before the attempt.
  int said = 0;  // Of the attempt.
  Delta held;
  bool prompt_said = false;
  std::chrono::steady_clock::time_point hangs_since{};  // 0: it has not hung.

  // One more step; false: there are no more.
  bool Step(bool lost) {
    const std::lock_guard lock(mu);
    if (sink == nullptr) return false;
    if (cancelled) return End(Outcome::Failed(base::RequestCancelled()));
    if (lost) {
      return End(
          Outcome::Failed(FailureKind::kBroken, {StatusCode::kUnavailable, "it was killed"}));
    }
    if (Hangs()) return true;
    if (said == script.fail_after) return End(script.failure);
    if (request.prompt_logprobs && !std::exchange(prompt_said, true)) {
      SayPrompt();
      return true;
    }
    if (request.embedding) return Embed();
    if (at >= script.tokens) return Finished();
    SayToken();
    return true;
  }

 private:
  // In the last moment, as servers do whose answer is one document.
  bool Embed() {
    Delta delta;
    delta.embedding = ExpectedEmbedding(request);
    if (!sink->OnDelta(id, std::move(delta))) cancelled = true;
    return Finished();
  }

  bool Hangs() {
    if (said != script.hang_after) return false;
    if (script.alive_for.count() == 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (hangs_since == std::chrono::steady_clock::time_point{}) hangs_since = now;
    if (now - hangs_since >= script.alive_for) return false;
    sink->OnAlive(id);
    return true;
  }

  bool End(const Outcome& outcome) {
    ++*ended;
    std::exchange(sink, nullptr)->OnEnd(id, outcome);
    return false;
  }

  void SayPrompt() {
    Delta delta;
    for (int i = 0; i < 3; ++i) {
      OutputToken& token = delta.prompt_tokens.emplace_back();
      token.id = i;
      token.logprob = -1.0F;
    }
    if (!sink->OnDelta(id, std::move(delta))) cancelled = true;
  }

  void SayToken() {
    Delta delta;
    Delta says = std::exchange(held, {});
    says.text += script.add_to_text;
    SayAt(request, at, script.calls, &says);
    (HeldAt(at) && script.says_tokens ? held : delta) = std::move(says);
    if (script.says_tokens) {
      OutputToken& token = delta.tokens.emplace_back();
      token.id = IdAt(request, at) + script.add_to_ids;
      token.bytes = TextAt(request, at);
      token.logprob = -static_cast<float>(token.id % 100) / 16;
    }
    ++at;
    ++said;
    if (!sink->OnDelta(id, std::move(delta))) cancelled = true;
  }

  bool Finished() {
    if (held.says()) {
      if (!sink->OnDelta(id, std::exchange(held, {}))) cancelled = true;
      return true;  // A loss may come between.
    }
    Finish end;
    end.reason = script.reason;
    end.usage = script.says_usage ? Usage{7, at, 2} : Usage::Unknown();
    end.seed = request.sampling.seed.value_or(0);
    return End(Outcome::Ended(script.end.value_or(end)));
  }
};

ScriptedBackend::ScriptedBackend(ScriptFn script) : script_(std::move(script)) {
  thread_ = std::thread([this] { Run(); });
}

ScriptedBackend::~ScriptedBackend() {
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
  }
  thread_.join();
}

void ScriptedBackend::set_facts(BackendFacts facts) {
  const std::lock_guard lock(mu_);
  facts_ = std::move(facts);
}

void ScriptedBackend::Kill() {
  std::list<std::shared_ptr<Stream>> lost;
  {
    const std::lock_guard lock(mu_);
    dead_ = true;
    lost.swap(streams_);
  }
  for (const std::shared_ptr<Stream>& stream : lost) stream->Step(true);
}

void ScriptedBackend::Revive() {
  const std::lock_guard lock(mu_);
  dead_ = false;
}

std::vector<Request> ScriptedBackend::requests() const {
  const std::lock_guard lock(mu_);
  return requests_;
}

StatusOr<std::vector<RequestId>> ScriptedBackend::SubmitAll(std::vector<SinkRequest> requests) {
  std::vector<RequestId> ids;
  for (SinkRequest& one : requests) ids.push_back(Start(std::move(one)));
  return ids;
}

RequestId ScriptedBackend::Start(SinkRequest one) {
  auto stream = std::make_shared<Stream>();
  stream->ended = &ended_;
  stream->request = std::move(one.request);
  const Request& request = stream->request;
  if (script_) stream->script = script_(request);
  if (stream->script.throw_in_start) throw std::runtime_error("Start threw");
  ++started_;
  if (!request.resume_ids.empty()) {
    ++resumed_;
    stream->at = static_cast<int>(request.resume_ids.size());
    for (int i = 0; i < stream->at && stream->script.checks_ids; ++i) {
      EXPECT_EQ(request.resume_ids[static_cast<size_t>(i)], IdAt(request, i));
    }
    if (HeldAt(stream->at - 1)) {
      SayAt(request, stream->at - 1, stream->script.calls, &stream->held);
    }
  }
  bool dead = false;
  {
    const std::lock_guard lock(mu_);
    stream->id = ++last_id_;
    requests_.push_back(request);
    dead = dead_;
    if (!dead && !stream->script.fail_in_start) {
      stream->sink = std::move(one.sink);
      streams_.push_back(stream);
    }
  }
  if (one.sink == nullptr) return stream->id;
  ++ended_;
  one.sink->OnEnd(stream->id, dead ? Outcome::Failed(FailureKind::kUnreachable,
                                                     {StatusCode::kUnavailable, "it is dead"})
                                   : stream->script.failure);
  return stream->id;
}

Status ScriptedBackend::Cancel(RequestId id) {
  const std::lock_guard lock(mu_);
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [id](const auto& stream) { return stream->id == id; });
  if (found == streams_.end()) return NotUnderWay(id);
  (*found)->cancelled = true;
  return {};
}

void ScriptedBackend::Probe(ProbeFn done) {
  StatusOr<BackendFacts> facts = BackendFacts();
  {
    const std::lock_guard lock(mu_);
    facts = facts_;
    if (dead_) facts = Status(StatusCode::kUnavailable, "it is dead");
  }
  done(std::move(facts));
}

void ScriptedBackend::Run() {
  std::unique_lock lock(mu_);
  while (!stopping_) {
    std::vector<std::shared_ptr<Stream>> round(streams_.begin(), streams_.end());
    lock.unlock();  // A sink may cause the next Start.
    std::erase_if(round, [](const std::shared_ptr<Stream>& stream) { return stream->Step(false); });
    std::this_thread::sleep_for(pause_.load());
    lock.lock();
    for (const std::shared_ptr<Stream>& over : round) streams_.remove(over);
  }
}

// --- The sink.

void RecordingSink::OnAdmitted(RequestId, const Admission&) {
  const std::lock_guard lock(mu_);
  record_.in_order = record_.in_order && record_.deltas == 0 && record_.ends == 0;
  ++record_.admitted;
  changed_.notify_all();
}

bool RecordingSink::OnDelta(RequestId, Delta delta) {
  const std::lock_guard lock(mu_);
  record_.in_order = record_.in_order && record_.admitted == 1 && record_.ends == 0;
  ++record_.deltas;
  record_.text += delta.text;
  if (!delta.embedding.empty()) record_.embedding = delta.embedding;
  service::AddTo(delta, &record_.answer);
  for (OutputToken& token : delta.tokens) record_.tokens.push_back(std::move(token));
  for (OutputToken& token : delta.prompt_tokens) record_.prompt_tokens.push_back(std::move(token));
  changed_.notify_all();
  return most_ < 0 || record_.deltas < most_;
}

void RecordingSink::OnEnd(RequestId, const Outcome& outcome) {
  const std::lock_guard lock(mu_);
  const bool finished = outcome.status.ok() || (outcome.finish.reason == FinishReason::kCancelled &&
                                                record_.admitted == 1);
  record_.in_order = record_.in_order && record_.ends == 0 && (!finished || record_.admitted == 1);
  ++record_.ends;
  if (finished) {
    record_.finish = outcome.finish;
  } else {
    record_.status = outcome.status;
  }
  changed_.notify_all();
}

RecordingSink::Record RecordingSink::record() const {
  const std::lock_guard lock(mu_);
  return record_;
}

bool RecordingSink::WaitFor(const std::function<bool()>& holds) const {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, kTestPatience, holds);
}

RecordingSink::Record RecordingSink::WaitEnd() const {
  EXPECT_TRUE(WaitFor([this] { return record_.ends > 0; }));
  return record();
}

bool RecordingSink::WaitDeltas(int count) const {
  return WaitFor([this, count] { return record_.deltas >= count; });
}

bool RecordingSink::WaitAdmitted() const {
  return WaitFor([this] { return record_.admitted > 0; });
}

// --- The gateway.

ScriptedGateway::ScriptedGateway(std::vector<std::shared_ptr<ScriptedBackend>> its_backends,
                                 const ConfigFn& change)
    : backends(std::move(its_backends)) {
  GatewayConfig config;
  GatewayModel& model = config.models.emplace_back();
  model.name = "m";
  for (size_t i = 0; i < backends.size(); ++i) {
    model.backends.push_back({.name = std::string(1, static_cast<char>('a' + i)),
                              .backend = backends[i],
                              .weight = 1.0,
                              .max_concurrency = 1000});
  }
  config.dispatch.rules.health.probe_interval = std::chrono::milliseconds(20);
  config.dispatch.rules.health.probe_again = std::chrono::milliseconds(5);
  config.dispatch.rules.health.ejection = std::chrono::milliseconds(5);
  config.dispatch.rules.health.longest_ejection = std::chrono::milliseconds(20);
  config.dispatch.rules.health.return_time = std::chrono::milliseconds(1);
  config.dispatch.failover.first_byte_timeout = config.dispatch.failover.idle_timeout = {};
  config.dispatch.retries = {.part = 1.0, .per_second = 1000.0};
  config.clock = &clock;
  config.random = &random;
  if (change) change(&config);
  StatusOr<std::unique_ptr<GatewayBackend>> made = GatewayBackend::Create(std::move(config));
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return;
  gateway = *std::move(made);
  gateway->WaitProbed(kTestPatience);
}

std::shared_ptr<RecordingSink> ScriptedGateway::Submit(Request request, int most) {
  auto sink = std::make_shared<RecordingSink>(most);
  const StatusOr<RequestId> id = gateway->Submit(std::move(request), sink);
  if (!id.ok()) sink->OnEnd(0, Outcome::Failed(id.status()));
  return sink;
}

Request ScriptedRequest(std::string prompt, uint64_t seed) {
  Request request;
  request.model = "m";
  request.prompt = std::move(prompt);
  request.sampling.seed = seed;
  return request;
}

BackendFacts ResumableFacts() {
  BackendFacts facts;
  facts.models = {"m"};
  facts.model_digest = "digest";
  facts.numerics = "3";
  facts.limits = "max_model_len 2048";
  return facts;
}

bool Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kTestPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace ropeway::gateway
