// Pages of a list of items, in the shape that OpenAI's clients page through.
#ifndef ROPEWAY_SERVER_ITEM_LIST_H_
#define ROPEWAY_SERVER_ITEM_LIST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "server/answer_records.h"
#include "server/url_query.h"

namespace ropeway::server {

struct PageOptions {
  int64_t limit = 20;
  bool ascending = false;  // The oldest item comes first.
  std::string after = {};  // The id of the item before the page's first; "": the page is the first.
};

// `limit`, `order` and `after`.
StatusOr<PageOptions> ReadPageOptions(UrlQuery* query);

// The place of the item with this id; nullopt: there is none.
std::optional<size_t> FindItem(const Items& items, const std::string& id);

// {"object": "list", "data", "first_id", "last_id", "has_more"} of the page. `items`: the oldest
// first. kInvalidArgument: `after` is none of them.
StatusOr<std::string> PageJson(const Items& items, const PageOptions& page);

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_ITEM_LIST_H_
