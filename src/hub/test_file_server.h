// A server of files for tests, as the hub and its mirrors are: ranges, entity tags, redirects and
// tokens; and what goes wrong on the way.
#ifndef ROPEWAY_HUB_TEST_FILE_SERVER_H_
#define ROPEWAY_HUB_TEST_FILE_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "net/test_fake_server.h"

namespace ropeway::hub {

// What the server has under one path.
struct ServedFile {
  std::string bytes = {};
  std::string tag = "\"one\"";     // ETag.
  std::string location = {};       // Not empty: the file is there.
  std::string token = {};          // Not empty: without it the answer is 401.
  int status = 200;                // Another: an error.
  bool ranges = true;              // Knows Range.
  bool if_range = true;            // Knows If-Range.
  std::string range_text = {};     // Not empty: of a part, instead of the right Content-Range.
  bool part_tag = true;            // Parts have the tag too.
  bool length = true;              // Says how long a file is.
  uint64_t claims = 0;             // Not 0: says that it is this long.
  std::string link = {};           // Not empty: the field Link.
  size_t cut = std::string::npos;  // The connection ends after so many bytes of a reply.
  int cuts = 1 << 30;              // How many times the connection ends so.
  bool hang = false;               // After the head, nothing comes.
};

class TestFileServer {
 public:
  TestFileServer();

  // Absent paths are 404.
  void Put(const std::string& path, ServedFile file);
  std::string url(const std::string& path) const { return server_.url() + path; }
  std::vector<net::FakeRequest> requests() const { return server_.requests(); }
  // One field of each request, in order; "" where it has none.
  std::vector<std::string> fields(const std::string& name) const;

 private:
  net::FakeReply Answer(const net::FakeRequest& request);

  std::mutex mutex_;
  std::map<std::string, ServedFile> files_;
  net::FakeServer server_;  // The last: it answers by the others.
};

// A folder that is deleted with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Makes the folders on the way.
  void Write(const std::string& name, const std::string& bytes) const;
  // "" if it cannot be read.
  std::string Read(const std::string& name) const;
  bool Has(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

// Bytes that differ everywhere.
std::string SomeBytes(size_t count);
// Their SHA-256 sum.
std::string SumOf(const std::string& bytes);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_TEST_FILE_SERVER_H_
