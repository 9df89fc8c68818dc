#include "gateway/http_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <cstdint>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "api/wire_json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "net/base_url.h"

namespace ropeway::gateway {
namespace {

// Of an answer that is no stream, and of what follows a stream's end.
constexpr size_t kMaxErrorBytes = size_t{64} << 10;
constexpr size_t kMaxProbeBytes = size_t{4} << 20;
constexpr size_t kMaxShownBytes = 300;
// How long a connection may take to end a body after the answer's last event.
constexpr base::Duration kLinger = std::chrono::seconds(1);

// `text` as it may be shown: printable, short, and without the key.
std::string ShownText(std::string text, const std::string& key) {
  for (size_t at = 0; !key.empty() && (at = text.find(key, at)) != std::string::npos;) {
    text.replace(at, key.size(), "***");
    at += 3;
  }
  const auto breaks = [](char c) { return c == '\n' || c == '\r' || c == '\t'; };
  std::replace_if(text.begin(), text.end(), breaks, ' ');
  text = base::PrintableText(std::string_view(text).substr(0, 2 * kMaxShownBytes));
  if (text.size() <= kMaxShownBytes) return text;
  size_t end = kMaxShownBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0U) == 0x80) --end;
  return text.substr(0, end) + "...";
}

Status ShownStatus(const Status& status, const std::string& key) {
  constexpr size_t kMostField = 64;
  std::string field = ShownText(status.field(), key);
  if (field.size() > kMostField) field.clear();  // No name of a field.
  Status shown(status.code(), ShownText(status.message(), key), std::move(field));
  shown.set_api_code(status.api_code());
  return shown;
}

// The seconds of a Retry-After; dates are not read.
int RetryAfter(std::string_view text) {
  constexpr int kMostSeconds = 3600;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return 0;
  return std::clamp(seconds, 0, kMostSeconds);
}

// "text/event-stream" of "Text/Event-Stream; charset=utf-8".
std::string MediaType(std::string_view content_type) {
  std::string type(content_type.substr(0, std::min(content_type.find(';'), kMaxShownBytes)));
  while (type.ends_with(' ')) type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return type;
}

// Why no answer came: the exchange ended before its head.
BackendFailure NoAnswer(const net::HttpEnd& end) {
  const std::string_view kind = end.kind;
  // The server that closes before it has said anything has, as far as one can know, not begun.
  const bool untouched = !end.sent || (!end.answered && kind != net::http_error::kTimeout &&
                                       kind != net::http_error::kBadReply);
  BackendFailure failure = api::wire::Broken(
      fmt::format("{}: {}", end.sent ? "did not answer" : "cannot be reached", end.why));
  if (untouched) failure.kind = BackendFailure::Kind::kUnreachable;
  return failure;
}

// Whether a part of a path is "/v1", "/v3", "/v1beta".
bool IsVersion(std::string_view part) {
  return part.size() > 2 && part.starts_with("/v") && part[2] >= '0' && part[2] <= '9';
}

// Takes the API's part off the URL's path, which is the server's then, and returns it.
std::string TakeApi(api::BackendKind kind, net::BaseUrl* url) {
  constexpr char kDefault[] = "/v1";
  std::string& path = url->path;
  const std::string last = path.substr(std::min(path.rfind('/'), path.size()));
  if (IsVersion(last) || (kind == api::BackendKind::kOllama && last == "/api")) {
    path.resize(path.size() - last.size());
    return last;
  }
  return kind == api::BackendKind::kOpenAi ? std::string() : kDefault;
}

StatusOr<net::BaseUrl> UrlOf(const std::string& url) {
  // What may hold a password or a key is not shown.
  if (url.find_first_of("@?#") != std::string::npos) {
    return InvalidArgument("The URL of a backend must not have a user name, a query or a fragment.",
                           "url");
  }
  return net::ParseBaseUrl(url, "The URL of a backend");
}

// Whether an answer with this status shows that the server is there, though it may have nothing at
// the path. Those from 502 on come from what stands before a server that is not.
bool IsAnyAnswer(int http_status) { return http_status < 502; }
bool IsKeyRefused(int http_status) { return http_status == 401 || http_status == 403; }

}  // namespace

