// One file over HTTP: resumed where it was left, checked, and in place only when it is whole.
#ifndef ROPEWAY_HUB_DOWNLOAD_H_
#define ROPEWAY_HUB_DOWNLOAD_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "hub/progress.h"
#include "net/base_url.h"
#include "net/http_client.h"
#include "ropeway/status.h"

namespace ropeway::hub {

struct DownloadRequest {
  std::string url;
  std::string token;           // Sent to the URL's own host alone; "": none.
  bool takes_token = false;    // Whether one would be sent, if the user had one.
  std::filesystem::path to;    // Where the whole file goes.
  std::filesystem::path part;  // What has arrived until then; on the same file system.
  uint64_t bytes = 0;          // Expected; 0: not known.
  std::string sha256;          // Expected; "": not known.
};

// OK if `bytes` more fit on the disk of `folder`, and 64 MiB stay free then.
Status CheckSpace(const std::filesystem::path& folder, uint64_t bytes);

struct DownloadOptions {
  // A connection on which nothing has come for this long is given up.
  std::chrono::milliseconds idle_timeout{60'000};
  // The download fails after this many attempts in a row that add nothing to what the first of them
  // brought. The pause between attempts grows.
  int attempts = 5;
  std::chrono::milliseconds pause{500};
  // Asked before the first byte where the length is known, and again for each mebibyte that comes.
  std::function<Status(const std::filesystem::path& folder, uint64_t bytes)> check_space =
      CheckSpace;
  // Whether anybody waits for the file: asked every so often while one is awaited, and before
  // another attempt. Null: yes.
  std::function<bool()> wanted = nullptr;
  std::chrono::milliseconds ask_wanted_every{1'000};
};

// Fetches the file. Follows redirects (not from https to http). What arrived stays in `part`, and a
// later call asks only for the rest (Range) if the server says that it is the same file: at the
// same URL by its entity tag and length, or by the sum that is expected. Checks the sum of the
// whole, and the space on disk before it is needed and while bytes come. Renames the file when it
// is safe on disk. Fails with one sentence that names the URL: kNotFound, kUnavailable (no
// connection, no space, a server's error), kDataLoss (another sum), kCancelled (not wanted).
Status Download(const DownloadRequest& request, const DownloadOptions& options, Progress* progress);

// A client for `url`, behind the proxy of the environment where one is for it.
StatusOr<std::unique_ptr<net::HttpClient>> OpenClient(const net::BaseUrl& url,
                                                      const std::string& token);

// Where a redirect at `from` leads: what Location says, if it is a URL, and not http behind https,
// which would show to others on the way what was to be kept from them. kUnavailable otherwise.
StatusOr<net::BaseUrl> NextUrl(const net::BaseUrl& from, const std::string& location);

// The SHA-256 sum of a file in hexadecimal.
StatusOr<std::string> FileSha256(const std::filesystem::path& path);

// The sum of two sizes that others have said; at most the largest number.
uint64_t AddSizes(uint64_t a, uint64_t b);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_DOWNLOAD_H_
