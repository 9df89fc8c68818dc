#include "hub/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/random_access_file.h"
#include "base/sha256.h"
#include "base/system.h"
#include "base/utf8.h"
#include "net/base_url.h"
#include "net/http_client.h"

namespace ropeway::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxErrorBody = 2048;
constexpr size_t kReadChunk = size_t{1} << 20;
constexpr size_t kMaxTag = 1024;
// Beyond the file itself: other programs need some too.
constexpr uint64_t kSpareBytes = uint64_t{64} << 20;

std::string SystemError() { return std::generic_category().message(errno); }

Status Unavailable(const std::string& message) { return {StatusCode::kUnavailable, message}; }

// "bytes 5-99/100": where the part begins, and the length of the whole (0: not said).
struct ContentRange {
  uint64_t begin = 0;
  uint64_t total = 0;
};

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
  return number;
}

std::optional<ContentRange> ParseContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) return std::nullopt;
  const std::optional<uint64_t> begin = ParseNumber(text.substr(0, dash));
  if (!begin) return std::nullopt;
  return ContentRange{*begin, ParseNumber(text.substr(slash + 1)).value_or(0)};
}

// What a server said of the file that a part is of.
struct Origin {
  std::string tag;     // Its entity tag; "": none that is good for this.
  uint64_t total = 0;  // Its length; 0: not known.
};

// What has arrived, with a lock that one process holds, and beside it what is known of the file.
// Tags of other URLs say nothing: two files may have the same.
class PartFile {
 public:
  PartFile(fs::path path, std::string url) : path_(std::move(path)), url_(std::move(url)) {}
  ~PartFile() {
    if (file_ >= 0) close(file_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  Status Open() {
    std::error_code error;
    fs::create_directories(path_.parent_path(), error);
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0) return Unavailable(fmt::format("{}: {}", path_.string(), SystemError()));
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      return Unavailable(fmt::format("{}: another process is fetching it", path_.string()));
    }
    // It may have been renamed between the two calls.
    struct stat mine {};
    struct stat there {};
    if (fstat(file_, &mine) != 0 || stat(path_.c_str(), &there) != 0 ||
        mine.st_ino != there.st_ino) {
      return Unavailable(fmt::format("{}: another process has fetched it", path_.string()));
    }
    bytes_ = static_cast<uint64_t>(mine.st_size);
    return Seek();
  }

  uint64_t bytes() const { return bytes_; }

  Status Write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(file_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        return Unavailable(fmt::format("{}: cannot be written: {}", path_.string(), SystemError()));
      }
      text.remove_prefix(static_cast<size_t>(written));
      bytes_ += static_cast<uint64_t>(written);
    }
    return {};
  }

  Status Clear() {
    if (ftruncate(file_, 0) != 0) {
      return Unavailable(fmt::format("{}: cannot be emptied: {}", path_.string(), SystemError()));
    }
    bytes_ = 0;
    return Seek();
  }

  // Lines: the URL, the length, the tag.
  Origin ReadOrigin() const {
    const std::string begin = url_ + '\n';
    const std::string note = base::ReadFile(TagPath(), begin.size() + 2 * kMaxTag).value_or("");
    const size_t end = note.find('\n', begin.size());
    if (!note.starts_with(begin) || end == note.npos) return {};
    const std::optional<uint64_t> total =
        ParseNumber(std::string_view(note).substr(begin.size(), end - begin.size()));
    if (!total) return {};
    return {.tag = note.substr(end + 1), .total = *total};
  }
  void NoteOrigin(const Origin& origin) {
    std::ofstream(TagPath()) << url_ << '\n' << origin.total << '\n' << origin.tag;
  }

  // Puts the whole file in its place.
  Status MoveTo(const fs::path& to) {
    if (fsync(file_) != 0) {
      return Unavailable(fmt::format("{}: cannot be written: {}", path_.string(), SystemError()));
    }
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    fs::rename(path_, to, error);
    if (error) return Unavailable(fmt::format("{}: {}", to.string(), error.message()));
    fs::remove(TagPath(), error);
    return SyncPath(to.parent_path());
  }

  void Remove() {
    std::error_code error;
    fs::remove(path_, error);
    fs::remove(TagPath(), error);
  }

 private:
  std::string TagPath() const { return path_.string() + ".tag"; }
  Status Seek() {
    if (lseek(file_, 0, SEEK_END) >= 0) return {};
    return Unavailable(fmt::format("{}: {}", path_.string(), SystemError()));
  }

  const fs::path path_;
  const std::string url_;
  int file_ = -1;
  uint64_t bytes_ = 0;
};

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
    uint64_t length = 0;  // 0: not said.
  };

  // Fetches what is missing.
  Status Fetch();
  Attempt Try();
  // One exchange with one host. OK with a Head whose status is a redirect's, or once the body is
  // in the part file.
  Attempt Ask(const net::BaseUrl& url, bool with_token, Head* head);
  bool TakeHead(const net::ReplyHead& reply, Head* head, Attempt* attempt);
  Attempt Refused(const net::BaseUrl& url, int status, const std::string& body) const;
  Status Check();
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
};

