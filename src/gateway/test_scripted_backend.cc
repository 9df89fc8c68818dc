#include "gateway/test_scripted_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

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

}  // namespace

std::string ExpectedText(const Request& request, int tokens) {
  std::string text;
  for (int i = 0; i < tokens; ++i) text += TextAt(request, i);
  return text;
}

// --- The backend.

struct ScriptedBackend::Stream {
  std::mutex mu;                     // Held while the sink is called.
  std::shared_ptr<RemoteSink> sink;  // Null: it was told the end, or its call is destroyed.
  Request request;
  BackendScript script;
  int at = 0;    // Tokens, with those before the attempt.
  int said = 0;  // Of the attempt.
  std::string held;
  bool prompt_said = false;
  std::chrono::steady_clock::time_point hangs_since{};  // 0: it has not hung.

  // One more step; false: there are no more.
  bool Step(bool lost) {
    const std::lock_guard lock(mu);
    if (sink == nullptr) return false;
    if (lost)
      return Fail({.kind = BackendFailure::Kind::kBroken,
                   .status = {StatusCode::kUnavailable, "it was killed"}});
    if (Hangs()) return true;
    if (said == script.fail_after) return Fail(script.failure);
    if (request.prompt_logprobs && !std::exchange(prompt_said, true)) {
      SayPrompt();
      return true;
    }
    if (at >= script.tokens) return End();
    SayToken();
    return true;
  }

 private:
  bool Hangs() {
    if (said != script.hang_after) return false;
    if (script.alive_for.count() == 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (hangs_since == std::chrono::steady_clock::time_point{}) hangs_since = now;
    if (now - hangs_since >= script.alive_for) return false;
    sink->OnAlive();
    return true;
  }

  bool Fail(BackendFailure failure) {
    std::exchange(sink, nullptr)->OnFailure(std::move(failure));
    return false;
  }

  void SayPrompt() {
    Delta delta;
    for (int i = 0; i < 3; ++i) {
      OutputToken& token = delta.prompt_tokens.emplace_back();
      token.id = i;
      token.logprob = -1.0F;
    }
    sink->OnDelta(std::move(delta));
  }

  void SayToken() {
    Delta delta;
    std::string text = std::exchange(held, {}) + script.add_to_text + TextAt(request, at);
    (HeldAt(at) && script.says_tokens ? held : delta.text) = std::move(text);
    if (script.says_tokens) {
      OutputToken& token = delta.tokens.emplace_back();
      token.id = IdAt(request, at) + script.add_to_ids;
      token.bytes = TextAt(request, at);
      token.logprob = -static_cast<float>(token.id % 100) / 16;
    }
    ++at;
    ++said;
    sink->OnDelta(std::move(delta));
  }

  bool End() {
    if (!held.empty()) {
      Delta rest;
      rest.text = std::exchange(held, {});
      sink->OnDelta(std::move(rest));
      return true;  // A loss may come between.
    }
    BackendEnd end;
    end.reason = script.reason;
    if (script.says_usage) {
      end.prompt_tokens = 7;
      end.completion_tokens = at;
      end.cached_tokens = 2;
    }
    std::exchange(sink, nullptr)->OnEnd(script.end.value_or(end));
    return false;
  }
};

class ScriptedBackend::Call final : public RemoteCall {
 public:
  Call(std::shared_ptr<Stream> stream, std::atomic<int>* destroyed)
      : stream_(std::move(stream)), destroyed_(destroyed) {}
  ~Call() override {
    std::shared_ptr<RemoteSink> dropped;
    {
      const std::lock_guard lock(stream_->mu);
      dropped.swap(stream_->sink);
    }
    ++*destroyed_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  const std::shared_ptr<Stream> stream_;
  std::atomic<int>* const destroyed_;
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

std::unique_ptr<RemoteCall> ScriptedBackend::Start(const Request& request,
                                                   const ResumePoint* resume,
                                                   std::shared_ptr<RemoteSink> sink) {
  auto stream = std::make_shared<Stream>();
  stream->request = request;
  if (script_) stream->script = script_(request, resume);
  if (stream->script.throw_in_start) throw std::runtime_error("Start threw");
  ++started_;
  if (resume != nullptr) {
    ++resumed_;
    stream->at = static_cast<int>(resume->ids.size());
    EXPECT_EQ(resume->seed, request.sampling.seed);
    for (int i = 0; i < stream->at && stream->script.checks_ids; ++i) {
      EXPECT_EQ(resume->ids[static_cast<size_t>(i)], IdAt(request, i));
    }
    if (stream->at > 0 && HeldAt(stream->at - 1)) stream->held = TextAt(request, stream->at - 1);
  }
  bool dead = false;
  {
    const std::lock_guard lock(mu_);
    requests_.push_back(request);
    dead = dead_;
    if (!dead && !stream->script.fail_in_start) {
      stream->sink = sink;
      streams_.push_back(stream);
    }
  }
  if (dead) {
    sink->OnFailure({.kind = BackendFailure::Kind::kUnreachable,
                     .status = {StatusCode::kUnavailable, "it is dead"}});
  } else if (stream->script.fail_in_start) {
    sink->OnFailure(stream->script.failure);
  }
  return std::make_unique<Call>(std::move(stream), &destroyed_);
}

void ScriptedBackend::Probe(std::function<void(StatusOr<BackendFacts>)> done) {
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

void RecordingSink::OnAdmitted(RequestId, const engine::Admission&) {
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
  for (OutputToken& token : delta.tokens) record_.tokens.push_back(std::move(token));
  for (OutputToken& token : delta.prompt_tokens) record_.prompt_tokens.push_back(std::move(token));
  changed_.notify_all();
  return most_ < 0 || record_.deltas < most_;
}

void RecordingSink::OnFinish(RequestId, const Finish& finish) {
  const std::lock_guard lock(mu_);
  record_.in_order = record_.in_order && record_.admitted == 1 && record_.ends == 0;
  ++record_.ends;
  record_.finish = finish;
  changed_.notify_all();
}

void RecordingSink::OnError(RequestId, const Status& status) {
  const std::lock_guard lock(mu_);
  record_.in_order = record_.in_order && record_.ends == 0;
  ++record_.ends;
  record_.status = status;
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
  GatewayConfig::Model& model = config.models.emplace_back();
  model.name = "m";
  for (size_t i = 0; i < backends.size(); ++i) {
    model.backends.push_back({.name = std::string(1, static_cast<char>('a' + i)),
                              .remote = backends[i],
                              .weight = 1.0,
                              .max_concurrency = 1000});
  }
  config.dispatch.rules.health.probe_interval = std::chrono::milliseconds(20);
  config.dispatch.rules.health.probe_again = std::chrono::milliseconds(5);
  config.dispatch.rules.health.ejection = std::chrono::milliseconds(5);
  config.dispatch.rules.health.longest_ejection = std::chrono::milliseconds(20);
  config.dispatch.rules.health.return_time = std::chrono::milliseconds(1);
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
  if (!id.ok()) sink->OnError(0, id.status());
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
