#include "hub/download.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/random_access_file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "base/words.h"
#include "hub/part_file.h"

namespace ropeway::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxErrorBody = 2048;
constexpr size_t kReadChunk = size_t{1} << 20;
constexpr size_t kMaxTag = 1024;
// Stay free beyond what is fetched: other programs need some too.
constexpr uint64_t kSpareBytes = uint64_t{64} << 20;
// The free space is looked at again after so many bytes: not every server says how many come, and
// others write to the disk too.
constexpr uint64_t kSpaceStep = uint64_t{1} << 20;

Status Unavailable(const std::string& message) { return {StatusCode::kUnavailable, message}; }

// "bytes 5-99/100": the first and the last byte of a part, and the length of the whole (0: not
// said).
struct ContentRange {
  uint64_t begin = 0;
  uint64_t last = 0;
  uint64_t total = 0;
};

std::optional<ContentRange> ParseContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) return std::nullopt;
  const std::optional<uint64_t> begin = base::ParseNumber<uint64_t>(text.substr(0, dash));
  const std::optional<uint64_t> last =
      base::ParseNumber<uint64_t>(text.substr(dash + 1, slash - dash - 1));
  const std::string_view whole = text.substr(slash + 1);
  const std::optional<uint64_t> total = whole == "*" ? 0 : base::ParseNumber<uint64_t>(whole);
  if (!begin || !last || !total || *last < *begin) return std::nullopt;
  if (whole != "*" && *last >= *total) return std::nullopt;
  return ContentRange{*begin, *last, *total};
}

// How one attempt ended.
struct Attempt {
  Status status;       // OK: the file is whole.
  bool again = false;  // Another attempt may succeed.
};

// The attempts of one download.
class Downloader {
 public:
  Downloader(const DownloadRequest& request, const DownloadOptions& options, Progress* progress)
      : request_(request),
        options_(options),
        progress_(*progress),
        part_(request.part, request.url) {}

  Status Run();

 private:
  // What is known of a reply, before its body.
  struct Head {
    int status = 0;
    std::string location;
    std::string tag;
    std::optional<ContentRange> range;
    std::optional<uint64_t> length;
  };

  Status FetchAndCheck();
  // Fetches what is missing.
  Status Fetch();
  Attempt Try();
  // One exchange with one host. OK with a Head whose status is a redirect's, or once the body is
  // in the part file.
  Attempt Ask(const net::BaseUrl& url, bool with_token, Head* head);
  bool TakeHead(const net::BaseUrl& url, const net::ReplyHead& reply, Head* head, Attempt* attempt);
  bool GoesOn(const net::BaseUrl& url, const Head& head) const;
  Attempt Refused(const net::BaseUrl& url, int status, const std::string& body) const;
  // Interrupts `call` as soon as no request wants the file any more, which it asks while `asks`:
  // cancel() does not reach a wait of the timer that is over. All must outlive the timer's wait.
  void InterruptUnwanted(boost::asio::steady_timer* timer, const bool* asks, net::HttpCall* call,
                         Attempt* attempt);
  Status NotWanted() const {
    return {StatusCode::kCancelled, Named("nobody waits for it any more")};
  }
  Status Check();
  Status Keep(std::string_view bytes);
  // What is noted of the file, if it is what `url` leads to.
  Origin OriginAt(const net::BaseUrl& url) const {
    const Origin origin = part_.ReadOrigin();
    return origin.place == PlaceOf(url.Text()) ? origin : Origin();
  }
  bool CanResume() const {
    return part_.bytes() > 0 && (!request_.sha256.empty() || !part_.ReadOrigin().tag.empty());
  }
  std::string Named(const std::string& what) const {
    return fmt::format("{}: {}", base::PrintableText(request_.url), what);
  }

  const DownloadRequest& request_;
  const DownloadOptions& options_;
  Progress& progress_;
  PartFile part_;
  uint64_t total_ = 0;
  uint64_t room_ = 0;    // So many bytes may be written before the disk is looked at.
  bool joined_ = false;  // What is there may be of more than one reply.
};