Status Downloader::Run() {
  if (Status status = part_.Open(); !status.ok()) return status;
  const Status fetched = Fetch();
  progress_.End();
  if (!fetched.ok()) {
    if (part_.bytes() == 0) part_.Remove();
    return fetched;
  }
  if (Status status = Check(); !status.ok()) return status;
  return part_.MoveTo(request_.to);
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
  }
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
  return {Unavailable(Named(fmt::format("leads elsewhere more than {} times", kMaxRedirects)))};
}

Attempt Downloader::Ask(const net::BaseUrl& url, bool with_token, Head* head) {
  auto client = net::HttpClient::Open(url, with_token ? request_.token : "", false);
  if (!client.ok()) return {client.status(), true};
  boost::asio::io_context io(1);
  const auto call = std::make_shared<net::HttpCall>(client->get(), &io);
  call->set_timeout_when_idle();
  if (part_.bytes() > 0) {
    call->AddField("Range", fmt::format("bytes={}-", part_.bytes()));
    // By its sum the whole is checked anyway.
    if (request_.sha256.empty()) call->AddField("If-Range", part_.ReadOrigin().tag);
  }
  Attempt attempt;
  std::string error_body;
  bool keep = false;  // The body belongs to the file.
  const net::HttpCall::OnHead on_head = [&](const net::ReplyHead& reply) {
    keep = TakeHead(reply, head, &attempt);
  };
  const net::HttpCall::OnBody on_body = [&](std::string_view bytes) {
    if (!keep) {
      error_body.append(bytes.substr(0, kMaxErrorBody - error_body.size()));
      return attempt.status.ok() && error_body.size() < kMaxErrorBody;
    }
    attempt.status = part_.Write(bytes);
    progress_.Set(part_.bytes());
    return attempt.status.ok() && (total_ == 0 || part_.bytes() <= total_);
  };
  net::HttpEnd end;
  const std::string none;
  const double timeout = std::chrono::duration<double>(options_.idle_timeout).count();
  boost::asio::co_spawn(io, call->Run(none, none, timeout, on_head, on_body),
                        [&](const std::exception_ptr& exception, net::HttpEnd result) {
                          end = std::move(result);
                          if (exception) end = {net::http_error::kNetwork, "out of memory"};
                        });
  io.run();
  if (!attempt.status.ok()) return attempt;
  if (end.kind != nullptr) return {Unavailable(Named(end.why)), true};
  if (head->status >= 300 && head->status < 400 && !head->location.empty()) return {};
  if (!keep) return Refused(url, head->status, error_body);
  if (total_ > 0 && part_.bytes() < total_) {
    return {Unavailable(Named("the connection ended before the file was whole")), true};
  }
  if (total_ > 0 && part_.bytes() > total_) {
    part_.Remove();
    return {Status(StatusCode::kDataLoss,
                   Named(fmt::format("has more than the {} bytes that are expected", total_)))};
  }
  return {};
}

