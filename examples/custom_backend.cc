// A backend of your own behind the gateway: one class. This one is a parrot, which says what it
// hears, a word at a time, and needs no model.
//
//   custom_backend [SENTENCE...]
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
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
  std::mutex mu;                              // Held while the sink is called.
  std::shared_ptr<ropeway::RemoteSink> sink;  // Null: nobody listens any more.
  std::vector<std::string> words;
  size_t said = 0;

  // Says one more word; returns whether there is more to say.
  bool Go() {
    const std::lock_guard lock(mu);
    if (sink == nullptr) return false;
    if (said < words.size()) {
      ropeway::Delta delta;
      delta.text = (said == 0 ? "" : " ") + words[said];
      ++said;
      sink->OnDelta(std::move(delta));
      return true;
    }
    ropeway::BackendEnd end;
    end.reason = ropeway::FinishReason::kStop;
    end.prompt_tokens = end.completion_tokens = static_cast<int32_t>(words.size());
    std::exchange(sink, nullptr)->OnEnd(end);
    return false;
  }

  void Stop() {
    const std::lock_guard lock(mu);
    sink = nullptr;
  }
};

// What the gateway holds of a request: once it is destroyed, the sink is not called any more.
class SpeechCall : public ropeway::RemoteCall {
 public:
  explicit SpeechCall(std::shared_ptr<Speech> speech) : speech_(std::move(speech)) {}
  ~SpeechCall() override { speech_->Stop(); }

 private:
  std::shared_ptr<Speech> speech_;
};

class Parrot : public ropeway::RemoteBackend {
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

  // Neither blocks nor throws; what goes wrong is said by OnFailure.
  std::unique_ptr<ropeway::RemoteCall> Start(const ropeway::Request& request,
                                             const ropeway::ResumePoint*,
                                             std::shared_ptr<ropeway::RemoteSink> sink) override {
    if (shy_) {
      // Nothing of the answer was given out, so the gateway tries another backend.
      ropeway::BackendFailure failure;
      failure.kind = ropeway::BackendFailure::Kind::kUnreachable;
      failure.status = {ropeway::StatusCode::kUnavailable, "the parrot is shy"};
      sink->OnFailure(std::move(failure));
      return nullptr;
    }
    auto speech = std::make_shared<Speech>();
    speech->sink = std::move(sink);
    if (const auto* text = std::get_if<std::string>(&request.prompt)) {
      std::istringstream in(*text);
      for (std::string word; in >> word;) speech->words.push_back(word);
    }
    const std::lock_guard lock(mu_);
    speeches_.push_back(speech);
    wake_.notify_one();
    return std::make_unique<SpeechCall>(std::move(speech));
  }

  // Asked every few seconds. Places: how many requests it answers at once.
  void Probe(std::function<void(ropeway::StatusOr<ropeway::BackendFacts>)> done) override {
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
      std::list<std::shared_ptr<Speech>> round;
      round.swap(speeches_);
      lock.unlock();  // A sink may send the next request.
      round.remove_if([](const std::shared_ptr<Speech>& speech) { return !speech->Go(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      lock.lock();
      speeches_.splice(speeches_.end(), round);
    }
  }

  const bool shy_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::list<std::shared_ptr<Speech>> speeches_;
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
