// Many requests at once, and each result as soon as it is there: for work that comes in batches,
// from a program that has a loop of its own and does not want to block.
//
//   submit_and_poll MODEL.gguf [NUMBER_OF_REQUESTS]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ropeway/engine.h"

namespace {

// A chat: the model's own chat template turns the messages into a prompt.
ropeway::Request Question(int number) {
  const std::string text = "What is " + std::to_string(number) + " plus one?";
  ropeway::Request request;
  request.prompt = ropeway::Chat{.messages = {{"user", text}}};
  request.max_tokens = 8 + number % 24;  // Of different lengths: they end at different times.
  request.sampling.seed = 7;             // The same answers in every run.
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 3 ? std::atoi(argv[2]) : 32;
  if (argc < 2 || argc > 3 || count < 1) {
    std::fprintf(stderr, "usage: submit_and_poll MODEL.gguf [NUMBER_OF_REQUESTS]\n");
    return 2;
  }
  ropeway::EngineOptions options;
  options.model.path = argv[1];
  options.scheduler.max_num_seqs = 16;  // At most so many run together; the others wait their turn.
  options.max_finished_bytes = int64_t{64} << 20;  // Results are kept for PollFinished.
  auto engine = ropeway::Engine::Create(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "submit_and_poll: %s\n", engine.status().message().c_str());
    return 1;
  }

  // SubmitMany keeps the order. One request may be rejected while others are accepted.
  std::vector<ropeway::Request> requests;
  for (int number = 0; number < count; ++number) requests.push_back(Question(number));
  const auto handles = (*engine)->SubmitMany(std::move(requests));
  std::map<ropeway::RequestId, int> open;  // Which question is which request's.
  for (int number = 0; number < count; ++number) {
    const auto& handle = handles[static_cast<size_t>(number)];
    if (handle.ok()) {
      open[handle->id()] = number;
    } else {
      std::fprintf(stderr, "question %d: %s\n", number, handle.status().message().c_str());
    }
  }

  // PollFinished never blocks: it hands out what ended since the last call, each result once.
  int done = 0;
  bool all_well = static_cast<int>(open.size()) == count;
  while (!open.empty()) {
    for (const ropeway::Result& result : (*engine)->PollFinished()) {
      const int number = open[result.id];
      open.erase(result.id);
      ++done;
      all_well = all_well && result.status.ok();
      std::printf("%d of %d: question %d: %d tokens, %s\n", done, count, number,
                  result.finish.usage.completion_tokens,
                  result.status.ok() ? ropeway::FinishReasonName(result.finish.reason)
                                     : result.status.message().c_str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // Your own work would go here.
  }
  return all_well ? 0 : 1;
}
