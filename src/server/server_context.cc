#include "server/server_context.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "api/api_format.h"
#include "api/dialects.h"
#include "api/fields.h"
#include "http/http_reply.h"

namespace ropeway::server {
namespace {

// The sampling parameters of a request that gives none.
SamplingParams SamplingOf(const service::FrontDesk& backend) {
  const std::vector<service::ModelInfo> models = backend.Models();
  SamplingParams sampling = models.empty() ? SamplingParams() : models.front().sampling;
  sampling.given = SamplingParams::kNoneGiven;
  return sampling;
}

// `answers`: what they may take in memory.
std::unique_ptr<StoredAnswers> MakeStored(const ServerOptions& options, SamplingParams sampling,
                                          std::shared_ptr<base::SharedBudget> answers,
                                          service::FrontDesk* backend) {
  if (options.objects == nullptr) return nullptr;
  StoredAnswersOptions stored;
  stored.dialects = {api::MakeOpenAiResponses, api::MakeOpenAiChat, api::MakeOpenAiCompletions};
  stored.body = options.limits.body;
  stored.sampling = std::move(sampling);
  stored.answers = std::move(answers);
  return std::make_unique<StoredAnswers>(std::move(stored), options.objects, backend);
}

}  // namespace

ServerContext::ServerContext(const ServerOptions& options, service::FrontDesk* backend,
                             const std::function<std::vector<http::Route>(ServerContext*)>& routes,
                             const std::function<http::Route(ServerContext*)>& other)
    : http(options, options.limits, options.api_keys.empty(), routes(this), other(this), this),
      access(options.api_keys, options.admin_key),
      backend(backend),
      sampling(SamplingOf(*backend)),
      any_model(options.any_model),
      other_names(options.other_names),
      web(options.web),
      key_limits(options.api_keys, std::make_shared<base::RealClock>()),
      events(backend),
      pulls(options.pull_model),
      stored(MakeStored(options, sampling, http.answers, backend)),
      limits_(options.limits),
      // One tenant alone gets half of the places.
      helpers_(std::max(1, options.limits.helper_threads),
               2 * int64_t{std::max(1, options.limits.max_helper_jobs)}, "ropeway-helper") {}

void ServerContext::ShareStore(const std::vector<ApiKey>& keys) const {
  if (stored == nullptr) return;
  // The tenants of a gateway are not known here.
  const bool gateway = std::ranges::any_of(keys, &ApiKey::gateway);
  stored->store()->SetShared(gateway || std::ranges::count(keys, false, &ApiKey::metrics_only) > 1);
}

http::Verdict ServerContext::Check(http::Rights rights, const http::RequestHead& head) const {
  return access.Check(rights, head.authorization, head.api_key);
}

http::HttpReply ServerContext::Rejection(const Status& status, const std::string& tenant) const {
  http::HttpReply reply = http::ErrorReply(api::ToApiError(status));
  const int known = status.retry_after_seconds();
  const bool never = status.api_code() == std::string_view(api::kNoStore);
  if (!never && (reply.status == 429 || reply.status == 503 || known > 0)) {
    const int seconds = known > 0 ? known : backend->RetryAfterSeconds(tenant);
    reply.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  // OpenAI's clients would send a request that ran out of its own time again, and one that the
  // server never answers.
  if (never || reply.status == 408 || reply.status == 501)
    reply.headers.emplace_back("x-should-retry", "false");
  return reply;
}

http::HttpReply ServerContext::ReplyOf(StatusOr<std::string> body,
                                       const std::string& tenant) const {
  if (!body.ok()) return Rejection(body.status(), tenant);
  http::HttpReply reply;
  reply.body = *std::move(body);
  return reply;
}

std::string ServerContext::ErrorBody(const http::HttpError& error) const {
  return api::ErrorJson(error);
}

void IgnoredFields::Log(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    if (logged_.size() == kMostNames || !logged_.insert(name).second) continue;
    spdlog::info("The field {} of requests is unknown and is ignored", api::EscapedName(name));
    if (logged_.size() < kMostNames) continue;
    spdlog::info("{} unknown fields were logged; further ones are not logged", kMostNames);
  }
}

void ServerContext::TellIgnored(const std::vector<std::string>& names, http::Exchange* exchange) {
  if (names.empty()) return;
  exchange->headers.emplace_back("x-ropeway-ignored", api::IgnoredHeader(names));
  ignored_fields_.Log(names);
}

// Work on its way through the helpers. What takes longer than kPiecesInTurn gives way to what may
// be shorter.
class ServerContext::HelperJob {
 public:
  HelperJob(HelperWork work, const std::shared_ptr<http::SocketStream>& stream)
      : work_(std::move(work)), stream_(stream) {}

