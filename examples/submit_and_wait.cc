// Ropeway as a library: loads a model, submits several requests at once, streams one of them, and
// waits for all.
//
//   submit_and_wait MODEL.gguf [PROMPT...]
#include <cstdio>
#include <string>
#include <vector>

#include "ropeway/engine.h"

namespace {

ropeway::Request MakeRequest(const std::string& prompt) {
  ropeway::Request request;
  request.prompt = prompt;
  request.max_tokens = 24;
  request.sampling.temperature = 0.0F;  // Greedy.
  return request;
}

// Called on the engine's output thread, once for each token; false would cancel.
bool PrintDelta(ropeway::RequestId, const ropeway::Delta& delta) {
  std::fwrite(delta.text.data(), 1, delta.text.size(), stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: submit_and_wait MODEL.gguf [PROMPT...]\n");
    return 2;
  }
  ropeway::EngineOptions options;
  options.model_path = argv[1];
  auto engine = ropeway::Engine::Create(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "submit_and_wait: %s\n", engine.status().message().c_str());
    return 1;
  }
  std::vector<std::string> prompts(argv + 2, argv + argc);
  if (prompts.empty()) prompts = {"The capital of France is", "Once upon a time", "1, 2, 3,"};

  // One request streams while the others run beside it in the same batch.
  std::vector<ropeway::Request> requests;
  for (const std::string& prompt : prompts) requests.push_back(MakeRequest(prompt));
  const auto handles = (*engine)->SubmitMany(std::move(requests));
  std::printf("streamed: ");
  const auto streamed = (*engine)->Submit(MakeRequest(prompts[0]), PrintDelta);
  if (!streamed.ok() || !streamed->Wait().ok()) return 1;
  std::printf("\n");

  for (size_t i = 0; i < handles.size(); ++i) {
    const auto result = handles[i].ok() ? handles[i]->Wait() : handles[i].status();
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
