// A backend of your own behind the gateway: one class. This one is a parrot, which says what it
// hears, a word at a time, and needs no model.
//
//   custom_backend [SENTENCE...]
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "ropeway/gateway.h"

namespace {

// One request at the parrot.
struct Speech {
  ropeway::RequestId id = 0;
  std::shared_ptr<ropeway::Sink> sink;
  std::vector<std::string> words;
  size_t said = 0;
  std::atomic<bool> cancelled{false};
  std::atomic<bool> ended{false};

  // Says one more word, or the end; returns whether there is more to say.
  bool Go() {
    if (!cancelled && said < words.size()) {
      ropeway::Delta delta;
      delta.text = (said == 0 ? "" : " ") + words[said];
      ++said;
      if (!sink->OnDelta(id, std::move(delta))) cancelled = true;
      return true;
    }
    ropeway::Outcome outcome;
    outcome.finish.usage.prompt_tokens = outcome.finish.usage.completion_tokens =
        static_cast<int32_t>(words.size());
    ended = true;
    if (cancelled) outcome = ropeway::Outcome::Failed({ropeway::StatusCode::kCancelled, "cut"});
    sink->OnEnd(id, outcome);
    return false;
  }
};

class Parrot : public ropeway::Backend {
 public:
  explicit Parrot(bool shy) : shy_(shy), thread_([this] { Talk(); }) {}
  ~Parrot() override {
    {
      const std::lock_guard lock(mu_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  // Returns at once; what follows is told to the sinks. Each gets exactly one end.
  ropeway::StatusOr<std::vector<ropeway::RequestId>> SubmitAll(
      std::vector<ropeway::SinkRequest> requests) override {
    // Nothing of an answer was given out, so the gateway tries another backend.
    if (shy_) return ropeway::Status(ropeway::StatusCode::kUnavailable, "the parrot is shy");
    std::vector<ropeway::RequestId> ids;
    const std::lock_guard lock(mu_);
    for (ropeway::SinkRequest& one : requests) {
      auto speech = std::make_shared<Speech>();
      speech->id = ++last_id_;
      speech->sink = std::move(one.sink);
      if (const auto* text = std::get_if<std::string>(&one.request.prompt)) {
        std::istringstream in(*text);
        for (std::string word; in >> word;) speech->words.push_back(word);
      }
      ids.push_back(speech->id);
      speeches_.push_back(std::move(speech));
    }
    wake_.notify_one();
    return ids;
  }

  // The end follows with the next word.
  ropeway::Status Cancel(ropeway::RequestId id) override {
    const std::lock_guard lock(mu_);
    for (const auto* list : {&speeches_, &round_}) {
      for (const std::shared_ptr<Speech>& speech : *list) {
        if (speech->id != id || speech->ended) continue;
        speech->cancelled = true;
        return {};
      }
    }
    return ropeway::NotUnderWay(id);
  }

  // Asked every few seconds. Places: how many requests it answers at once.
  void Probe(ProbeFn done) override {
    ropeway::BackendFacts facts;
    facts.places = 4;
    facts.models = {"parrot"};
    done(facts);
  }

 private:
  void Talk() {
    std::unique_lock lock(mu_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !speeches_.empty(); });
      if (stopping_) return;
      round_.swap(speeches_);
      lock.unlock();  // A sink may send the next request.
      std::vector<std::shared_ptr<Speech>> over;
      for (const std::shared_ptr<Speech>& speech : round_) {
        if (!speech->Go()) over.push_back(speech);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      lock.lock();
      for (const std::shared_ptr<Speech>& speech : over) round_.remove(speech);
      speeches_.splice(speeches_.end(), round_);
    }
  }

  const bool shy_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::list<std::shared_ptr<Speech>> speeches_;
  std::list<std::shared_ptr<Speech>> round_;  // Those that say a word now.
  ropeway::RequestId last_id_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> sentences(argv + 1, argv + argc);
  if (sentences.empty()) sentences = {"hello there", "pretty Polly wants a cracker"};

  ropeway::GatewayOptions options;
  ropeway::GatewayModel& model = options.models.emplace_back();
  model.name = "parrot";
  for (const bool shy : {true, false}) {
    ropeway::BackendOptions backend;
    backend.name = shy ? "shy" : "bold";
    backend.backend = std::make_shared<Parrot>(shy);
    model.backends.push_back(backend);
  }
  auto gateway = ropeway::Gateway::Create(options);
  if (!gateway.ok()) {
    std::fprintf(stderr, "custom_backend: %s\n", gateway.status().message().c_str());
    return 1;
  }

  std::vector<ropeway::RequestHandle> handles;
  for (const std::string& sentence : sentences) {
    ropeway::Request request;
    request.model = "parrot";
    request.prompt = sentence;
    auto handle = (*gateway)->Infer(std::move(request));
    if (!handle.ok()) {
      std::fprintf(stderr, "custom_backend: %s\n", handle.status().message().c_str());
      return 1;
    }
    handles.push_back(*handle);
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    const auto result = handles[i].Wait();
    if (!result.ok() || !result->status.ok()) {
      const ropeway::Status& why = result.ok() ? result->status : result.status();
      std::fprintf(stderr, "custom_backend: %s\n", why.message().c_str());
      return 1;
    }
    std::printf("[%zu] %s (%d words)\n", i, result->text.c_str(),
                result->finish.usage.completion_tokens);
  }
  return 0;
}
