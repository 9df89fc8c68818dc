// Parts of an engine without a model: a tokenizer of bytes and an executor that echoes.
#ifndef ROPEWAY_ENGINE_TEST_FAKES_H_
#define ROPEWAY_ENGINE_TEST_FAKES_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/llm_engine.h"
#include "executor/executor.h"
#include "service/front_desk.h"
#include "tokenizer/test_whole_tokenizer.h"

namespace ropeway::engine {

// Holds back the threads that pass it, while it is closed.
class TestGate {
 public:
  void Close() { Set(0); }
  void Open() { Set(INT64_MAX); }
  // A closed gate lets so many pass.
  void Admit(int64_t count) { Set(count); }
  void Pass();
  int waiting() const;

 private:
  void Set(int64_t admitted);

  mutable std::mutex mu_;
  std::condition_variable changed_;
  int64_t admitted_ = INT64_MAX;
  int waiting_ = 0;
};

// Ids 0 .. 255 are the bytes, 256 is the end token "<end>", 257 a control token "<ctl>".
class ByteTokenizer final : public tokenizer::WholeTokenizer {
 public:
  static constexpr TokenId kEnd = 256;
  static constexpr TokenId kControl = 257;

  // `gate` is passed by each text that begins with kHeld.
  explicit ByteTokenizer(TestGate* gate = nullptr) : gate_(gate) {}

  std::vector<TokenId> Encode(std::string_view text,
                              const tokenizer::EncodeOptions&) const override;
  std::unique_ptr<tokenizer::Encoding> Begin(std::string_view text,
                                             const tokenizer::EncodeOptions& options,
                                             size_t most) const override;
  std::string_view Bytes(TokenId id, bool with_special) const override;
  bool IsEnd(TokenId id) const override { return id == kEnd; }
  bool IsSpecial(TokenId id) const override { return id >= kEnd; }
  int32_t vocab_size() const override { return 258; }
  std::optional<TokenId> Find(std::string_view token) const override;
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return kEnd; }

  // A text that holds it throws std::bad_alloc when it is encoded.
  static constexpr const char* kPoison = "POISON";
  // Text that begins so takes 20 ms to encode.
  static constexpr const char* kSlow = "SLOW";
  // Text that begins so is encoded once the gate lets it pass.
  static constexpr const char* kHeld = "HELD";
  // Text that begins so is encoded in pieces without an end.
  static constexpr const char* kEndless = "ENDLESS";
  // Text that begins so is encoded without an end too, and takes a MiB of memory with each piece.
  static constexpr const char* kGrowing = "GROWING";
  // Text that begins so takes one MiB of memory from its first piece on.
  static constexpr const char* kLarge = "LARGE";

 private:
  TestGate* const gate_;
};

// Lets a test control a running EchoExecutor, which it must outlive.
struct EchoControl {
  std::atomic<int64_t> step_micros{0};  // How long a step takes, a quarter of it sampling.
  std::atomic<int> fail_at_step{0};     // 0: never.
  std::atomic<int> throw_at_step{0};    // 0: never.
  // The sequence without a usable logit from its second token on; 0: none.
  std::atomic<uint64_t> no_logit_for{0};
  std::atomic<int> steps{0};

  TestGate step_gate;      // Each step passes it.
  TestGate encoding_gate;  // Texts that begin with ByteTokenizer::kHeld pass it to be encoded.
  void CloseGate() { step_gate.Close(); }
  void OpenGate() { step_gate.Open(); }

  // The sequences in the order of their first step.
  std::vector<uint64_t> FirstSteps();
  void NoteFirstStep(uint64_t sequence);

 private:
  std::mutex mu_;
  std::vector<uint64_t> first_steps_;
};

// Generates the prompt again and again: token i is prompt[i % prompt length], read back through the
// block table. So a test writes the output that it wants as the prompt. The log-prob of a prompt's
// id is minus a quarter of its position.
class EchoExecutor final : public executor::Executor {
 public:
  explicit EchoExecutor(std::shared_ptr<EchoControl> control) : control_(std::move(control)) {}

  StatusOr<executor::KvLayout> Init(int64_t kv_cache_bytes, int max_num_batched_tokens,
                                    int max_num_seqs) override;
  void Launch(const core::Batch& batch) override { batch_ = &batch; }
  StatusOr<core::StepResult> Wait() override;
  void ReadBlock(core::BlockId, std::span<std::byte>) override {}
  void WriteBlock(core::BlockId, std::span<const std::byte>) override {}
  Status FinishReads() override { return {}; }

