#include "gateway/http_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "api/wire_json.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/utf8.h"
#include "net/base_url.h"
#include "service/sinks.h"

namespace ropeway::gateway {
namespace {

// The most bytes of an answer that is no stream, and of what follows a stream's end.
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
Outcome NoAnswer(const net::HttpEnd& end) {
  const std::string_view kind = end.kind;
  // The server that closes before it has said anything has, as far as one can know, not begun.
  const bool untouched = !end.sent || (!end.answered && kind != net::http_error::kTimeout &&
                                       kind != net::http_error::kBadReply);
  Outcome failure = api::wire::Broken(
      fmt::format("{}: {}", end.sent ? "did not answer" : "cannot be reached", end.why));
  if (untouched) failure.kind = FailureKind::kUnreachable;
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

api::ServerModel ServerModelOf(const HttpBackendOptions& options) {
  const std::string& upstream = options.server.upstream_model;
  if (!upstream.empty()) return {.name = upstream, .may_differ = false};
  return {.name = options.model, .may_differ = true};
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

struct HttpBackend::Shared {
  Shared(const HttpBackendOptions& its_options, api::BackendKind its_kind, std::string its_api)
      : options(its_options),
        kind(its_kind),
        api(std::move(its_api)),
        wire(api::MakeWireFormat(kind, ServerModelOf(options))) {}

  // A path of the wire format behind the URL of the pool.
  std::string PathOf(const std::string& path) const {
    constexpr std::string_view kApi = "/v1";
    return path.starts_with("/v1/") ? api + path.substr(kApi.size()) : path;
  }

  const HttpBackendOptions options;
  const api::BackendKind kind;
  const std::string api;  // What stands there for "/v1".
  const std::unique_ptr<api::WireFormat> wire;
  // The last request was refused for the gateway's key (401, 403).
  std::atomic<bool> key_refused = false;

  std::mutex mu;
  std::set<std::string> warned;  // Paths whose answers were wrong, as the log says. GUARDED_BY(mu)
  RequestId next_id = 1;         // GUARDED_BY(mu)
  // Requests whose sinks have not been told the end. GUARDED_BY(mu)
  std::map<RequestId, std::shared_ptr<Answer>> answers;
};

// The answer to one request, as it comes. Thread rule: the pool's thread, except for Cancel and
// set_exchange.
class HttpBackend::Answer final : public std::enable_shared_from_this<Answer> {
 public:
  Answer(std::shared_ptr<Shared> shared, boost::asio::io_context* io, const Request& request,
         std::shared_ptr<Sink> sink)
      : shared_(std::move(shared)),
        linger_(*io),
        reply_(shared_->wire->MakeReply(request)),
        sink_(std::move(sink)) {}

  void OnHead(const net::ReplyHead& head);
  bool OnBody(std::string_view bytes);
  void OnExchangeEnd(const net::HttpEnd& end) noexcept;

  RequestId id() const { return id_; }
  void set_id(RequestId id) { id_ = id; }  // Before it is sent.
  void set_exchange(const std::shared_ptr<net::HttpExchange>& exchange) {
    {
      const std::lock_guard lock(mu_);
      exchange_ = exchange;
      if (!cancelled_) return;
    }
    exchange->Cancel();
  }
  void Cancel();

 private:
  enum class Stage {
    kSent,    // Nothing has come.
    kAnswer,  // The head of an answer has come.
    kError,   // The head of something else has come.
    kOver,    // The sink was told the end.
  };

  // Passes what the body tells to the sink.
  void Give(Delta delta);
  void End(Outcome outcome) noexcept;
  // What the sink is told of an exchange that ended so.
  Outcome OutcomeOf(const net::HttpEnd& end);
  void Linger();
  Outcome ErrorAnswer() const;

  const std::shared_ptr<Shared> shared_;
  RequestId id_ = 0;
  boost::asio::steady_timer linger_;
  const std::unique_ptr<api::WireReply> reply_;
  std::shared_ptr<Sink> sink_;  // Null once told the end.
  bool wanted_ = true;          // The sink wants more.
  Stage stage_ = Stage::kSent;
  int http_status_ = 0;
  int retry_after_ = 0;
  std::string media_type_;
  std::string error_body_;
  size_t bytes_behind_end_ = 0;

  std::mutex mu_;
  std::weak_ptr<net::HttpExchange> exchange_;  // GUARDED_BY(mu_)
  bool cancelled_ = false;                     // Perhaps before it was sent. GUARDED_BY(mu_)
};

void HttpBackend::Answer::OnHead(const net::ReplyHead& head) {
  http_status_ = head.status;
  retry_after_ = RetryAfter(head.retry_after);
  media_type_ = MediaType(head.content_type);
  // The next probe tells of it, and no other: a backend that is out for it could never show that it
  // is mended.
  shared_->key_refused = IsKeyRefused(head.status);
  if (stage_ != Stage::kSent) return;
  const bool is_answer = head.status == 200 && shared_->wire->IsAnswer(media_type_);
  stage_ = is_answer ? Stage::kAnswer : Stage::kError;
}

bool HttpBackend::Answer::OnBody(std::string_view bytes) {
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
  if (shared_->kind == api::BackendKind::kRopeway) {
    service::CallSink(id_, [&] { sink_->OnAlive(id_); });
  }
  const auto give = [this](Delta delta) { Give(std::move(delta)); };
  if (std::optional<Outcome> failure = reply_->Feed(bytes, give)) {
    End(*std::move(failure));
    return false;
  }
  if (!wanted_) {
    End(Outcome::Failed(base::RequestCancelled()));
    return false;
  }
  if (!reply_->complete()) return true;
  End(reply_->End(give));
  Linger();
  return true;
}

void HttpBackend::Answer::OnExchangeEnd(const net::HttpEnd& end) noexcept {
  if (sink_ == nullptr) return;
  try {
    End(OutcomeOf(end));
  } catch (const std::exception&) {  // Memory is short.
    End(Outcome::Failed(FailureKind::kBroken, base::OutOfMemory()));
  }
}

Outcome HttpBackend::Answer::OutcomeOf(const net::HttpEnd& end) {
  const bool cut = end.kind != nullptr;
  if (cut && std::string_view(end.kind) == net::http_error::kInterrupted) {
    return Outcome::Failed(base::RequestCancelled());
  }
  // An end without a head and without an error does not happen.
  if (stage_ == Stage::kSent) return cut ? NoAnswer(end) : api::wire::Broken("did not answer");
  if (stage_ == Stage::kError) return ErrorAnswer();
  Outcome outcome = reply_->End([this](Delta delta) { Give(std::move(delta)); });
  if (cut && !outcome.status.ok()) {
    return api::wire::Broken("broke off its answer: " + end.why);
  }
  return outcome;
}

Outcome HttpBackend::Answer::ErrorAnswer() const {
  if (http_status_ != 200) {
    Outcome failure = api::HttpFailure(http_status_, error_body_);
    failure.status.set_retry_after_seconds(retry_after_);
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

void HttpBackend::Answer::Give(Delta delta) {
  bool more = false;
  const auto tell = [&] { more = sink_->OnDelta(id_, std::move(delta)); };
  if (wanted_) wanted_ = service::CallSink(id_, tell) && more;
}

void HttpBackend::Answer::End(Outcome outcome) noexcept {
  const std::shared_ptr<Sink> sink = std::exchange(sink_, nullptr);
  if (sink == nullptr) return;
  stage_ = Stage::kOver;
  {
    const std::lock_guard lock(shared_->mu);
    shared_->answers.erase(id_);
  }
  if (!outcome.status.ok()) {
    const int retry_after = outcome.status.retry_after_seconds();
    try {
      outcome.status = ShownStatus(outcome.status, shared_->options.server.api_key);
    } catch (const std::exception&) {  // Memory is short.
      outcome.status = base::OutOfMemory();
    }
    outcome.status.set_retry_after_seconds(retry_after);
  }
  service::CallSink(id_, [&] { sink->OnEnd(id_, outcome); });
}

void HttpBackend::Answer::Cancel() {
  std::shared_ptr<net::HttpExchange> exchange;
  {
    const std::lock_guard lock(mu_);
    cancelled_ = true;
    exchange = exchange_.lock();
  }
  if (exchange != nullptr) exchange->Cancel();
}

// The connection can be used again if the end of the body follows soon.
void HttpBackend::Answer::Linger() {
  linger_.expires_after(kLinger);
  linger_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    const std::shared_ptr<Answer> self = weak.lock();
    if (!cancelled && self != nullptr) self->Cancel();
  });
}

// A probe's questions, asked at once; the last answer to come calls `done`. Thread rule: the pool's
// thread, except for Missing.
class HttpBackend::Questions {
 public:
  Questions(std::shared_ptr<Shared> shared, ProbeFn done)
      : shared_(std::move(shared)),
        probes_(shared_->wire->Probes()),
        key_(shared_->options.server.api_key),
        done_(std::move(done)),
        replies_(probes_.size()),
        open_(probes_.size()) {}

  size_t size() const { return probes_.size(); }
  std::string path(size_t i) const { return shared_->PathOf(probes_[i].path); }

  void OnHead(size_t i, int status) {
    replies_[i].status = status;
    replies_[i].began = std::chrono::steady_clock::now();
  }
  bool OnBody(size_t i, std::string_view bytes) {
    replies_[i].body += bytes;
    // A body that comes byte by byte would outlive many probes after it.
    const bool late =
        std::chrono::steady_clock::now() - replies_[i].began > shared_->options.probe_timeout;
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
    const Outcome failure = api::HttpFailure(reply.status, reply.body);
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
    if (shared_->key_refused.exchange(false)) return failure.status;
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
      const std::lock_guard lock(shared_->mu);
      if (!shared_->warned.insert(probe.path).second) return;
    }
    base::TryLog(spdlog::level::warn, "{}: GET {}: {}", shared_->options.server.url, probe.path,
                 ShownText(why.message(), key_));
  }

  const std::shared_ptr<Shared> shared_;
  const std::vector<api::WireProbe> probes_;
  const std::string key_;
  const ProbeFn done_;
  std::vector<Reply> replies_;
  std::atomic<size_t> open_;
};

StatusOr<std::unique_ptr<HttpBackend>> HttpBackend::Open(const HttpBackendOptions& options,
                                                         boost::asio::io_context* io) {
  const BackendOptions& server = options.server;
  const std::optional<api::BackendKind> kind = api::BackendKindOf(server.kind);
  if (!kind) {
    return InvalidArgument(
        fmt::format("kind: expected openai, llamacpp, ollama or ropeway, not '{}'", server.kind),
        "kind");
  }
  StatusOr<net::BaseUrl> url = UrlOf(server.url);
  if (!url.ok()) return url.status();
  std::string api = TakeApi(*kind, &*url);
  net::HttpPool::Options pool_options;
  pool_options.url = *std::move(url);
  pool_options.api_key = server.api_key;
  pool_options.insecure = server.insecure;
  pool_options.max_idle = options.max_idle_connections;
  StatusOr<std::unique_ptr<net::HttpPool>> pool = net::HttpPool::Open(std::move(pool_options), io);
  if (!pool.ok()) return pool.status();
  return std::unique_ptr<HttpBackend>(new HttpBackend(
      std::make_shared<Shared>(options, *kind, std::move(api)), *std::move(pool), io));
}

HttpBackend::HttpBackend(std::shared_ptr<Shared> shared, std::unique_ptr<net::HttpPool> pool,
                         boost::asio::io_context* io)
    : shared_(std::move(shared)), io_(io), pool_(std::move(pool)) {}

HttpBackend::~HttpBackend() {
  // Each holds what holds the list.
  std::map<RequestId, std::shared_ptr<Answer>> dropped;
  const std::lock_guard lock(shared_->mu);
  dropped.swap(shared_->answers);
}

bool HttpBackend::CanResume() const { return shared_->wire->CanResume(); }

std::vector<std::string> HttpBackend::Unknown(const Request& request) const {
  return shared_->wire->Unknown(request);
}

StatusOr<std::vector<RequestId>> HttpBackend::SubmitAll(std::vector<SinkRequest> requests) {
  std::vector<RequestId> ids;
  std::vector<std::shared_ptr<Answer>> answers;
  try {
    std::vector<api::WireRequest> written;
    for (SinkRequest& one : requests) {
      StatusOr<api::WireRequest> wire = shared_->wire->Write(one.request);
      if (!wire.ok()) return wire.status();
      written.push_back(*std::move(wire));
      answers.push_back(std::make_shared<Answer>(shared_, io_, one.request, std::move(one.sink)));
    }
    ids.reserve(answers.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      Send(std::move(written[i]), answers[i]);
      ids.push_back(answers[i]->id());
    }
    return ids;
  } catch (const std::exception&) {
    for (const RequestId id : ids) static_cast<void>(Cancel(id));
    return Status(StatusCode::kUnavailable, "the request was not sent: out of memory");
  }
}

void HttpBackend::Send(api::WireRequest written, const std::shared_ptr<Answer>& answer) {
  const HttpBackendOptions& options = shared_->options;
  net::HttpSend send;
  send.path = shared_->PathOf(written.path);
  send.body = std::move(written.body);
  send.connect_timeout = options.connect_timeout;
  send.first_byte_timeout = options.first_byte_timeout;
  send.idle_timeout = options.idle_timeout;
  net::HttpEvents events;
  events.head = [answer](const net::ReplyHead& head) { answer->OnHead(head); };
  events.body = [answer](std::string_view bytes) { return answer->OnBody(bytes); };
  events.end = [answer](const net::HttpEnd& end) { answer->OnExchangeEnd(end); };
  {
    const std::lock_guard lock(shared_->mu);
    answer->set_id(shared_->next_id++);
    shared_->answers.emplace(answer->id(), answer);
  }
  try {
    answer->set_exchange(pool_->Send(std::move(send), std::move(events)));
  } catch (...) {
    const std::lock_guard lock(shared_->mu);
    shared_->answers.erase(answer->id());
    throw;
  }
}

Status HttpBackend::Cancel(RequestId id) {
  std::shared_ptr<Answer> answer;
  {
    const std::lock_guard lock(shared_->mu);
    const auto found = shared_->answers.find(id);
    if (found == shared_->answers.end()) return NotUnderWay(id);
    answer = found->second;
  }
  answer->Cancel();
  return {};
}

void HttpBackend::Probe(ProbeFn done) {
  const auto questions = std::make_shared<Questions>(shared_, std::move(done));
  for (size_t i = 0; i < questions->size(); ++i) {
    try {
      net::HttpSend send;
      send.method = "GET";
      send.path = questions->path(i);
      send.connect_timeout = shared_->options.connect_timeout;
      send.first_byte_timeout = shared_->options.probe_timeout;
      send.idle_timeout = shared_->options.probe_timeout;
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
