// A directory that may be written to and searched, but not read.
#ifndef ROPEWAY_BASE_TEST_UNREADABLE_DIRECTORY_H_
#define ROPEWAY_BASE_TEST_UNREADABLE_DIRECTORY_H_

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace ropeway::base {

// Makes an existing directory so for the time of a scope. The superuser may read everything:
// meanwhile its process acts for another user, the directory's owner.
class UnreadableDirectory {
 public:
  explicit UnreadableDirectory(std::string path) : path_(std::move(path)) {
    const bool good = chmod(path_.c_str(), 0300) == 0 &&
                      (!root_ || (chown(path_.c_str(), kNobody, static_cast<gid_t>(-1)) == 0 &&
                                  seteuid(kNobody) == 0));
    if (!good) std::abort();
  }
  ~UnreadableDirectory() {
    if (root_ && seteuid(0) != 0) std::abort();
    if (chmod(path_.c_str(), 0700) != 0) std::abort();
  }
  UnreadableDirectory(const UnreadableDirectory&) = delete;
  UnreadableDirectory& operator=(const UnreadableDirectory&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const std::string path_;
  const bool root_ = geteuid() == 0;
};

}  // namespace ropeway::base

#endif  // ROPEWAY_BASE_TEST_UNREADABLE_DIRECTORY_H_
