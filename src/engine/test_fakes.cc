#include "engine/test_fakes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/tool_calls.h"
#include "engine/test_constraint.h"
#include "engine/test_failing_new.h"

namespace ropeway::engine {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

const std::array<char, 256>& AllBytes() {
  static const std::array<char, 256> bytes = [] {
    std::array<char, 256> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
    return all;
  }();
  return bytes;
}

class EndlessEncoding final : public tokenizer::Encoding {
 public:
  explicit EndlessEncoding(size_t bytes = 0, size_t bytes_each = 0)
      : bytes_each_(bytes_each), bytes_(bytes) {}

  bool Run(size_t) override {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    bytes_ += bytes_each_;
    return false;
  }
  size_t bytes() const override { return bytes_; }

 private:
  const size_t bytes_each_;
  size_t bytes_;
};

std::vector<TokenLogprob> TopLogprobs(int32_t count) {
  std::vector<TokenLogprob> top;
  for (int32_t k = 0; k < count; ++k) top.push_back({k, -static_cast<float>(k)});
  return top;
}

}  // namespace

void TestGate::Set(int64_t admitted) {
  {
    const std::lock_guard lock(mu_);
    admitted_ = admitted;
  }
  changed_.notify_all();
}

void TestGate::Pass() {
  std::unique_lock lock(mu_);
  ++waiting_;
  changed_.wait(lock, [this] { return admitted_ > 0; });
  --waiting_;
  if (admitted_ != INT64_MAX) --admitted_;
}

int TestGate::waiting() const {
  const std::lock_guard lock(mu_);
  return waiting_;
}

