// An engine as Python's module sees it: options and requests by the names of the flags and of the
// HTTP API, streams instead of callbacks.
#ifndef ROPEWAY_PYTHON_BINDINGS_ENGINE_H_
#define ROPEWAY_PYTHON_BINDINGS_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bindings/stream.h"
#include "engine/llm_engine.h"
#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/session.h"
#include "ropeway/status.h"

namespace ropeway::python {

// The options that these keywords mean. A keyword is a flag of `ropeway serve` that sets up an
// engine, with '_' for '-', and a text as the command line has it. kInvalidArgument names the
// keyword.
StatusOr<EngineOptions> OptionsOf(const std::vector<std::pair<std::string, std::string>>& keywords);

// What a request is beside its body.
struct Extras {
  std::optional<std::vector<TokenId>> prompt_ids;  // In place of the body's prompt.
  std::vector<TokenId> resume_ids;                 // Request::resume_ids.
  std::string tenant;
  std::string cache_scope;
  std::string session;
  uint32_t choice = 0;
};

class PythonEngine;

// A request that was submitted. Cheap to copy; may outlive its engine.
struct Handle {
  RequestId id = 0;
  std::shared_ptr<Stream> stream;
  std::weak_ptr<PythonEngine> engine;

  void Cancel() const;
};

// Thread-safe. Close may be called at any time, after which all else fails with kUnavailable.
class PythonEngine : public std::enable_shared_from_this<PythonEngine> {
 public:
  static StatusOr<std::shared_ptr<PythonEngine>> Open(EngineOptions options);
  ~PythonEngine() { Close(); }

  // `body`: of POST /v1/completions, or of /v1/chat/completions where `chat`. One prompt, n 1.
  StatusOr<Handle> Submit(const std::string& body, bool chat, Extras extras);
  // `body`: of POST /v1/embeddings. A handle for each input.
  StatusOr<std::vector<Handle>> Embed(const std::string& body, const std::string& tenant);
  Status Cancel(RequestId id);

  // The ids of a text, or of a chat (the body of a chat completion).
  StatusOr<std::vector<TokenId>> Tokenize(std::string text, bool add_special);
  StatusOr<std::vector<TokenId>> TokenizeChat(const std::string& body);
  // What the chat is rendered to.
  StatusOr<std::string> RenderChat(const std::string& body);
  StatusOr<std::string> Detokenize(const std::vector<TokenId>& ids);
  StatusOr<service::TokenizerInfo> DescribeTokenizer();

  StatusOr<service::ModelInfo> Model();
  StatusOr<EngineStats> Stats();
  StatusOr<std::string> MetricsText();
  StatusOr<std::vector<SessionInfo>> Sessions(const std::string& tenant);
  Status CloseSession(const std::string& id, const std::string& tenant);
  Status Drain(std::chrono::nanoseconds limit);

  // Cancels what is under way and stops the threads. Waits for calls of other threads to return.
  void Close();

 private:
  // The engine while a call of it runs.
  std::shared_ptr<engine::LlmEngine> Use() const;
  StatusOr<Handle> SubmitOne(engine::LlmEngine* engine, Request request);
  // Encodes the chat of a body to its end.
  StatusOr<std::unique_ptr<service::Tokenization>> EncodeChat(engine::LlmEngine* engine,
                                                              const std::string& body);

  base::RealClock clock_;
  base::SystemRandom random_;
  std::mutex close_mu_;  // A second Close waits for the first.
  mutable std::mutex mu_;
  std::shared_ptr<engine::LlmEngine> engine_;  // GUARDED_BY(mu_). Null: closed.
};

}  // namespace ropeway::python

#endif  // ROPEWAY_PYTHON_BINDINGS_ENGINE_H_