// The answer to one request, as it comes. It is the sink of the wire format, and passes on to the
// gateway's what comes until the request has ended or was cancelled. Thread rule: the pool's
// thread, but for Cancel and set_exchange.
class HttpBackend::Answer final : public RemoteSink, public std::enable_shared_from_this<Answer> {
 public:
  Answer(HttpBackend* backend, std::unique_ptr<api::WireReply> reply,
         std::shared_ptr<RemoteSink> sink)
      : backend_(*backend),
        linger_(*backend->io_),
        reply_(std::move(reply)),
        sink_(std::move(sink)) {}

  void OnHead(const net::ReplyHead& head);
  bool OnBody(std::string_view bytes);
  void OnExchangeEnd(const net::HttpEnd& end);

  void OnDelta(Delta delta) override;
  void OnAlive() override;
  void OnEnd(const BackendEnd& end) override;
  void OnFailure(BackendFailure failure) override;

  void set_exchange(const std::shared_ptr<net::HttpExchange>& exchange) {
    {
      const std::lock_guard lock(exchange_mutex_);
      exchange_ = exchange;
      if (!lingered_) return;
    }
    exchange->Cancel();
  }

  // The sink is not called once this has returned. Returns whether the exchange is of no use any
  // more.
  bool Cancel();

 private:
  enum class Stage {
    kSent,    // Nothing has come.
    kAnswer,  // The head of an answer has come,
    kError,   // or that of something else.
    kOver,    // The sink was told the end.
  };

  void Finish();
  void Linger();
  BackendFailure ErrorAnswer() const;

  HttpBackend& backend_;
  // Held while the sink is called; recursive because the sink may cancel.
  std::recursive_mutex mutex_;
  boost::asio::steady_timer linger_;
  const std::unique_ptr<api::WireReply> reply_;
  std::shared_ptr<RemoteSink> sink_;  // Null once cancelled or told the end.
  std::mutex exchange_mutex_;         // Of the next two: Start waits for no sink.
  std::weak_ptr<net::HttpExchange> exchange_;
  bool lingered_ = false;  // The time for the body's end is over, perhaps before Start was.
  Stage stage_ = Stage::kSent;
  int http_status_ = 0;
  int retry_after_ = 0;
  std::string media_type_;
  std::string error_body_;
  size_t bytes_behind_end_ = 0;
};

void HttpBackend::Answer::OnHead(const net::ReplyHead& head) {
  const std::lock_guard lock(mutex_);
  http_status_ = head.status;
  retry_after_ = RetryAfter(head.retry_after);
  media_type_ = MediaType(head.content_type);
  // The next probe tells of it, and no other: a backend that is out for it could never show that it
  // is mended.
  backend_.key_refused_ = IsKeyRefused(head.status);
  if (stage_ != Stage::kSent) return;
  const bool is_answer = head.status == 200 && backend_.wire_->IsAnswer(media_type_);
  stage_ = is_answer ? Stage::kAnswer : Stage::kError;
}

bool HttpBackend::Answer::OnBody(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::kError) {
    error_body_ += bytes.substr(0, kMaxErrorBytes - error_body_.size());
    return error_body_.size() < kMaxErrorBytes;
  }
  if (stage_ == Stage::kOver) {
    bytes_behind_end_ += bytes.size();
    return reply_->complete() && bytes_behind_end_ <= kMaxErrorBytes;
  }
  // A Ropeway sends comments while a request waits there or gave way; what other servers send in
  // place of output means nothing.
  if (backend_.options_.kind == api::BackendKind::kRopeway) OnAlive();
  if (std::optional<BackendFailure> failure = reply_->Feed(bytes, this)) {
    OnFailure(*std::move(failure));
    return false;
  }
  if (!reply_->complete()) return true;
  Finish();
  Linger();
  return true;
}

void HttpBackend::Answer::OnExchangeEnd(const net::HttpEnd& end) {
  const std::lock_guard lock(mutex_);
  linger_.cancel();
  switch (stage_) {
    case Stage::kOver:
      return;
    case Stage::kSent:
      // An end without a head and without an error does not happen.
      return OnFailure(end.kind != nullptr ? NoAnswer(end) : api::wire::Broken("did not answer"));
    case Stage::kError:
      return OnFailure(ErrorAnswer());
    case Stage::kAnswer:
      break;
  }
  if (end.kind == nullptr) return Finish();
  BackendEnd ending;
  if (reply_->End(this, &ending).has_value()) {
    OnFailure(api::wire::Broken("broke off its answer: " + end.why));
  } else {
    OnEnd(ending);
  }
}