std::vector<TokenId> ByteTokenizer::Encode(std::string_view text,
                                           const tokenizer::EncodeOptions&) const {
  if (text.find(kPoison) != std::string_view::npos) throw std::bad_alloc();
  if (text.starts_with(kSlow)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (gate_ != nullptr && text.starts_with(kHeld)) gate_->Pass();
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::unique_ptr<tokenizer::Encoding> ByteTokenizer::Begin(std::string_view text,
                                                          const tokenizer::EncodeOptions& options,
                                                          size_t most) const {
  if (text.starts_with(kEndless)) return std::make_unique<EndlessEncoding>();
  constexpr size_t kMiB = size_t{1} << 20;
  if (text.starts_with(kGrowing)) return std::make_unique<EndlessEncoding>(0, kMiB);
  if (text.starts_with(kLarge)) return std::make_unique<EndlessEncoding>(kMiB);
  return WholeTokenizer::Begin(text, options, most);
}

std::string_view ByteTokenizer::Bytes(TokenId id, bool with_special) const {
  if (id < 256) return {&AllBytes()[static_cast<size_t>(id)], 1};
  if (!with_special) return {};
  return id == kEnd ? "<end>" : "<ctl>";
}

std::optional<TokenId> ByteTokenizer::Find(std::string_view token) const {
  if (token == "<end>") return kEnd;
  if (token == "<ctl>") return kControl;
  if (token.size() == 1) return static_cast<TokenId>(static_cast<unsigned char>(token[0]));
  return std::nullopt;
}

std::vector<uint64_t> EchoControl::FirstSteps() {
  const std::lock_guard lock(mu_);
  return first_steps_;
}

void EchoControl::NoteFirstStep(uint64_t sequence) {
  const std::lock_guard lock(mu_);
  if (std::find(first_steps_.begin(), first_steps_.end(), sequence) == first_steps_.end()) {
    first_steps_.push_back(sequence);
  }
}

StatusOr<executor::KvLayout> EchoExecutor::Init(int64_t kv_cache_bytes, int, int) {
  const size_t block_bytes = base::kBlockTokens * sizeof(TokenId);
  const size_t blocks = std::max<size_t>(1, static_cast<size_t>(kv_cache_bytes) / block_bytes);
  slots_.assign(blocks * base::kBlockTokens, 0);
  return executor::KvLayout{static_cast<int32_t>(blocks), block_bytes};
}

TokenId* EchoExecutor::At(const core::BatchItem& item, int32_t position) {
  const auto block =
      static_cast<size_t>(item.blocks[static_cast<size_t>(position / base::kBlockTokens)]);
  return &slots_[block * base::kBlockTokens + static_cast<size_t>(position % base::kBlockTokens)];
}

StatusOr<core::StepResult> EchoExecutor::Wait() {
  control_->step_gate.Pass();
  const int step = ++control_->steps;
  if (const int64_t micros = control_->step_micros.load(); micros > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(micros));
  }
  if (step == control_->fail_at_step) {
    return Status(StatusCode::kInternal, "the device fell off the bus");
  }
  if (step == control_->throw_at_step) throw std::runtime_error("out of luck");
  for (const core::BatchItem& item : batch_->items) {
    for (size_t i = 0; i < item.tokens.size(); ++i) {
      *At(item, item.start + static_cast<int32_t>(i)) = item.tokens[i];
    }
  }
  core::StepResult result;
  result.forward = std::chrono::microseconds(control_->step_micros.load());
  result.sampling = result.forward / 4;
  for (const core::BatchItem& item : batch_->items) {
    for (int32_t position = item.score_begin; position < item.score_end; ++position) {
      core::Scored& scored = result.scored.emplace_back();
      scored.sequence = item.sequence;
      scored.position = position;
      scored.token = item.ids[static_cast<size_t>(position)];
      scored.logprob = -0.25F * static_cast<float>(position);
      scored.top_logprobs = TopLogprobs(item.spec->num_prompt_logprobs);
    }
    if (item.start == 0) control_->NoteFirstStep(item.sequence);
    if (!item.sample) continue;
    const int32_t length = item.start + static_cast<int32_t>(item.tokens.size());
    core::Sampled sampled;
    sampled.sequence = item.sequence;
    sampled.token = *At(item, length - item.spec->prompt_len);
    if (item.spec->num_logprobs >= 0) sampled.logprob = -0.5F;
    sampled.top_logprobs = TopLogprobs(item.spec->num_logprobs);
    sampled.invalid =
        item.sequence == control_->no_logit_for.load() && length > item.spec->prompt_len;
    ApplyTestMask(item, ByteTokenizer::kControl + 1, &sampled);
    result.sampled.push_back(std::move(sampled));
  }
  return result;
}

void TestSink::Check(RequestId id, bool good, const char* violation) {
  if (id_ == 0) id_ = id;
  if (id != id_) violation = "the id changed", good = false;
  if (seen_.ends > 0) violation = "a call after the end", good = false;
  if (!good && seen_.violation.empty()) seen_.violation = violation;
}

void TestSink::OnAdmitted(RequestId id, const Admission& admission) {
  const NeverFailingNew calm;
  const std::lock_guard lock(mu_);
  Check(id, !seen_.admitted && seen_.deltas == 0, "OnAdmitted not once and first");
  seen_.admitted = true;
  seen_.prompt_tokens = admission.prompt_tokens;
  seen_.queue_position = admission.queue_position;
}

bool TestSink::OnDelta(RequestId id, Delta delta) {
  const NeverFailingNew calm;
  const std::lock_guard lock(mu_);
  const bool acts = does_ != OnDeltaDoes::kGoOn && seen_.deltas >= from_;
  Check(id, seen_.admitted, "OnDelta before OnAdmitted");
  Check(id, !acts || seen_.deltas == from_, "OnDelta after the sink wanted no more");
  ++seen_.deltas;
  seen_.text += delta.text;
  seen_.reasoning += delta.reasoning;
  base::AddCalls(delta.tool_calls, &seen_.tool_calls);
  for (OutputToken& token : delta.tokens) seen_.tokens.push_back(std::move(token));
  Check(id, delta.prompt_tokens.empty() || seen_.tokens.empty(), "the prompt after the output");
  for (OutputToken& token : delta.prompt_tokens) seen_.prompt.push_back(std::move(token));
  changed_.notify_all();
  if (acts && does_ == OnDeltaDoes::kThrow) throw std::runtime_error("the sink is broken");
  return !acts;
}

void TestSink::OnAlive(RequestId id) {
  const NeverFailingNew calm;
  const std::lock_guard lock(mu_);
  Check(id, seen_.ends == 0, "OnAlive after the end");
  ++seen_.alive;
}

void TestSink::OnEnd(RequestId id, const Outcome& outcome) {
  const NeverFailingNew calm;
  const std::lock_guard lock(mu_);
  const FinishReason reason = outcome.finish.reason;
  const bool answered = reason == FinishReason::kStop || reason == FinishReason::kLength;
  const bool cancelled = reason == FinishReason::kCancelled;
  Check(id, outcome.status.ok() == answered, "a status that does not fit the reason");
  Check(id, cancelled == (outcome.status.code() == StatusCode::kCancelled),
        "a reason that does not fit the status");
  if (answered || (cancelled && seen_.admitted)) {
    Check(id, seen_.admitted, "an answer before OnAdmitted");
    seen_.finish = outcome.finish;
  } else {
    seen_.error = outcome.status;
    seen_.failure = outcome.kind;
  }
  ++seen_.ends;
  changed_.notify_all();
}

TestSink::Seen TestSink::Get() const {
  const std::lock_guard lock(mu_);
  return seen_;
}

bool TestSink::HasEnded() const {
  const std::lock_guard lock(mu_);
  return seen_.ends > 0;
}

bool TestSink::WaitForEnd() const {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, kPatience, [this] { return seen_.ends > 0; });
}

