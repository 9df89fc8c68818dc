// A Backend that does as a test says, a sink that keeps what it is told, and gateways of them.
#ifndef ROPEWAY_GATEWAY_TEST_SCRIPTED_BACKEND_H_
#define ROPEWAY_GATEWAY_TEST_SCRIPTED_BACKEND_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "gateway/gateway_backend.h"
#include "ropeway/backend.h"
#include "service/front_desk.h"

namespace ropeway::gateway {

// How one attempt goes.
struct BackendScript {
  int tokens = 5;       // Of the whole answer; then it ends, as kLength.
  int fail_after = -1;  // OnEnd(failure) after so many tokens of the attempt; -1: never.
  Outcome failure = Outcome::Failed(FailureKind::kBroken, {StatusCode::kUnavailable, "it broke"});
  bool fail_in_start = false;  // SubmitAll itself calls OnEnd.
  bool throw_in_start = false;
  int hang_after = -1;  // It says nothing more after so many tokens; -1: never.
  // While it hangs, it says for so long that it is alive, and then goes on.
  std::chrono::milliseconds alive_for{0};
  bool says_usage = true;
  std::optional<Finish> end = {};  // What it says of its end; nothing: the truth.
  bool says_tokens = true;         // Else it sends text alone.
  FinishReason reason = FinishReason::kLength;
  // Lies: the ids of its tokens are others, and so is its text.
  TokenId add_to_ids = 0;
  std::string add_to_text = {};
  bool checks_ids = true;  // It expects to go on from true ones.
  // Of nine tokens three are a thought, three text and three a call of a tool, whose id begins so;
  // "": all are text.
  std::string calls = {};
};

// Its answers depend on the request and the seed alone: a token has an id, a log-prob and a text.
// The text of each third one comes with the next token, or at the end behind all tokens, as half a
// character's does. Calls are answered by a thread of its own, a token of each in a round.
class ScriptedBackend final : public Backend {
 public:
  using ScriptFn = std::function<BackendScript(const Request&)>;

  explicit ScriptedBackend(ScriptFn script = {});
  ~ScriptedBackend() override;

  // Test controls; any thread.
  void set_facts(BackendFacts facts);
  void set_resumes(bool resumes) { resumes_ = resumes; }
  void set_unknown(std::vector<std::string> unknown) { unknown_ = std::move(unknown); }
  void set_pause(std::chrono::microseconds pause) { pause_ = pause; }
  // Ends all calls as lost, and takes no more until Revive.
  void Kill();
  void Revive();
  int started() const { return started_; }
  int resumed() const { return resumed_; }
  int open() const { return started_ - ended_; }  // Whose sinks have not had their end.
  std::vector<Request> requests() const;          // As they came.

  StatusOr<std::vector<RequestId>> SubmitAll(std::vector<SinkRequest> requests) override;
  Status Cancel(RequestId id) override;
  void Probe(ProbeFn done) override;
  bool CanResume() const override { return resumes_; }
  std::vector<std::string> Unknown(const Request&) const override { return unknown_; }

 private:
  struct Stream;

  RequestId Start(SinkRequest one);
  void Run();

  const ScriptFn script_;
  std::atomic<bool> resumes_{false};
  std::vector<std::string> unknown_;
  std::atomic<std::chrono::microseconds> pause_{std::chrono::microseconds(200)};
  std::atomic<int> started_{0};
  std::atomic<int> resumed_{0};
  std::atomic<int> ended_{0};
  mutable std::mutex mu_;
  BackendFacts facts_;
  bool dead_ = false;
  bool stopping_ = false;
  RequestId last_id_ = 0;
  std::vector<Request> requests_;
  std::list<std::shared_ptr<Stream>> streams_;
  std::thread thread_;
};

// Keeps what it is told, and checks the order of the calls. Thread-safe.
class RecordingSink final : public Sink {
 public:
  // `most`: OnDelta returns false once there were so many deltas; -1: never.
  explicit RecordingSink(int most = -1) : most_(most) {}

  void OnAdmitted(RequestId id, const Admission& admission) override;
  bool OnDelta(RequestId id, Delta delta) override;
  void OnEnd(RequestId id, const Outcome& outcome) override;

  struct Record {
    int admitted = 0;
    int deltas = 0;
    int ends = 0;
    bool in_order = true;
    std::string text;
    ChatMessage answer{"assistant", ""};  // The text too.
    std::vector<OutputToken> tokens;
    std::vector<OutputToken> prompt_tokens;
    std::vector<float> embedding;
    std::optional<Finish> finish;  // Of an answer, or of a cancel after it was admitted.
    Status status;                 // Of any other end.
  };
  Record record() const;
  // Waits until it was told the end; a passing test waits for milliseconds.
  Record WaitEnd() const;
  bool WaitDeltas(int count) const;
  bool WaitAdmitted() const;

 private:
  bool WaitFor(const std::function<bool()>& holds) const;

  const int most_;
  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  Record record_;
};

// The output of all tokens of a request, as text.
std::string ExpectedText(const Request& request, int tokens);
// What it embeds a prompt as.
std::vector<float> ExpectedEmbedding(const Request& request);
// The same of a backend that calls tools.
ChatMessage ExpectedAnswer(const Request& request, int tokens, const std::string& calls);
std::string Shown(const ChatMessage& answer);

// A gateway of scripted backends "a", "b", ... of the model "m", which the test keeps.
struct ScriptedGateway {
  // Changes the configuration before the gateway starts.
  using ConfigFn = std::function<void(GatewayConfig*)>;
  explicit ScriptedGateway(std::vector<std::shared_ptr<ScriptedBackend>> backends,
                           const ConfigFn& change = {});

  std::vector<std::shared_ptr<ScriptedBackend>> backends;
  base::RealClock clock;
  base::SeededRandom random{7};
  std::unique_ptr<GatewayBackend> gateway;  // Last.

  // Submits it; the sink has its end at once if that fails.
  std::shared_ptr<RecordingSink> Submit(Request request, int most = -1);
  GatewayBackend* operator->() { return gateway.get(); }
};

// A request for the model "m".
Request ScriptedRequest(std::string prompt = "Once upon a time", uint64_t seed = 11);
// Facts of a backend whose streams can go on elsewhere.
BackendFacts ResumableFacts();
// Waits until it holds; false after a minute.
bool Eventually(const std::function<bool()>& holds);

}  // namespace ropeway::gateway

#endif  // ROPEWAY_GATEWAY_TEST_SCRIPTED_BACKEND_H_