// The body is over, or what it says is.
void HttpBackend::Answer::Finish() {
  BackendEnd end;
  if (std::optional<BackendFailure> failure = reply_->End(this, &end)) {
    OnFailure(*std::move(failure));
  } else {
    OnEnd(end);
  }
}

BackendFailure HttpBackend::Answer::ErrorAnswer() const {
  if (http_status_ != 200) {
    BackendFailure failure = api::HttpFailure(http_status_, error_body_);
    failure.retry_after_seconds = retry_after_;
    return failure;
  }
  // Some servers tell of errors with the status of success.
  if (const auto document = api::wire::ReadDocument(error_body_, "it"); document.ok()) {
    const std::string said = api::wire::ErrorText(*document);
    if (!said.empty()) return api::wire::Broken("answered with an error: " + said);
  }
  return api::wire::Broken(
      fmt::format("answered with the content type '{}' instead of a stream", media_type_));
}

void HttpBackend::Answer::OnDelta(Delta delta) {
  const std::shared_ptr<RemoteSink> sink = sink_;
  if (sink != nullptr) sink->OnDelta(std::move(delta));
}

void HttpBackend::Answer::OnAlive() {
  const std::shared_ptr<RemoteSink> sink = sink_;
  if (sink != nullptr) sink->OnAlive();
}

void HttpBackend::Answer::OnEnd(const BackendEnd& end) {
  stage_ = Stage::kOver;
  const std::shared_ptr<RemoteSink> sink = std::exchange(sink_, nullptr);
  if (sink != nullptr) sink->OnEnd(end);
}

void HttpBackend::Answer::OnFailure(BackendFailure failure) {
  stage_ = Stage::kOver;
  const std::shared_ptr<RemoteSink> sink = std::exchange(sink_, nullptr);
  if (sink == nullptr) return;
  failure.status = ShownStatus(failure.status, backend_.options_.api_key);
  failure.status.set_retry_after_seconds(failure.retry_after_seconds);
  sink->OnFailure(std::move(failure));
}

bool HttpBackend::Answer::Cancel() {
  std::shared_ptr<RemoteSink> dropped;  // Outside of the lock.
  const std::lock_guard lock(mutex_);
  dropped.swap(sink_);
  const bool complete = stage_ == Stage::kOver && reply_->complete();
  stage_ = Stage::kOver;
  return !complete;
}

// The connection can be used again if the end of the body follows soon.
void HttpBackend::Answer::Linger() {
  linger_.expires_after(kLinger);
  linger_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    const std::shared_ptr<Answer> self = weak.lock();
    if (cancelled || self == nullptr) return;
    std::shared_ptr<net::HttpExchange> exchange;
    {
      const std::lock_guard lock(self->exchange_mutex_);
      self->lingered_ = true;
      exchange = self->exchange_.lock();
    }
    if (exchange != nullptr) exchange->Cancel();
  });
}

// What the gateway holds while a request is under way.
class HttpBackend::Call final : public RemoteCall {
 public:
  Call() = default;
  ~Call() override {
    // A complete answer ends by itself, and leaves its connection to the next request.
    if (answer_ != nullptr && answer_->Cancel() && exchange_ != nullptr) exchange_->Cancel();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void Set(std::shared_ptr<Answer> answer, std::shared_ptr<net::HttpExchange> exchange) {
    answer_ = std::move(answer);
    exchange_ = std::move(exchange);
    answer_->set_exchange(exchange_);
  }

 private:
  std::shared_ptr<Answer> answer_;  // Null: nothing was sent.
  std::shared_ptr<net::HttpExchange> exchange_;
};

// A probe's questions, asked at once; the last answer to come calls `done`. Thread rule: the pool's
// thread, but for Missing.
class HttpBackend::Questions {
 public:
  Questions(HttpBackend* backend, std::function<void(StatusOr<BackendFacts>)> done)
      : backend_(*backend),
        probes_(backend->wire_->Probes()),
        key_(backend->options_.api_key),
        timeout_(backend->options_.probe_timeout),
        done_(std::move(done)),
        replies_(probes_.size()),
        open_(probes_.size()) {}