  // Does the next piece. On a helper thread.
  base::PieceEnd Run() noexcept {
    const std::lock_guard lock(mutex_);
    try {
      if (work_ && !left_) {
        std::optional<StatusOr<std::string>> ended = work_();
        // An abandoned job frees what it holds now, not in its next turn.
        if (!ended && !left_) {
          return ++pieces_ > kPiecesInTurn ? base::PieceEnd::GivingWay() : false;
        }
        if (ended) result_ = *std::move(ended);
      }
    } catch (...) {
      try {
        result_ = http::StatusFromException();
      } catch (...) {
        // `result_` says that there is no memory.
      }
    }
    work_ = nullptr;
    return true;
  }

  // The job is over, also if it was dropped unrun. Wakes the coroutine if it may wait.
  void SetDone() {
    done_ = true;
    if (!awaited_) return;
    if (const std::shared_ptr<http::SocketStream> alive = stream_.lock()) alive->PostSignal();
  }

  // The rest is the coroutine's.

  // Call before waiting for the job. One that is dropped earlier, because it found no place in the
  // queue, does not wake the coroutine, which then waits for a place.
  void Await() { awaited_ = true; }
  // Call after Await: then either this is true or SetDone wakes the coroutine.
  bool done() const { return done_; }
  // REQUIRES: done().
  StatusOr<std::string> TakeResult() { return std::move(result_); }
  // The coroutine no longer waits: frees what the job holds, now or after the piece that runs.
  void Abandon() {
    left_ = true;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) work_ = nullptr;
  }

 private:
  static constexpr int kPiecesInTurn = 16;

  std::mutex mutex_;
  int pieces_ = 0;   // GUARDED_BY(mutex_)
  HelperWork work_;  // Null once it is done or abandoned. GUARDED_BY(mutex_)
  const std::weak_ptr<http::SocketStream> stream_;
  std::atomic<bool> awaited_{false};
  std::atomic<bool> left_{false};
  StatusOr<std::string> result_ =
      Status(StatusCode::kUnavailable, "The server has too little memory left for this request.");
  std::atomic<bool> done_{false};
};

boost::asio::awaitable<StatusOr<std::string>> ServerContext::RunOnHelper(
    base::Flow flow, std::shared_ptr<http::SocketStream> stream, HelperWork work) {
  auto job = std::make_shared<HelperJob>(std::move(work), stream);
  // The pool destroys the job's function when the job is over and its place is free.
  std::shared_ptr<void> over(nullptr, [job](void*) { job->SetDone(); });
  std::function<base::PieceEnd()> piece = [job, over = std::move(over)] { return job->Run(); };
  if (!helpers_.TryAdd(flow, std::move(piece))) {
    co_return Status(StatusCode::kResourceExhausted,
                     "This client has too many large requests that wait to be read or tokenized.");
  }
  job->Await();
  while (!job->done() && !stream->gone())
    co_await stream->Wait(http::SocketStream::Deadline::max());
  if (!job->done()) {
    job->Abandon();
    co_return Status(StatusCode::kCancelled, "The client left.");
  }
  co_return job->TakeResult();
}

}  // namespace ropeway::server
