#include "bench/put_load.h"

#include <fmt/format.h>

#include <chrono>
#include <latch>
#include <thread>
#include <utility>

#include "bench/prompt.h"
#include "bench/random_prompts.h"

namespace ropeway {
namespace {

// Without a look at how the requests went.
RunResult Put(const LoadTarget& target, const Load& load) {
  LoadRunner runner(
      target.client, "/completions", load.shape, [&](int seq) { return BodyOf(target, load, seq); },
      nullptr);
  if (load.client_of) runner.set_client_of(load.client_of);
  return runner.Run(load.run_num, "");
}

Status HowItWent(const RunResult& run) {
  if (run.interrupted) return {StatusCode::kCancelled, "interrupted"};
  for (const RequestRecord& record : run.records) {
    if (record.ok()) continue;
    return {StatusCode::kUnavailable,
            fmt::format("a request failed: {}: {}", record.error_kind, record.error)};
  }
  return {};
}

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

// Runs `meanwhile` beside `background`, `lead` seconds after its thread has begun.
RunResult PutBehind(const LoadTarget& target, Load background, double lead,
                    const std::function<void()>& meanwhile) {
  std::stop_source stop;
  background.shape.stop = stop.get_token();
  RunResult result;
  std::latch begun(1);
  std::jthread thread([&] {
    begun.count_down();
    result = Put(target, background);
  });
  begun.wait();
  Sleep(lead);
  meanwhile();
  stop.request_stop();
  thread.join();
  return result;
}

}  // namespace

std::string BodyOf(const LoadTarget& target, const Load& load, int seq) {
  if (load.body_of) return load.body_of(seq);
  RequestShape shape;
  shape.model = target.facts->model;
  shape.ignore_eos = target.facts->ignore_eos;
  shape.temperature = load.temperature;
  const Asked asked = load.asked(seq);
  shape.priority = asked.priority;
  const RandomPrompts prompts(load.seed, target.facts->prompt_ids, target.facts->overhead);
  Prompt prompt = prompts.Make(load.run_num, seq, asked.input_tokens);
  prompt.max_tokens = asked.output_tokens;
  return RequestBody(shape, prompt, load.seed);
}

StatusOr<RunResult> PutLoad(const LoadTarget& target, const Load& load) {
  RunResult run = Put(target, load);
  if (Status status = HowItWent(run); !status.ok()) return status;
  return run;
}

StatusOr<TwoRuns> PutLoadBeside(const LoadTarget& target, Load background, double lead,
                                const Load& foreground) {
  TwoRuns runs;
  runs.background = PutBehind(target, std::move(background), lead,
                              [&] { runs.foreground = Put(target, foreground); });
  for (const RunResult* run : {&runs.foreground, &runs.background}) {
    if (Status status = HowItWent(*run); !status.ok()) return status;
  }
  return runs;
}

StatusOr<RunResult> PutLoadFor(const LoadTarget& target, Load background, double seconds) {
  RunResult run = PutBehind(target, std::move(background), seconds, [] {});
  if (Status status = HowItWent(run); !status.ok()) return status;
  return run;
}

}  // namespace ropeway
