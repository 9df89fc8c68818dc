#include "bench/sameness_server.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench/answer_reader.h"
#include "bench/load_options.h"
#include "bench/prompt.h"
#include "bench/random_prompts.h"
#include "bench/server_probe.h"
#include "net/http_client.h"

namespace ropeway {
namespace {

using Json = nlohmann::json;

constexpr char kPath[] = "/completions";
constexpr int kTries = 3;  // Of one ask.
constexpr int kMaxCompanyWords = 256;
constexpr int kMaxCompanyTokens = 96;
constexpr double kCompanyTimeout = 300;
constexpr double kLeavesChance = 0.2;
constexpr double kPauseChance = 0.25;
constexpr int kMaxPauseMs = 300;

// One run; its members without a mutex are const or the tally's owner's.
class ServerRun {
 public:
  ServerRun(const SamenessServerOptions& options, const HttpClient& client,
            const ServerFacts& facts, const std::function<void(int)>& on_answer)
      : options_(options), client_(client), facts_(facts), on_answer_(on_answer) {
    result_.model = facts.model;
    result_.ignore_eos = facts.ignore_eos;
  }

  StatusOr<SamenessServerResult> Run() {
    AskOnce();  // Alone.
    {
      std::vector<std::jthread> users;
      for (int i = 0; i < options_.concurrency; ++i) users.emplace_back([this, i] { User(i); });
    }
    if (!failure_.ok()) return failure_;
    return std::move(result_);
  }

 private:
  // Sends one request after the other until all asks are answered or one has failed.
  void User(int number) {
    SeededRandom random(Mix64(options_.seed, static_cast<uint64_t>(number) + 1));
    // Without company every request is an ask; with c others per ask, one in 1 + c.
    const double ask_chance = 1.0 / (1.0 + options_.company);
    while (true) {
      const bool ask = random.Chance(ask_chance);
      {
        const std::lock_guard lock(mutex_);
        if (!failure_.ok() || started_ == options_.asks || TimeIsOver()) return;
        if (ask) ++started_;
      }
      if (random.Chance(kPauseChance)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(random.Between(0, kMaxPauseMs)));
      }
      if (ask) {
        Ask();
      } else {
        KeepCompany(&random);
      }
    }
  }

  bool TimeIsOver() const {
    return options_.max_seconds > 0 && ToSeconds(clock_.Now() - begin_) > options_.max_seconds;
  }

  void AskOnce() {
    {
      const std::lock_guard lock(mutex_);
      ++started_;
    }
    Ask();
  }

  std::string AskBody() const {
    Json body = {{"model", facts_.model},
                 {"prompt", options_.prompt},
                 {"temperature", 0},
                 {"max_tokens", options_.output_tokens},
                 {"logprobs", 1}};
    if (facts_.ignore_eos) body["ignore_eos"] = true;
    return body.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void Ask() {
    std::string why;
    for (int i = 0; i < kTries; ++i) {
      const HttpClient::Reply reply = client_.Fetch(kPath, AskBody(), options_.timeout);
      if (reply.status == 200) {
        StatusOr<Answer> answer = ReadAnswer(reply.body);
        if (answer.ok()) return Take(*std::move(answer));
        why = answer.status().message();
      } else {
        why = reply.status == 0 ? reply.why
                                : fmt::format("HTTP {}: {:.200}", reply.status, reply.body);
      }
    }
    const std::lock_guard lock(mutex_);
    failure_ = Status(StatusCode::kUnavailable,
                      fmt::format("{}: an ask failed: {}", options_.base_url, why));
  }

  void Take(Answer answer) {
    const std::lock_guard lock(mutex_);
    result_.tally.Add(std::move(answer));
    on_answer_(result_.tally.answers());
  }

  void KeepCompany(Random* random) {
    const RandomPrompts prompts(random->Next64(), /*as_ids=*/false, /*overhead=*/0);
    Prompt prompt = prompts.Make(0, 0, static_cast<int>(random->Between(1, kMaxCompanyWords)));
    prompt.max_tokens = static_cast<int>(random->Between(1, kMaxCompanyTokens));
    RequestShape shape;
    shape.model = facts_.model;
    shape.stream = random->Chance(0.5);
    shape.ignore_eos = facts_.ignore_eos;
    shape.temperature = static_cast<double>(random->Between(0, 15)) / 10;
    const bool leaves = random->Chance(kLeavesChance);
    const double patience = 0.02 * static_cast<double>(random->Between(1, 100));
    // How it ends is its own affair: it is there for its place in the batch.
    const HttpClient::Reply reply = client_.Fetch(
        kPath, RequestBody(shape, prompt, random->Next64()), leaves ? patience : kCompanyTimeout);
    const std::lock_guard lock(mutex_);
    ++result_.company;
    if (leaves && reply.status == 0) ++result_.left;
  }

  const SamenessServerOptions& options_;
  const HttpClient& client_;
  const ServerFacts& facts_;
  const std::function<void(int)>& on_answer_;
  const RealClock clock_;
  const TimePoint begin_ = clock_.Now();

  std::mutex mutex_;  // Guards what follows.
  SamenessServerResult result_;
  Status failure_;
  int started_ = 0;  // Asks.
};

}  // namespace

StatusOr<SamenessServerResult> AskServer(const SamenessServerOptions& options,
                                         const std::function<void(int)>& on_answer) {
  BenchServeFlags flags;
  flags.base_url = options.base_url;
  flags.model = options.model;
  flags.api_key = options.api_key;
  flags.insecure = options.insecure;
  flags.prompt_format = "text";
  auto load = CheckFlags(flags);
  if (!load.ok()) return load.status();
  auto client = HttpClient::Open(load->url, options.api_key, options.insecure);
  if (!client.ok()) return client.status();
  auto facts = ProbeServer(**client, *load);
  if (!facts.ok()) return facts.status();
  return ServerRun(options, **client, *facts, on_answer).Run();
}

}  // namespace ropeway
