#include "engine/output_processor.h"

#include <pthread.h>

#include <exception>
#include <string>
#include <utility>

#include "engine/failure.h"

namespace ropeway {
namespace {

// Steps that the engine may be ahead of the sinks.
constexpr size_t kMaxQueuedSteps = 1024;

}  // namespace

OutputProcessor::OutputProcessor(const Tokenizer* tokenizer, EngineMetrics* metrics,
                                 const Clock* clock, SessionStore* sessions, AskFinishFn ask_finish,
                                 EndedFn ended)
    : tokenizer_(tokenizer),
      metrics_(metrics),
      clock_(clock),
      sessions_(sessions),
      ask_finish_(std::move(ask_finish)),
      ended_(std::move(ended)),
      queue_(kMaxQueuedSteps),
      thread_([this] { Loop(); }) {}

OutputProcessor::~OutputProcessor() { Stop(); }

void OutputProcessor::Admit(std::shared_ptr<LiveRequest> live, const Admission& admission) {
  Message message = Admitted{std::move(live), admission};
  RetryUntilMemory([&] { return queue_.ForcePush(std::move(message)); });
}

void OutputProcessor::Refuse(std::shared_ptr<LiveRequest> live, Status status) {
  Message message = Refused{std::move(live), std::move(status)};
  RetryUntilMemory([&] { return queue_.ForcePush(std::move(message)); });
}

void OutputProcessor::Emit(std::vector<CoreEvent> events, TimePoint at) {
  Message message = Emitted{std::move(events), at};
  RetryUntilMemory([&] { return queue_.WaitPush(std::move(message)); });
}

void OutputProcessor::Stop() {
  if (!thread_.joinable()) return;
  queue_.Close();
  thread_.join();
}

void OutputProcessor::Loop() {
  pthread_setname_np(pthread_self(), "ropeway-output");
  while (true) {
    std::list<Message> messages = queue_.WaitPopAll();
    if (messages.empty()) break;  // Closed, and nothing is left.
    for (Message& message : messages) {
      std::visit([this](auto& kind) { Handle(kind); }, message);
    }
  }
  sessions_->WaitWritten();
  while (!outputs_.empty()) {
    auto& [id, output] = *outputs_.begin();
    if (output.being_kept()) {
      output.EndKept(clock_->Now());
    } else {
      output.Finish(FinishReason::kCancelled, clock_->Now());
    }
    Forget(RequestId(id));
  }
}

void OutputProcessor::Handle(Admitted& message) {
  const std::shared_ptr<LiveRequest>& live = message.live;
  const RequestId id = live->id;
  try {
    const auto it =
        outputs_.try_emplace(id, live, message.admission, tokenizer_, metrics_, clock_).first;
    if (!it->second.Admit()) ask_finish_(id, FinishReason::kCancelled);
  } catch (const std::exception&) {
    const Status failure = CurrentFailure("admitting the request");
    ask_finish_(id, FinishReason::kCancelled);
    metrics_->refused->Increment();
    RefuseSink(live.get(), failure);
    Forget(id);
  }
}

void OutputProcessor::Handle(Refused& message) {
  const RequestId id = message.live->id;
  if (const auto it = outputs_.find(id); it != outputs_.end()) {
    if (it->second.being_kept()) return;
    it->second.Fail(message.status, clock_->Now());
  } else if (message.live->sink != nullptr) {
    metrics_->refused->Increment();
    RefuseSink(message.live.get(), message.status);
  } else {
    return;  // It ended before.
  }
  Forget(id);
}

void OutputProcessor::Handle(Emitted& message) {
  for (const CoreEvent& event : message.events) HandleEvent(event, message.at);
}

void OutputProcessor::HandleEvent(const CoreEvent& event, TimePoint at) {
  const auto it = outputs_.find(event.id);
  if (it == outputs_.end()) return;  // Ended here already, by a stop string.
  RequestOutput& output = it->second;
  if (output.being_kept()) return;
  switch (event.kind) {
    case CoreEvent::Kind::kStarted:
      return;
    case CoreEvent::Kind::kPromptScored:
    case CoreEvent::Kind::kToken:
      AddOutput(&output, event, at);
      return;
    case CoreEvent::Kind::kPreempted:
      output.CountPreemption();
      return;
    case CoreEvent::Kind::kFinished:
      output.SetCachedTokens(event.cached_tokens);
      End(&output, event.id, event.reason, at);
      return;
    case CoreEvent::Kind::kFailed:
      output.Fail(event.status, at);
      break;
  }
  Forget(event.id);
}

void OutputProcessor::AddOutput(RequestOutput* output, const CoreEvent& event, TimePoint at) {
  if (output->closed()) return;
  const RequestId id = event.id;
  try {
    const bool token = event.kind == CoreEvent::Kind::kToken;
    switch (token ? output->AddToken(event, at) : output->AddScored(event)) {
      case RequestOutput::Verdict::kGoOn:
        return;
      case RequestOutput::Verdict::kReaderGone:
        // Its end follows when the engine has its blocks back.
        ask_finish_(id, FinishReason::kCancelled);
        return;
      case RequestOutput::Verdict::kStopString:
        ask_finish_(id, FinishReason::kStop);
        End(output, id, FinishReason::kStop, at);
        return;
    }
  } catch (const std::exception&) {
    const Status failure = CurrentFailure("turning tokens to text");
    ask_finish_(id, FinishReason::kCancelled);
    output->Fail(failure, at);
  }
  Forget(id);
}

void OutputProcessor::End(RequestOutput* output, RequestId id, FinishReason reason, TimePoint at) {
  if (!output->Finish(reason, at)) {
    LiveTurn* const turn = output->turn();
    try {
      sessions_->Commit(&turn->turn, turn->next, [this, id](const Status&) {
        Message message = Stored{id};
        // Closed: Loop waits for it at its end.
        RetryUntilMemory([&] { return queue_.ForcePush(std::move(message)); });
      });
      return;
    } catch (const std::exception&) {
      output->Fail(CurrentFailure("keeping the session's turn"), at);
    }
  }
  Forget(id);
}

void OutputProcessor::Handle(Stored& message) {
  const auto it = outputs_.find(message.id);
  if (it == outputs_.end()) return;
  it->second.EndKept(clock_->Now());
  Forget(message.id);
}

void OutputProcessor::Forget(RequestId id) {
  outputs_.erase(id);
  ended_(id);
}

}  // namespace ropeway
