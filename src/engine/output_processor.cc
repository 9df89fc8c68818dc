#include "engine/output_processor.h"

#include <pthread.h>

#include <exception>
#include <string>
#include <utility>

#include "engine/failure.h"

namespace ropeway::engine {
namespace {

// Steps that the engine may be ahead of the sinks.
constexpr size_t kMaxQueuedSteps = 1024;

}  // namespace

OutputProcessor::OutputProcessor(const tokenizer::Tokenizer* tokenizer, const ModelAnswers* answers,
                                 EngineMetrics* metrics, const base::Clock* clock,
                                 store::SessionStore* sessions, LiveRequests* requests,
                                 AbortFn abort)
    : tokenizer_(tokenizer),
      answers_(answers),
      metrics_(metrics),
      clock_(clock),
      sessions_(sessions),
      requests_(requests),
      abort_(std::move(abort)),
      queue_(kMaxQueuedSteps),
      thread_([this] { Loop(); }) {}

OutputProcessor::~OutputProcessor() { Stop(); }

void OutputProcessor::Push(Message message) {
  RetryUntilMemory([&] { return queue_.ForcePush(std::move(message)); });
}

void OutputProcessor::Admit(std::shared_ptr<LiveRequest> live, const Admission& admission) {
  Push(Admitted{std::move(live), admission});
}

void OutputProcessor::Reject(std::shared_ptr<LiveRequest> live, Status status) {
  Push(Rejected{std::move(live), std::move(status)});
}

void OutputProcessor::Emit(std::vector<CoreEvent> events, base::TimePoint at) {
  Message message = Emitted{std::move(events), at};
  RetryUntilMemory([&] { return queue_.WaitPush(std::move(message)); });
}

void OutputProcessor::TellAlive() {
  try {
    queue_.ForcePush(AliveAsk{});
  } catch (const std::bad_alloc&) {  // The next probe asks again.
  }
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
  EndRest();
}

void OutputProcessor::EndRest() {
  while (const std::shared_ptr<LiveRequest> live = requests_->Oldest()) {
    const base::TimePoint now = clock_->Now();
    RequestOutput* const output = live->output.get();
    if (output == nullptr) {
      if (!live->ended()) live->Fail(RequestCancelled());
    } else if (live->being_kept() || !output->Finish(FinishReason::kCancelled, now)) {
      output->End(now);
    }
    Forget(live.get());
  }
}

void OutputProcessor::Handle(Admitted& message) {
  LiveRequest* const live = message.live.get();
  Status failure;
  try {
    live->output = std::make_shared<RequestOutput>(live, message.admission.prompt_tokens,
                                                   tokenizer_, answers_, metrics_, clock_);
    failure = live->output->Replay();
    if (failure.ok() && !live->output->Admit(message.admission)) {
      abort_(live->id, FinishReason::kCancelled);
    }
  } catch (const std::exception&) {
    failure = CurrentFailure("admitting the request");
  }
  if (failure.ok()) return;
  abort_(live->id, FinishReason::kCancelled);
  metrics_->rejected->Increment();
  live->Fail(failure);
  Forget(live);
}

void OutputProcessor::Handle(Rejected& message) {
  LiveRequest* const live = message.live.get();
  if (live->output != nullptr) {
    if (live->being_kept()) return;
    live->output->Fail(message.status, clock_->Now());
  } else if (!live->ended()) {
    metrics_->rejected->Increment();
    live->Fail(message.status);
  } else {
    return;  // It ended before.
  }
  Forget(live);
}

void OutputProcessor::Handle(Emitted& message) {
  for (const CoreEvent& event : message.events) HandleEvent(event, message.at);
}

void OutputProcessor::HandleEvent(const CoreEvent& event, base::TimePoint at) {
  auto* const live = static_cast<LiveRequest*>(event.context.get());
  RequestOutput* const output = live->output.get();
  // A stop string may have ended it here already.
  if (output == nullptr || live->being_kept()) return;
  switch (event.kind) {
    case CoreEvent::Kind::kStarted:
      return;
    case CoreEvent::Kind::kPromptScored:
    case CoreEvent::Kind::kPooled:
    case CoreEvent::Kind::kToken:
      AddOutput(live, event, at);
      return;
    case CoreEvent::Kind::kPreempted:
      output->CountPreemption();
      return;
    case CoreEvent::Kind::kFinished:
      output->SetCachedTokens(event.cached_tokens);
      End(live, event.reason, at);
      return;
    case CoreEvent::Kind::kFailed:
      output->Fail(event.status, at);
      break;
  }
  Forget(live);
}

void OutputProcessor::AddOutput(LiveRequest* live, const CoreEvent& event, base::TimePoint at) {
  RequestOutput* const output = live->output.get();
  if (output->closed()) return;
  try {
    switch (output->Add(event, at)) {
      case RequestOutput::Verdict::kGoOn:
        return;
      case RequestOutput::Verdict::kReaderGone:
        // Its end follows when the engine has released its blocks.
        abort_(live->id, FinishReason::kCancelled);
        return;
      case RequestOutput::Verdict::kStopString:
        abort_(live->id, FinishReason::kStop);
        End(live, FinishReason::kStop, at);
        return;
      case RequestOutput::Verdict::kDiffers:
        abort_(live->id, FinishReason::kCancelled);
        output->Fail(
            MakeStatus(StatusCode::kInternal,
                       "this engine does not generate the last token of resume_ids: its model, "
                       "numerics or limits differ from those of the engine that generated it",
                       "resume_ids"),
            at);
        break;
    }
  } catch (const std::exception&) {
    const Status failure = CurrentFailure("converting tokens to text");
    abort_(live->id, FinishReason::kCancelled);
    output->Fail(failure, at);
  }
  Forget(live);
}

void OutputProcessor::End(LiveRequest* live, FinishReason reason, base::TimePoint at) {
  if (!live->output->Finish(reason, at)) {
    try {
      sessions_->Commit(
          &live->turn->turn, live->turn->next,
          // Closed: Loop waits for it at its end.
          [this, shared = requests_->Find(live->id)](const Status&) { Push(Stored{shared}); });
      return;
    } catch (const std::exception&) {
      live->output->Fail(CurrentFailure("saving the session's turn"), at);
    }
  }
  Forget(live);
}

void OutputProcessor::Handle(Stored& message) {
  LiveRequest* const live = message.live.get();
  if (live->output == nullptr) return;
  live->output->End(clock_->Now());
  Forget(live);
}

void OutputProcessor::Handle(AliveAsk& /*message*/) {
  std::vector<std::shared_ptr<LiveRequest>> all;
  try {
    requests_->ForEach([&all](const std::shared_ptr<LiveRequest>& live) { all.push_back(live); });
  } catch (const std::bad_alloc&) {  // Ends go before signs of life.
    return;
  }
  for (const std::shared_ptr<LiveRequest>& live : all) {
    // What runs and has begun is to show output.
    const bool shows = live->state() == LiveRequest::State::kRunning && live->output != nullptr &&
                       live->output->begun();
    if (!live->ended() && !shows) live->TellAlive();
  }
}

void OutputProcessor::Forget(LiveRequest* live) {
  const RequestId id = live->id;
  live->output.reset();
  requests_->Erase(id);
}

}  // namespace ropeway::engine
