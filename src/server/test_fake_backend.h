// A Backend for the server's tests. Its own thread emits scripted output, one delta per request and
// step; it records the calls that it gets.
#ifndef ROPEWAY_SERVER_TEST_FAKE_BACKEND_H_
#define ROPEWAY_SERVER_TEST_FAKE_BACKEND_H_

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "service/front_desk.h"

namespace ropeway::server {

// How one request runs and ends.
struct FakeScript {
  bool admit = true;             // Else it waits unadmitted, without an end, until it is cancelled.
  bool starts = true;            // Else it waits admitted, until it is cancelled.
  bool ends = true;              // Else an embedding is told, but not its end.
  int32_t embedding_size = 0;    // Numbers of its embedding; 0: as the model has.
  bool endless = false;          // Else it ends after max_tokens deltas.
  int fail_after = -1;           // It fails after so many deltas; -1: never. Beforehand if 0 and
  bool fail_unadmitted = false;  // this is set.
  bool fail_in_submit = false;   // Submit itself admits it and fails it, before it returns.
  Status failure;
  std::function<std::string(int)> text = [](int i) { return fmt::format("w{} ", i); };
  Status rejection;            // Submit fails with it, unless it is OK.
  std::string prompt_begin;    // The vocabulary's prefix of any text.
  bool finish_failed = false;  // It ends as FinishReason::kFailed.
  int32_t prompt_tokens = 3;   // Its Admission's.
  int32_t queue_position = 0;  // Its Admission's; and of Requests() until it is admitted.
};

// The fake's vocabulary: a token a byte, and token 1 begins a text.
inline constexpr std::string_view kFakeBegin = "<s>";

// A text that begins so is tokenized in pieces without an end.
inline constexpr std::string_view kFakeEndless = "ENDLESS";
// A text that begins so has no end either, and each piece takes another MiB of memory.
inline constexpr std::string_view kFakeGrowing = "GROWING";

class FakeBackend final : public service::FrontDesk {
 public:
  using ScriptFn = std::function<FakeScript(const Request&)>;

  FakeBackend();
  ~FakeBackend() override;

  // Test controls; any thread.
  void set_script(ScriptFn script);
  void set_rejection(Status rejection);  // Submit fails with it, unless it is OK.
  void set_health(service::Health health);
  void set_tokenize_hook(std::function<void()> hook);  // Runs in each Tokenize, on its thread.
  // Before the server starts: all that needs the tokenizer fails with it.
  void set_no_tokenizer(Status status) { no_tokenizer_ = std::move(status); }
  int tokenizations() const { return tokenizations_; }  // Texts that are being tokenized.
  void set_step_pause(std::chrono::microseconds pause);
  // These before the server starts. A tenant's wait is the queue's times its weight.
  void set_queue(service::QueueInfo queue) { queue_ = std::move(queue); }
  void set_stats(EngineStats stats) { stats_ = std::move(stats); }
  // What it has done; steps and ends behind a cursor are shown.
  void set_activity(service::Activity activity);
  bool watched() const { return watched_; }
  int looks() const { return looks_; }  // Calls of ActivityAfter.
  void set_sampling(SamplingParams sampling) { sampling_ = std::move(sampling); }
  void set_backends(std::vector<BackendStatus> backends) { backends_ = std::move(backends); }
  void set_models(std::vector<service::ModelInfo> models) { models_ = std::move(models); }
  // A model that it accepts though Models() does not list it.
  void set_unlisted(std::string model) { unlisted_ = std::move(model); }
  void set_hold_failures(bool hold);  // Failures after admission wait while true.
  void set_hold_steps(bool hold);     // No request gets on, nor is one cancelled, while true.
  std::vector<Request> submitted() const;
  std::vector<size_t> submissions() const;  // How many requests each SubmitAll had.
  int active() const;
  int most_active() const;  // That there were at once.
  // What it embeds a text as, in `size` numbers.
  static std::vector<float> EmbeddingOf(const std::string& text, int32_t size);
  int cancelled() const;   // Requests that ended by Cancel or by an OnDelta that returned false.
  int64_t deltas() const;  // OnDelta calls in all.
  // True if all requests end within a minute; a passing test waits for milliseconds.
  bool WaitIdle() const;
  bool WaitActive(int count) const;
  bool WaitDeltas(int64_t count) const;

  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override;
  Status Cancel(RequestId id) override;
  std::vector<service::ModelInfo> Models() const override;
  bool MayServe(const std::string& model) const override { return model == unlisted_; }
  service::Health GetHealth() const override;
  std::string MetricsText() const override { return "fake_metric 1\n"; }
  int RetryAfterSeconds(const std::string& tenant) const override {
    return tenant == "two" ? 9 : 7;
  }
  std::vector<service::RequestInfo> Requests() const override;
  service::QueueInfo Queue(const std::string* tenant, double weight) const override;
  EngineStats Stats() const override { return stats_; }
  void SetWatched(bool watched) override { watched_ = watched; }
  service::Activity ActivityAfter(const service::ActivityCursor& cursor) const override;
  std::vector<BackendStatus> Backends() const override { return backends_; }
  StatusOr<std::unique_ptr<service::Tokenization>> Tokenize(std::string, bool) const override;
  StatusOr<std::unique_ptr<service::Tokenization>> TokenizeChat(Chat, bool) const override;
  StatusOr<std::string> Detokenize(const std::vector<TokenId>&) const override;
  StatusOr<service::TokenizerInfo> DescribeTokenizer() const override {
    if (!no_tokenizer_.ok()) return no_tokenizer_;
    return service::TokenizerInfo{"", "</s>", "{{ messages }}"};
  }
  Status Drain(std::chrono::nanoseconds deadline) override;

 private:
  struct Running {
    Request request;
    FakeScript script;
    std::shared_ptr<Sink> sink;
    bool admitted = false;
    bool cancelled = false;
    bool prompt_sent = false;
    int emitted = 0;
    uint64_t text_bytes = 0;
  };

  StatusOr<RequestId> SubmitOne(SinkRequest request);
  void Run();
  // Advances one request; false where it ended.
  bool Step(RequestId id, Running* running);
  bool WaitFor(const std::function<bool()>& holds) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  ScriptFn script_;
  Status rejection_;
  service::Health health_;
  service::QueueInfo queue_;
  EngineStats stats_;
  service::Activity activity_;
  std::atomic<bool> watched_{false};
  mutable std::atomic<int> looks_{0};
  SamplingParams sampling_;
  std::vector<BackendStatus> backends_;
  std::vector<service::ModelInfo> models_;  // Empty: "fake-model" alone.
  std::string unlisted_ = "-";
  std::function<void()> tokenize_hook_;
  Status no_tokenizer_;
  mutable std::atomic<int> tokenizations_{0};
  std::chrono::microseconds pause_{100};
  std::map<RequestId, Running> running_;
  std::vector<Request> submitted_;
  std::vector<size_t> submissions_;
  RequestId next_id_ = 1;
  bool hold_failures_ = false;
  bool hold_steps_ = false;
  int cancelled_ = 0;
  size_t most_active_ = 0;
  int64_t deltas_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TEST_FAKE_BACKEND_H_