TestSink::Seen TestSink::WaitEnd() const {
  WaitForEnd();
  const std::lock_guard lock(mu_);
  EXPECT_EQ(seen_.ends, 1);
  EXPECT_EQ(seen_.violation, "");
  return seen_;
}

bool TestSink::WaitDeltas(int count) const {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, kPatience, [&] { return seen_.deltas >= count; });
}

std::shared_ptr<TestSink> NewSink() { return std::make_shared<TestSink>(); }

Request TextRequest(const std::string& text) {
  Request request;
  request.prompt = text;
  return request;
}

bool Eventually(const std::function<bool()>& holds) {
  const auto patience = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > patience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

double IdleCpuShare() {
  double least = 1;
  for (int window = 0; window < 5 && least > 0.05; ++window) {
    const std::clock_t cpu = std::clock();  // Of all threads.
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    const double used = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    least = std::min(least, used / wall.count());
  }
  return least;
}

TestEngine::TestEngine() {
  options.cache.kv_bytes = EchoExecutor::PoolBytes(4096);
  options.threads = 1;
}

TestEngine::~TestEngine() {
  control->encoding_gate.Open();
  control->step_gate.Open();
}

void TestEngine::Start() {
  LlmEngineConfig config;
  config.options = options;
  config.served_name = "echo";
  config.model_context_length = context_length;
  config.max_request_bytes = max_request_bytes;
  config.created = 1;
  config.watchdog_period = watchdog_period;
  if (check_integrity) config.check_integrity = true;
  config.tokenizer = tokenizer;
  if (tokenizer == nullptr) {
    config.tokenizer = std::make_shared<ByteTokenizer>(&control->encoding_gate);
  }
  config.render_chat = render_chat;
  config.answers = answers;
  config.executor = std::make_unique<EchoExecutor>(control);
  if (state != nullptr)
    config.state_writer = std::make_shared<store::StateWriter>(std::move(state));
  config.tier = std::move(tier);
  config.clock = &clock;
  config.random = &random;
  StatusOr<std::unique_ptr<LlmEngine>> created = LlmEngine::Create(std::move(config));
  ASSERT_TRUE(created.ok()) << created.status().message();
  engine = *std::move(created);
}

RequestId TestEngine::Submit(const std::string& text, int32_t max_tokens,
                             std::shared_ptr<Sink> sink) {
  Request request;
  request.prompt = text;
  request.max_tokens = max_tokens;
  const StatusOr<RequestId> id = engine->Submit(std::move(request), std::move(sink));
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id.ok() ? *id : 0;
}

}  // namespace ropeway::engine
