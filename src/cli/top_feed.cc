#include "cli/top_feed.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/utf8.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kFirstPause{500};
constexpr milliseconds kLongestPause{5000};
constexpr seconds kConnectPatience{10};
constexpr seconds kSilence{15};  // A server that has nothing to tell says so once a second.
constexpr size_t kMaxErrorBytes = 16 << 10;

// The message of an error of the server, in its JSON; "": there is none.
std::string MessageOf(const std::string& body) {
  const StatusOr<nlohmann::json> read = base::ReadJson(body, {}, "the error");
  if (!read.ok()) return "";
  return base::PrintableText(base::Text(base::Member(base::Member(*read, "error"), "message")));
}

}  // namespace

StatusOr<std::unique_ptr<TopFeed>> TopFeed::Open(Options options) {
  std::unique_ptr<TopFeed> feed(new TopFeed(std::move(options)));
  net::HttpPool::Options pool;
  pool.url = feed->options_.url;
  pool.api_key = feed->options_.admin_key;
  pool.insecure = feed->options_.insecure;
  auto opened = net::HttpPool::Open(std::move(pool), &feed->io_);
  if (!opened.ok()) return opened.status();
  feed->pool_ = *std::move(opened);
  feed->thread_ = std::thread([self = feed.get()] {
    pthread_setname_np(pthread_self(), "ropeway-top");
    const auto busy = boost::asio::make_work_guard(self->io_);
    self->Connect();
    self->io_.run();
  });
  return feed;
}

TopFeed::TopFeed(Options options)
    : options_(std::move(options)),
      descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      next_pause_(kFirstPause) {}

TopFeed::~TopFeed() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
  pool_.reset();
  close(descriptor_);
}

TopNews TopFeed::News() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

void TopFeed::Rest() const {
  eventfd_t times = 0;
  eventfd_read(descriptor_, &times);
}

void TopFeed::Wake() const { eventfd_write(descriptor_, 1); }

void TopFeed::Connect() {
  parser_.emplace();
  status_ = 0;
  is_stream_ = false;
  error_body_.clear();
  bad_event_ = {};
  net::HttpSend send;
  send.method = "GET";
  send.path = "/admin/events";
  send.fields = {{"Accept", "text/event-stream"}};
  send.connect_timeout = send.first_byte_timeout = kConnectPatience;
  send.idle_timeout = kSilence;
  net::HttpEvents events;
  events.head = [this](const net::ReplyHead& head) { OnHead(head); };
  events.body = [this](std::string_view bytes) { return OnBody(bytes); };
  events.end = [this](const net::HttpEnd& end) { OnEnd(end); };
  pool_->Send(std::move(send), std::move(events));
}

void TopFeed::OnHead(const net::ReplyHead& head) {
  status_ = head.status;
  is_stream_ = status_ == 200 && head.content_type.starts_with("text/event-stream");
}

bool TopFeed::OnBody(std::string_view bytes) {
  if (!is_stream_) {
    error_body_ += bytes.substr(0, kMaxErrorBytes - error_body_.size());
    return status_ != 200 && error_body_.size() < kMaxErrorBytes;
  }
  const std::lock_guard lock(mutex_);
  const bool whole = parser_->Feed(bytes, [this](const net::SseEvent& event) {
    if (!bad_event_.ok()) return;
    const bool greets = event.type == "hello";
    bad_event_ = news_.model.Take(event.type, event.data);
    if (!bad_event_.ok()) return;
    if (greets) news_.since = std::chrono::steady_clock::now();
    if (!greets && news_.model.frames() > 0) {
      had_events_ = true;
      news_.lost.clear();
      next_pause_ = kFirstPause;
    }
  });
  if (!whole) bad_event_ = InvalidArgument("one of its events is too long.");
  Wake();
  return bad_event_.ok();
}

void TopFeed::OnEnd(const net::HttpEnd& end) {
  const std::string url = options_.url.Text();
  if (!bad_event_.ok()) {
    Fail(Status(StatusCode::kUnavailable, fmt::format("{} is no Ropeway that `top` understands: {}",
                                                      url, bad_event_.message())));
  } else if (status_ != 0 && !is_stream_) {
    const Status why = WhyRejected();
    // A server that starts, or a proxy before it, takes the next one perhaps.
    if (had_events_ && (status_ == 429 || status_ >= 500)) {
      Retry(fmt::format("HTTP {}", status_));
    } else {
      Fail(why);
    }
  } else if (had_events_) {
    Retry(end.kind == nullptr ? "the server ended the stream" : end.why);
  } else {
    Fail(
        Status(StatusCode::kUnavailable,
               end.kind == nullptr
                   ? fmt::format("{} ended the stream before its first event.", url)
                   : fmt::format("No server answers at {} ({}): is it running, and is --url right?",
                                 url, end.why)));
  }
}

Status TopFeed::WhyRejected() const {
  const std::string url = options_.url.Text();
  const std::string message = MessageOf(error_body_);
  const std::string said = message.empty() ? "" : ": " + message;
  if (status_ == 401 || status_ == 403) {
    return Status(
        StatusCode::kUnavailable,
        options_.admin_key.empty()
            ? fmt::format("{} needs its admin key (HTTP {}): give it with --admin-key or "
                          "in ROPEWAY_ADMIN_KEY.",
                          url, status_)
            : fmt::format("{} does not take this admin key (HTTP {}{}).", url, status_, said));
  }
  if (status_ == 404 || status_ == 405) {
    return Status(
        StatusCode::kUnavailable,
        fmt::format("{} has no /admin/events (HTTP {}): it is no Ropeway, or an older one.", url,
                    status_));
  }
  if (status_ == 200) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} is no Ropeway: its /admin/events is no stream of events.", url));
  }
  return Status(StatusCode::kUnavailable,
                fmt::format("{} answers HTTP {}{}", url, status_, said.empty() ? "." : said));
}

void TopFeed::Retry(const std::string& why) {
  const milliseconds pause = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  {
    const std::lock_guard lock(mutex_);
    news_.lost = base::PrintableText(why);
  }
  Wake();
  pause_.expires_after(pause);
  pause_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Connect();
  });
}

void TopFeed::Fail(Status status) {
  {
    const std::lock_guard lock(mutex_);
    news_.failure = std::move(status);
  }
  Wake();
}

}  // namespace ropeway::cli
