// A gateway before one or more engines: their servers, or engines in this process. It queues by
// class, and sends each request to the engine that suits it.
//
//   gateway WHERE [WHERE...]      each http://HOST:PORT of an engine's server, or a model file
#include "ropeway/gateway.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ropeway/engine.h"

namespace {

int Fail(const ropeway::Status& status) {
  std::fprintf(stderr, "gateway: %s\n", status.message().c_str());
  return 1;
}

ropeway::Request Question(const char* text, ropeway::Priority priority) {
  ropeway::Request request;
  request.prompt = ropeway::Chat{.messages = {{"user", text}}};
  request.priority = priority;
  request.sampling.temperature = 0;
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: gateway WHERE [WHERE...]\n");
    return 2;
  }
  // All backends here serve one model: they are its replicas. Without a name of its own here, it is
  // called as they call it.
  ropeway::GatewayOptions options;
  ropeway::GatewayModel& model = options.models.emplace_back();
  for (int i = 1; i < argc; ++i) {
    ropeway::BackendOptions backend;
    const std::string where = argv[i];
    if (where.starts_with("http")) {
      backend.url = where;
      backend.kind = "openai";  // Or "llamacpp", "ollama", "ropeway".
    } else {
      ropeway::EngineOptions engine;
      engine.model.path = where;
      auto opened = ropeway::OpenLocalBackend(engine);
      if (!opened.ok()) return Fail(opened.status());
      backend.backend = *opened;
    }
    model.backends.push_back(backend);
  }
  auto gateway = ropeway::Gateway::Create(options);
  if (!gateway.ok()) return Fail(gateway.status());

  // Work that may wait: class low goes after all others.
  ropeway::Request story = Question("Tell me a long story.", ropeway::Priority::kLow);
  story.max_tokens = 1000;
  auto background = (*gateway)->Infer(std::move(story));
  if (!background.ok()) return Fail(background.status());

  // A person waits for this answer. The callback gets each piece of text as it comes, on a thread
  // of the gateway's; returning false would cancel.
  ropeway::Request urgent = Question("What is the capital of France?", ropeway::Priority::kHigh);
  urgent.max_tokens = 40;
  auto answer =
      (*gateway)->Infer(std::move(urgent), [](ropeway::RequestId, const ropeway::Delta& delta) {
        std::fwrite(delta.text.data(), 1, delta.text.size(), stdout);
        return true;
      });
  if (!answer.ok()) return Fail(answer.status());
  const auto result = answer->Wait();
  if (!result.ok()) return Fail(result.status());
  if (!result->status.ok()) return Fail(result->status);  // Names the backend, and what it said.
  std::printf("\n(%s, %d tokens)\n", ropeway::FinishReasonName(result->finish.reason),
              result->finish.usage.completion_tokens);

  // The story is not needed any more. Its backend hears of that at once.
  background->Cancel();
  const auto cancelled = background->Wait();
  if (!cancelled.ok()) return Fail(cancelled.status());
  std::printf("(the story: %s)\n", ropeway::FinishReasonName(cancelled->finish.reason));

  for (const ropeway::BackendStatus& backend : (*gateway)->Health().backends) {
    std::printf("backend %s: %s, was sent %llu requests\n", backend.name.c_str(),
                backend.state.c_str(), static_cast<unsigned long long>(backend.sent));
  }
  // No new requests; those under way may end within five seconds.
  const ropeway::Status ended = (*gateway)->Shutdown(std::chrono::seconds(5));
  return ended.ok() ? 0 : Fail(ended);
}
