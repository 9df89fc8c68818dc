// What has arrived of a download, and what is known of the file that it is a part of.
#ifndef ROPEWAY_HUB_PART_FILE_H_
#define ROPEWAY_HUB_PART_FILE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ropeway/status.h"

namespace ropeway::hub {

// A URL without its query: signed URLs have another query each time.
std::string_view PlaceOf(std::string_view url);

// What a server said of the file that a part is of.
struct Origin {
  std::string tag;     // Its strong entity tag; "": none.
  uint64_t total = 0;  // Its length; 0: not known.
  std::string place;   // The URL that gave the bytes, behind all redirects and without a query.
};

// Bytes that arrived for one URL, with a lock that one process holds, and beside them a note of the
// origin. Thread rule: one thread.
class PartFile {
 public:
  // `url` is the one that was asked for: tags of another say nothing, two files may have the same.
  PartFile(std::filesystem::path path, std::string url);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // Makes the file if there is none. kUnavailable if another process has it.
  Status Open();

  uint64_t bytes() const { return bytes_; }

  Status Write(std::string_view text);
  // Forgets the bytes and the origin.
  Status Clear();

  // Empty where nothing usable is noted.
  Origin ReadOrigin() const;
  // What cannot be noted is no failure: then the part is not resumed.
  void NoteOrigin(const Origin& origin);

  // Puts the whole file in its place, safe from a loss of power.
  Status MoveTo(const std::filesystem::path& to);
  void Remove();

 private:
  std::string NotePath() const { return path_.string() + ".tag"; }
  Status Seek();

  const std::filesystem::path path_;
  const std::string url_;
  int file_ = -1;
  uint64_t bytes_ = 0;
};

// OK for a folder, and for a file that has this name alone: what is written there reaches nothing
// else. kUnavailable, naming it, for links and what is no file.
Status CheckOwnEntry(const std::filesystem::path& path);

// Makes what was written to the file (or folder) outlive a loss of power.
Status SyncPath(const std::filesystem::path& path);

}  // namespace ropeway::hub

#endif  // ROPEWAY_HUB_PART_FILE_H_
