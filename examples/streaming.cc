// Text as it is generated, and the end of it when the caller has read enough: prints a story until
// its first sentence is complete, then cancels.
//
//   streaming MODEL.gguf [PROMPT]
#include <cstdio>
#include <string>
#include <utility>

#include "ropeway/engine.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: streaming MODEL.gguf [PROMPT]\n");
    return 2;
  }
  ropeway::EngineOptions options;
  options.model.path = argv[1];
  auto engine = ropeway::Engine::Create(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "streaming: %s\n", engine.status().message().c_str());
    return 1;
  }

  ropeway::Request request;
  request.prompt = std::string(argc == 3 ? argv[2] : "Once upon a time");
  request.max_tokens = 200;
  request.sampling.temperature = 0;

  // Called on the engine's output thread with each new piece of text, which is always whole
  // characters. It must be quick: all streams share that thread. Returning false cancels the
  // request. What it uses must live until the request has ended.
  auto on_delta = [](ropeway::RequestId, const ropeway::Delta& delta) {
    std::fwrite(delta.text.data(), 1, delta.text.size(), stdout);
    std::fflush(stdout);
    return delta.text.find('.') == std::string::npos;
  };
  const auto handle = (*engine)->Submit(std::move(request), on_delta);
  if (!handle.ok()) {
    std::fprintf(stderr, "streaming: %s\n", handle.status().message().c_str());
    return 1;
  }

  // A request that its callback ended is cancelled, which is no error here.
  const auto result = handle->Wait();
  if (!result.ok() || result->finish.reason == ropeway::FinishReason::kFailed) {
    const ropeway::Status& why = result.ok() ? result->status : result.status();
    std::fprintf(stderr, "streaming: %s\n", why.message().c_str());
    return 1;
  }
  std::printf("\n(%s after %d tokens)\n", ropeway::FinishReasonName(result->finish.reason),
              result->finish.usage.completion_tokens);
  return 0;
}