  size_t size() const { return probes_.size(); }
  std::string path(size_t i) const { return backend_.PathOf(probes_[i].path); }

  void OnHead(size_t i, int status) {
    replies_[i].status = status;
    replies_[i].began = std::chrono::steady_clock::now();
  }
  bool OnBody(size_t i, std::string_view bytes) {
    replies_[i].body += bytes;
    // A body that comes byte by byte would outlive many probes after it.
    const bool late = std::chrono::steady_clock::now() - replies_[i].began > timeout_;
    if (late) replies_[i].failure = Status(StatusCode::kUnavailable, "it answers too slowly");
    return !late && replies_[i].body.size() <= kMaxProbeBytes;
  }
  void OnEnd(size_t i, const net::HttpEnd& end) {
    if (end.kind != nullptr) replies_[i].failure = NoAnswer(end).status;
    Close();
  }
  // Question i was not asked.
  void Missing(size_t i, Status why) {
    replies_[i].failure = std::move(why);
    Close();
  }

 private:
  struct Reply {
    int status = 0;
    std::chrono::steady_clock::time_point began;  // The head came.
    std::string body;
    Status failure;
  };

  void Close() {
    if (open_.fetch_sub(1) != 1) return;
    StatusOr<BackendFacts> facts = Status(StatusCode::kResourceExhausted, "out of memory");
    try {
      facts = Facts();
    } catch (const std::exception&) {  // Memory is short.
    }
    done_(std::move(facts));
  }

  StatusOr<BackendFacts> Facts() const {
    BackendFacts facts;
    for (size_t i = 0; i < size(); ++i) {
      Status status = Read(i, &facts);
      if (!status.ok() && probes_[i].need != api::WireProbe::Need::kNone) {
        return ShownStatus(status, key_);
      }
    }
    facts.reason = ShownText(std::move(facts.reason), key_);
    return facts;
  }

  Status Read(size_t i, BackendFacts* facts) const {
    using Need = api::WireProbe::Need;
    const api::WireProbe& probe = probes_[i];
    const Reply& reply = replies_[i];
    if (!reply.failure.ok()) return reply.failure;
    if (reply.status == 200) {
      Status read = probe.read(reply.body, facts);
      if (!read.ok() && probe.need == Need::kGoodAnswer) return WithHint(read, probe);
      if (!read.ok()) Warn(probe, read);
      return {};
    }
    const BackendFailure failure = api::HttpFailure(reply.status, reply.body);
    if (reply.status == 503 && probe.need != Need::kNone) {
      facts->ready = false;
      facts->reason = failure.status.message();
      return {};
    }
    if (probe.need != Need::kAnyAnswer || !IsAnyAnswer(reply.status)) {
      return WithHint(failure.status, probe);
    }
    if (!IsKeyRefused(reply.status)) return {};
    // A key may have the right to answers and not to the list; whether it has, requests tell.
    if (backend_.key_refused_.exchange(false)) return failure.status;
    Warn(probe, failure.status);
    return {};
  }

  static Status WithHint(const Status& status, const api::WireProbe& probe) {
    if (probe.hint.empty()) return status;
    return {status.code(), status.message() + " (" + probe.hint + ")"};
  }

  // Says once for each path that its answers are wrong.
  void Warn(const api::WireProbe& probe, const Status& why) const {
    {
      const std::lock_guard lock(backend_.warned_mutex_);
      if (!backend_.warned_.insert(probe.path).second) return;
    }
    base::TryLog(spdlog::level::warn, "{}: GET {}: {}", backend_.options_.url, probe.path,
                 ShownText(why.message(), key_));
  }