Status Downloader::Run() {
  if (Status status = part_.Open(); !status.ok()) return status;
  joined_ = part_.bytes() > 0;
  Status status = FetchAndCheck();
  if (status.code() == StatusCode::kDataLoss && joined_) {
    // Its parts may have been of two files that had no tags: one of them is fetched whole.
    if (Status cleared = part_.Clear(); !cleared.ok()) return cleared;
    status = FetchAndCheck();
  }
  if (status.ok()) return part_.MoveTo(request_.to);
  if (part_.bytes() == 0 || status.code() == StatusCode::kDataLoss) part_.Remove();
  return status;
}

Status Downloader::FetchAndCheck() {
  const Status fetched = Fetch();
  progress_.End();
  return fetched.ok() ? Check() : fetched;
}

Status Downloader::Fetch() {
  total_ = request_.bytes;
  uint64_t most = part_.bytes();  // That were ever there: what begins anew gets no further.
  int tries = 0;                  // From the last on that got further.
  while (true) {
    if (part_.bytes() > 0 && !CanResume()) {
      if (Status status = part_.Clear(); !status.ok()) return status;
    }
    if (total_ > 0 && part_.bytes() == total_) return {};
    const Attempt attempt = Try();
    if (attempt.status.ok()) return {};
    tries = part_.bytes() > most ? 1 : tries + 1;
    most = std::max(most, part_.bytes());
    if (!attempt.again || tries >= options_.attempts) return attempt.status;
    std::this_thread::sleep_for(options_.pause * (1 << std::min(tries - 1, 4)));
    if (options_.wanted && !options_.wanted()) return NotWanted();
  }
}

void Downloader::InterruptUnwanted(boost::asio::steady_timer* timer, const bool* asks,
                                   net::HttpCall* call, Attempt* attempt) {
  timer->expires_after(options_.ask_wanted_every);
  timer->async_wait([=, this](const boost::system::error_code& error) {
    if (error || !*asks) return;
    if (options_.wanted()) return InterruptUnwanted(timer, asks, call, attempt);
    attempt->status = NotWanted();
    call->Interrupt();
  });
}

Attempt Downloader::Try() {
  StatusOr<net::BaseUrl> first = net::ParseFileUrl(request_.url);
  if (!first.ok()) return {first.status()};
  net::BaseUrl url = *first;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    Head head;
    Attempt attempt = Ask(url, net::SameServer(url, *first), &head);
    if (!attempt.status.ok() || head.status < 300) return attempt;
    StatusOr<net::BaseUrl> next = NextUrl(url, head.location);
    if (!next.ok()) return {Unavailable(Named(next.status().message()))};
    url = *std::move(next);
  }
  return {Unavailable(Named(fmt::format("redirects more than {} times", kMaxRedirects)))};
}

Attempt Downloader::Ask(const net::BaseUrl& url, bool with_token, Head* head) {
  auto client = OpenClient(url, with_token ? request_.token : "");
  if (!client.ok()) return {client.status(), client.status().code() == StatusCode::kUnavailable};
  boost::asio::io_context io(1);
  const auto call = std::make_shared<net::HttpCall>(client->get(), &io);
  call->set_timeout_when_idle();
  const std::string tag = OriginAt(url).tag;
  // Where neither a tag nor a sum says what the whole is, all of it is asked for.
  if (part_.bytes() > 0 && !(tag.empty() && request_.sha256.empty())) {
    call->AddField("Range", fmt::format("bytes={}-", part_.bytes()));
    if (!tag.empty()) call->AddField("If-Range", tag);
  }
  Attempt attempt;
  std::string error_body;
  bool keep = false;  // The body belongs to the file.
  const net::HttpCall::OnHead on_head = [&](const net::ReplyHead& reply) {
    keep = TakeHead(url, reply, head, &attempt);
  };
  const net::HttpCall::OnBody on_body = [&](std::string_view bytes) {
    if (!keep) {
      error_body.append(bytes.substr(0, kMaxErrorBody - error_body.size()));
      return attempt.status.ok() && error_body.size() < kMaxErrorBody;
    }
    attempt.status = Keep(bytes);
    progress_.Set(part_.bytes());
    return attempt.status.ok() && (total_ == 0 || part_.bytes() <= total_);
  };
  net::HttpEnd end;
  boost::asio::steady_timer timer(io);
  bool asks = options_.wanted != nullptr;
  if (asks) InterruptUnwanted(&timer, &asks, call.get(), &attempt);
  const std::string none;
  const double timeout = std::chrono::duration<double>(options_.idle_timeout).count();
  boost::asio::co_spawn(io, call->Run(none, none, timeout, on_head, on_body),
                        [&](const std::exception_ptr& exception, net::HttpEnd result) {
                          asks = false;
                          timer.cancel();
                          end = std::move(result);
                          if (exception) end = {net::http_error::kNetwork, "out of memory"};
                        });
  io.run();
  if (!attempt.status.ok()) return attempt;
  if (end.kind != nullptr)
    return {Unavailable(Named(end.why)), end.kind != net::http_error::kRefused};
  if (head->status >= 300 && head->status < 400 && !head->location.empty()) return {};
  if (!keep) return Refused(url, head->status, error_body);
  if (total_ > 0 && part_.bytes() < total_) {
    return {Unavailable(Named("the connection was closed before the whole file arrived")), true};
  }
  if (total_ > 0 && part_.bytes() > total_) {
    return {Status(StatusCode::kDataLoss,
                   Named(fmt::format("has more than the expected {} bytes", total_)))};
  }
  return {};
}