// Whether the body is the file's, from the part's end on.
bool Downloader::TakeHead(const net::ReplyHead& reply, Head* head, Attempt* attempt) {
  head->status = reply.status;
  head->location = reply.field("Location");
  head->tag = reply.field("ETag");
  head->range = ParseContentRange(reply.field("Content-Range"));
  head->length = ParseNumber(reply.field("Content-Length")).value_or(0);
  uint64_t total = 0;
  const uint64_t known = part_.ReadOrigin().total;
  const bool same = head->range && head->range->begin == part_.bytes() &&
                    (known == 0 || head->range->total == 0 || head->range->total == known);
  if (reply.status == 206 && same) {
    total = head->range->total > 0 ? head->range->total : known;
  } else if (reply.status == 200) {
    // The server knows no ranges, or has another file now.
    attempt->status = part_.Clear();
    total = head->length;
  } else if (reply.status == 206 || reply.status == 416) {
    // What there is does not belong to this file: the next attempt begins anew.
    attempt->status = part_.Clear();
    if (attempt->status.ok()) {
      *attempt = {Unavailable(Named("the server has another part than was asked for")), true};
    }
    return false;
  } else {
    return false;
  }
  if (!attempt->status.ok()) return false;
  if (request_.bytes > 0 && total > 0 && total != request_.bytes) {
    attempt->status =
        Status(StatusCode::kDataLoss,
               Named(fmt::format("has {} bytes, {} are expected", total, request_.bytes)));
    return false;
  }
  if (total > 0 || reply.status == 200) total_ = total > 0 ? total : request_.bytes;
  // A weak tag may stand for other bytes.
  const bool strong = !head->tag.starts_with("W/") && head->tag.size() <= kMaxTag;
  part_.NoteOrigin({.tag = strong ? head->tag : "", .total = total});
  if (total_ > part_.bytes()) {
    attempt->status = CheckSpace(request_.part.parent_path(), total_ - part_.bytes());
  }
  progress_.Start(part_.bytes(), total_);
  return attempt->status.ok();
}

Attempt Downloader::Refused(const net::BaseUrl& url, int status, const std::string& body) const {
  const std::string said = base::PrintableText(body.substr(0, 200));
  if (status == 401 || status == 403) {
    const char* why = "the token may not read it: has its owner accepted the model's terms?";
    if (request_.token.empty()) {
      why = request_.takes_token
                ? "the server wants a token: set HF_TOKEN to one that may read it"
                : "the server wants to know who asks, and a token is sent to the Hugging Face hub "
                  "alone: fetch the file with another program, and pull its path";
    }
    return {Status(StatusCode::kUnavailable, Named(fmt::format("{} ({}): {}", why, status, said)))};
  }
  if (status == 404 || status == 410) {
    return {
        Status(StatusCode::kNotFound, Named(fmt::format("there is no such file ({})", status)))};
  }
  const bool again = status == 408 || status == 429 || status >= 500;
  return {Unavailable(Named(fmt::format("{} answers {}: {}", url.host, status, said))), again};
}

Status Downloader::Check() {
  if (request_.sha256.empty()) return {};
  const StatusOr<std::string> sum = FileSha256(request_.part);
  if (!sum.ok()) return sum.status();
  if (*sum == request_.sha256) return {};
  part_.Remove();
  return {StatusCode::kDataLoss,
          Named(fmt::format("the SHA-256 sum of what was fetched is {}, {} is expected; it was "
                            "deleted",
                            *sum, request_.sha256))};
}

}  // namespace

Status Download(const DownloadRequest& request, const DownloadOptions& options,
                Progress* progress) {
  return Downloader(request, options, progress).Run();
}

StatusOr<net::BaseUrl> NextUrl(const net::BaseUrl& from, const std::string& location) {
  StatusOr<net::BaseUrl> next = net::ParseLocation(from, location);
  if (!next.ok()) return Unavailable("leads to no URL: " + next.status().message());
  if (from.tls && !next->tls) return Unavailable("leads from https to " + next->Text());
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
  return Unavailable(fmt::format("{} are needed on the disk of {}, {} are free",
                                 FileSizeText(needed), folder.string(), FileSizeText(free)));
}

Status SyncPath(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool good = file >= 0 && fsync(file) == 0;
  const std::string why = good ? "" : SystemError();
  if (file >= 0) close(file);
  if (good) return {};
  return Unavailable(fmt::format("{}: cannot be synced: {}", path.string(), why));
}

}  // namespace ropeway::hub