  HttpBackend& backend_;
  const std::vector<api::WireProbe> probes_;
  const std::string key_;
  const base::Duration timeout_;
  const std::function<void(StatusOr<BackendFacts>)> done_;
  std::vector<Reply> replies_;
  std::atomic<size_t> open_;
};

StatusOr<std::unique_ptr<HttpBackend>> HttpBackend::Open(const HttpBackendOptions& options,
                                                         boost::asio::io_context* io) {
  StatusOr<net::BaseUrl> url = UrlOf(options.url);
  if (!url.ok()) return url.status();
  std::string api = TakeApi(options.kind, &*url);
  net::HttpPool::Options pool_options;
  pool_options.url = *std::move(url);
  pool_options.api_key = options.api_key;
  pool_options.insecure = options.insecure;
  pool_options.max_idle = options.max_idle_connections;
  StatusOr<std::unique_ptr<net::HttpPool>> pool = net::HttpPool::Open(std::move(pool_options), io);
  if (!pool.ok()) return pool.status();
  return std::unique_ptr<HttpBackend>(
      new HttpBackend(options, std::move(api), *std::move(pool), io));
}

HttpBackend::HttpBackend(const HttpBackendOptions& options, std::string api,
                         std::unique_ptr<net::HttpPool> pool, boost::asio::io_context* io)
    : options_(options),
      api_(std::move(api)),
      io_(io),
      wire_(api::MakeWireFormat(options.kind, options.model)),
      pool_(std::move(pool)) {}

HttpBackend::~HttpBackend() = default;

std::string HttpBackend::PathOf(const std::string& path) const {
  constexpr std::string_view kApi = "/v1";
  return path.starts_with("/v1/") ? api_ + path.substr(kApi.size()) : path;
}

std::unique_ptr<RemoteCall> HttpBackend::Start(const Request& request, const ResumePoint* resume,
                                               std::shared_ptr<RemoteSink> sink) {
  using Kind = BackendFailure::Kind;
  try {
    auto call = std::make_unique<Call>();
    StatusOr<api::WireRequest> written = wire_->Write(request, resume);
    if (!written.ok()) {
      // What the server could do, and does not do now, another one may do.
      const bool broken = written.status().code() == StatusCode::kUnavailable;
      sink->OnFailure({broken ? Kind::kBroken : Kind::kRejected, written.status()});
      return call;
    }
    auto answer = std::make_shared<Answer>(this, wire_->MakeReply(request), sink);
    net::HttpSend send;
    send.path = PathOf(written->path);
    send.body = std::move(written->body);
    send.connect_timeout = options_.connect_timeout;
    send.first_byte_timeout = options_.first_byte_timeout;
    send.idle_timeout = options_.idle_timeout;
    net::HttpEvents events;
    events.head = [answer](const net::ReplyHead& head) { answer->OnHead(head); };
    events.body = [answer](std::string_view bytes) { return answer->OnBody(bytes); };
    events.end = [answer](const net::HttpEnd& end) { answer->OnExchangeEnd(end); };
    std::shared_ptr<net::HttpExchange> exchange = pool_->Send(std::move(send), std::move(events));
    call->Set(std::move(answer), std::move(exchange));
    return call;
  } catch (const std::exception&) {
    const Status status(StatusCode::kResourceExhausted, "it was not asked: out of memory");
    sink->OnFailure({Kind::kBroken, status});
  }
  return nullptr;
}

void HttpBackend::Probe(std::function<void(StatusOr<BackendFacts>)> done) {
  const auto questions = std::make_shared<Questions>(this, std::move(done));
  for (size_t i = 0; i < questions->size(); ++i) {
    try {
      net::HttpSend send;
      send.method = "GET";
      send.path = questions->path(i);
      send.connect_timeout = options_.connect_timeout;
      send.first_byte_timeout = options_.probe_timeout;
      send.idle_timeout = options_.probe_timeout;
      net::HttpEvents events;
      events.head = [questions, i](const net::ReplyHead& head) {
        questions->OnHead(i, head.status);
      };
      events.body = [questions, i](std::string_view bytes) { return questions->OnBody(i, bytes); };
      events.end = [questions, i](const net::HttpEnd& end) { questions->OnEnd(i, end); };
      pool_->Send(std::move(send), std::move(events));
    } catch (const std::exception&) {
      questions->Missing(i, Status(StatusCode::kResourceExhausted, "out of memory"));
    }
  }
}

}  // namespace ropeway::gateway