// Writes what came, if the disk has room for it.
Status Downloader::Keep(std::string_view bytes) {
  Status status;
  if (room_ < bytes.size()) {
    const uint64_t missing = total_ > part_.bytes() ? total_ - part_.bytes() : kSpaceStep;
    room_ = std::max<uint64_t>(std::min(missing, kSpaceStep), bytes.size());
    status = options_.check_space(request_.part.parent_path(), room_);
  }
  if (status.ok()) status = part_.Write(bytes);
  room_ -= std::min<uint64_t>(room_, bytes.size());
  if (status.ok()) return status;
  const std::string here = FileSizeText(part_.bytes());
  return Unavailable(Named(fmt::format(
      "{}; free some disk space and run the command again: it {}", status.message(),
      CanResume() ? fmt::format("continues after the {} that are already here", here)
                  : fmt::format("starts over, because the {} that are already here may be from "
                                "another version of the file",
                                here))));
}

// Whether a part that the server sends goes on behind what is there, in the same file. RFC 9110,
// section 15.3.7.3: parts are joined only where both have the same strong tag. A sum is as good,
// but not against tags that differ.
bool Downloader::GoesOn(const net::BaseUrl& url, const Head& head) const {
  if (!head.range || head.range->begin != part_.bytes()) return false;
  if (head.length && *head.length != head.range->last - head.range->begin + 1) return false;
  const Origin origin = OriginAt(url);
  const uint64_t known = origin.total > 0 ? origin.total : request_.bytes;
  const uint64_t said = head.range->total;
  // Nothing says how much is missing, or two answers differ.
  if (known == 0 && said == 0) return false;
  if (origin.total > 0 && said > 0 && said != origin.total) return false;
  if (part_.bytes() == 0) return true;
  if (!origin.tag.empty() && !head.tag.empty()) return head.tag == origin.tag;
  return !request_.sha256.empty();
}

// Whether the body is the file's, from the part's end on.
bool Downloader::TakeHead(const net::BaseUrl& url, const net::ReplyHead& reply, Head* head,
                          Attempt* attempt) {
  head->status = reply.status;
  head->location = reply.field("Location");
  head->tag = reply.field("ETag");
  head->range = ParseContentRange(reply.field("Content-Range"));
  head->length = base::ParseNumber<uint64_t>(reply.field("Content-Length"));
  uint64_t total = 0;
  if (reply.status == 206 && GoesOn(url, *head)) {
    total = head->range->total > 0 ? head->range->total : OriginAt(url).total;
    joined_ = joined_ || part_.bytes() > 0;
  } else if (reply.status == 200) {
    // The server knows no ranges, or has another file now.
    attempt->status = part_.Clear();
    total = head->length.value_or(0);
    joined_ = false;
  } else if (reply.status == 206 || reply.status == 416) {
    // What there is does not belong to this file: the next attempt begins anew.
    attempt->status = part_.Clear();
    if (attempt->status.ok()) {
      *attempt = {Unavailable(Named("the server did not send the requested part")), true};
    }
    return false;
  } else {
    return false;
  }
  if (!attempt->status.ok()) return false;
  if (request_.bytes > 0 && total > 0 && total != request_.bytes) {
    attempt->status =
        Status(StatusCode::kDataLoss,
               Named(fmt::format("has {} bytes, expected {}", total, request_.bytes)));
    return false;
  }
  if (total > 0 || reply.status == 200) total_ = total > 0 ? total : request_.bytes;
  // A weak tag may stand for other bytes.
  const bool strong = !head->tag.starts_with("W/") && head->tag.size() <= kMaxTag;
  part_.NoteOrigin({.tag = strong ? head->tag : "", .total = total, .place = url.Text()});
  if (total_ > part_.bytes()) {
    attempt->status = options_.check_space(request_.part.parent_path(), total_ - part_.bytes());
  }
  progress_.Start(part_.bytes(), total_);
  return attempt->status.ok();
}

