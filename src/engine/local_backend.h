// An engine in this process as a backend of a gateway.
#ifndef ROPEWAY_ENGINE_LOCAL_BACKEND_H_
#define ROPEWAY_ENGINE_LOCAL_BACKEND_H_

#include <functional>
#include <memory>

#include "engine/backend.h"
#include "ropeway/options.h"
#include "ropeway/remote_backend.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::engine {

// Submits each request to the engine, which has its own queue, classes and limits. Sinks are called
// on the engine's threads; that what waits in the engine is alive, they are told by Probe.
class LocalBackend final : public RemoteBackend {
 public:
  // Loads the model; see OpenLocalBackend.
  static StatusOr<std::shared_ptr<LocalBackend>> Open(EngineOptions options);

  explicit LocalBackend(std::shared_ptr<Backend> engine);

  std::unique_ptr<RemoteCall> Start(const Request& request, const ResumePoint* resume,
                                    std::shared_ptr<RemoteSink> sink) override;
  void Probe(std::function<void(StatusOr<BackendFacts>)> done) override;
  bool CanResume() const override { return can_resume_; }

  // For Tokenize and the like.
  const Backend* engine() const { return engine_.get(); }

 private:
  class Relay;
  class Call;
  struct Live;

  BackendFacts Facts() const;
  // Tells the sinks of what waits in the engine, or has had no output yet, that it is there.
  void TellAlive() const;

  const std::shared_ptr<Backend> engine_;
  const std::shared_ptr<Live> live_;
  const bool can_resume_;
};

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_LOCAL_BACKEND_H_