  static int64_t PoolBytes(int64_t blocks) {
    return blocks * base::kBlockTokens * static_cast<int64_t>(sizeof(TokenId));
  }

 private:
  TokenId* At(const core::BatchItem& item, int32_t position);

  const std::shared_ptr<EchoControl> control_;
  const core::Batch* batch_ = nullptr;
  std::vector<TokenId> slots_;  // [block][kBlockTokens]
};

// Collects one request's output, and checks the sink's contract as it does.
class TestSink final : public Sink {
 public:
  enum class OnDeltaDoes { kGoOn, kStop, kThrow };

  // From delta `from` on (0 is the first) OnDelta does `does`.
  explicit TestSink(OnDeltaDoes does = OnDeltaDoes::kGoOn, int from = 0)
      : does_(does), from_(from) {}

  void OnAdmitted(RequestId id, const Admission& admission) override;
  bool OnDelta(RequestId id, Delta delta) override;
  void OnAlive(RequestId id) override;
  void OnEnd(RequestId id, const Outcome& outcome) override;

  // What there was so far. `violation` is the first breach of the contract.
  struct Seen {
    std::string text;
    std::string reasoning;
    std::vector<ToolCall> tool_calls;
    std::vector<OutputToken> tokens;
    std::vector<OutputToken> prompt;  // What the deltas said of the prompt's tokens.
    int deltas = 0;
    int ends = 0;
    bool admitted = false;
    int32_t prompt_tokens = 0;
    int32_t queue_position = 0;
    std::optional<Finish> finish;  // Of an answer, or of a cancel after it was admitted.
    Status error;                  // Of any other end, with its kind.
    FailureKind failure = FailureKind::kBroken;
    int alive = 0;
    std::string violation;
  };
  Seen Get() const;
  bool HasEnded() const;  // Takes no memory.
  // Waits for the end, for at most a minute; false if it did not come. Takes no memory.
  bool WaitForEnd() const;
  // Waits as WaitForEnd does, and returns what was seen.
  Seen WaitEnd() const;
  // Waits for delta number `count`, for at most a minute; false if it did not come.
  bool WaitDeltas(int count) const;

 private:
  void Check(RequestId id, bool good, const char* violation);

  const OnDeltaDoes does_;
  const int from_;
  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  Seen seen_;
  RequestId id_ = 0;
};

std::shared_ptr<TestSink> NewSink();
// To go on with `text`.
Request TextRequest(const std::string& text);

// Waits until `holds`, for at most a minute; whether it does.
bool Eventually(const std::function<bool()>& holds);

// The least share of one core that this process used in one of a few windows of time: something
// that spins or polls shows in each of them, a late thread of the machine's in one.
double IdleCpuShare();

// The real time plus `skipped`.
class SkippingClock final : public base::Clock {
 public:
  base::TimePoint Now() const override {
    return real_.Now() + std::chrono::seconds(skipped.load());
  }
  std::atomic<int64_t> skipped{0};  // Seconds.

 private:
  base::RealClock real_;
};

// An LlmEngine of the fakes. Change what is to differ before Start.
struct TestEngine {
  TestEngine();
  ~TestEngine();  // Opens the gates first.

  // Fails the test where Create fails.
  void Start();
  // Submits text; fails the test where that is rejected.
  RequestId Submit(const std::string& text, int32_t max_tokens, std::shared_ptr<Sink> sink);

  SkippingClock clock;
  base::SeededRandom random{1};
  EngineOptions options;
  ChatRenderer render_chat;
  std::shared_ptr<const ModelAnswers> answers;            // Null: answers are text.
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;  // Null: a ByteTokenizer.
  int32_t context_length = 4096;
  int64_t max_request_bytes = int64_t{1} << 30;
  bool check_integrity = false;
  base::Duration watchdog_period = std::chrono::seconds(1);
  std::shared_ptr<EchoControl> control = std::make_shared<EchoControl>();
  std::unique_ptr<store::StateDb> state;  // Start takes it; null: as the options say.
  std::unique_ptr<kvcache::KvTier> tier;  // Start takes it; null: none.
  std::unique_ptr<LlmEngine> engine;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_TEST_FAKES_H_