Attempt Downloader::Refused(const net::BaseUrl& url, int status, const std::string& body) const {
  const std::string said = base::PrintableText(body.substr(0, 200));
  if (status == 401 || status == 403) {
    const char* why = "the token does not give access: has its owner accepted the model's terms?";
    if (request_.token.empty()) {
      why = request_.takes_token
                ? "the server requires a token: set HF_TOKEN to one with access to the model"
                : "the server requires authentication, but a token is only sent to the Hugging "
                  "Face hub: download the file with another program and pull its path";
    }
    return {Status(StatusCode::kUnavailable, Named(fmt::format("{} ({}): {}", why, status, said)))};
  }
  if (status == 404 || status == 410) {
    return {Status(StatusCode::kNotFound, Named(fmt::format("file not found ({})", status)))};
  }
  const bool again = status == 408 || status == 429 || status >= 500;
  return {Unavailable(Named(fmt::format("{} answers {}: {}", url.host, status, said))), again};
}

Status Downloader::Check() {
  if (request_.sha256.empty()) return {};
  const StatusOr<std::string> sum = FileSha256(request_.part);
  if (!sum.ok()) return sum.status();
  if (*sum == request_.sha256) return {};
  return {StatusCode::kDataLoss,
          Named(fmt::format("the SHA-256 sum is {}, expected {}; the fetched file was deleted",
                            *sum, request_.sha256))};
}

}  // namespace

Status Download(const DownloadRequest& request, const DownloadOptions& options,
                Progress* progress) {
  return Downloader(request, options, progress).Run();
}

StatusOr<std::unique_ptr<net::HttpClient>> OpenClient(const net::BaseUrl& url,
                                                      const std::string& token) {
  auto proxy = net::ProxyFor(url);
  if (!proxy.ok()) return proxy.status();
  return net::HttpClient::Open(url, token, false, *std::move(proxy));
}

StatusOr<net::BaseUrl> NextUrl(const net::BaseUrl& from, const std::string& location) {
  StatusOr<net::BaseUrl> next = net::ParseLocation(from, location);
  if (!next.ok()) return Unavailable("redirects to an invalid URL: " + next.status().message());
  if (from.tls && !next->tls) {
    return Unavailable("redirects from https to " + next->Text() + ", which is not followed");
  }
  return next;
}

StatusOr<std::string> FileSha256(const fs::path& path) {
  const StatusOr<base::RandomAccessFile> file = base::RandomAccessFile::Open(path.string());
  if (!file.ok()) return file.status();
  base::Sha256Stream sum;
  std::vector<std::byte> chunk(kReadChunk);
  for (uint64_t at = 0; at < file->bytes();) {
    const uint64_t bytes = std::min<uint64_t>(chunk.size(), file->bytes() - at);
    const std::span<std::byte> part = std::span(chunk).first(static_cast<size_t>(bytes));
    if (Status status = file->Read(at, part); !status.ok()) return status;
    sum.Add(part.data(), part.size());
    at += bytes;
  }
  return base::HexText(sum.End());
}

uint64_t AddSizes(uint64_t a, uint64_t b) { return b <= UINT64_MAX - a ? a + b : UINT64_MAX; }

Status CheckSpace(const fs::path& folder, uint64_t bytes) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return {};  // Writing will tell.
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  const uint64_t needed = AddSizes(bytes, kSpareBytes);
  if (needed <= free) return {};
  return Unavailable(fmt::format("not enough disk space for {}: {} needed, {} free",
                                 folder.string(), FileSizeText(needed), FileSizeText(free)));
}

}  // namespace ropeway::hub
