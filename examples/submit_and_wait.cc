// The shortest way to use Ropeway: submit some requests, wait for each, print what came out. All of
// them are computed together, in one batch.
//
//   submit_and_wait MODEL.gguf [PROMPT...]
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ropeway/engine.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: submit_and_wait MODEL.gguf [PROMPT...]\n");
    return 2;
  }

  // Load the model and start the engine. Nothing throws: what can fail returns a Status or a
  // StatusOr, which is asked with ok() before it is used.
  ropeway::EngineOptions options;
  options.model.path = argv[1];
  auto engine = ropeway::Engine::Create(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "submit_and_wait: %s\n", engine.status().message().c_str());
    return 1;
  }

  std::vector<std::string> prompts(argv + 2, argv + argc);
  if (prompts.empty()) prompts = {"The capital of France is", "Once upon a time", "1, 2, 3,"};

  // Submit returns at once; the engine works in its own threads.
  std::vector<ropeway::RequestHandle> handles;
  for (const std::string& prompt : prompts) {
    ropeway::Request request;
    request.prompt = prompt;
    request.max_tokens = 24;
    request.sampling.temperature = 0;  // Always the most probable token.
    auto handle = (*engine)->Submit(std::move(request));
    if (!handle.ok()) {
      std::fprintf(stderr, "submit_and_wait: %s\n", handle.status().message().c_str());
      return 1;
    }
    handles.push_back(*handle);
  }

  // Wait blocks until the request ended. The result's status says whether it ended well.
  for (size_t i = 0; i < handles.size(); ++i) {
    const auto result = handles[i].Wait();
    if (!result.ok() || !result->status.ok()) {
      const ropeway::Status& why = result.ok() ? result->status : result.status();
      std::fprintf(stderr, "submit_and_wait: %s\n", why.message().c_str());
      return 1;
    }
    std::printf("[%zu] %s ->%s\n    (%s, %d prompt tokens, %d generated)\n", i, prompts[i].c_str(),
                result->text.c_str(), ropeway::FinishReasonName(result->finish.reason),
                result->finish.usage.prompt_tokens, result->finish.usage.completion_tokens);
  }
  return 0;
}
