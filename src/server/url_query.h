// The parameters in the query of a URL, as routes read them.
#ifndef ROPEWAY_SERVER_URL_QUERY_H_
#define ROPEWAY_SERVER_URL_QUERY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::server {

// A parameter that is given several times has its last value, but for Lists.
class UrlQuery {
 public:
  explicit UrlQuery(std::string_view text);

  // As it was given, also if that is ""; absent: it was not.
  std::optional<std::string> Text(const std::string& name);
  // Each stores what the parameter says, and nothing where it is absent. kInvalidArgument names it
  // and what it was to be.
  Status ReadText(const std::string& name, std::string* out);
  Status ReadBool(const std::string& name, bool* out);
  // One in [low, high].
  Status ReadInteger(const std::string& name, int64_t low, int64_t high,
                     std::optional<int64_t>* out);
  // All values of "name" and "name[]", as OpenAI's clients write lists.
  std::vector<std::string> List(const std::string& name);

  // The names of those that nothing asked for, each once.
  std::vector<std::string> Unread() const;

 private:
  // Null: it is absent.
  const std::string* Find(const std::string& name);

  std::vector<std::pair<std::string, std::string>> parameters_;
  std::set<std::string> read_;
};

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_URL_QUERY_H_
