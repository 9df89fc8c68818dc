#include "server/item_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/json.h"
#include "base/json.h"

namespace ropeway::server {
namespace {

constexpr int64_t kMostInPage = 100;

// What was stored was read under a server's bounds, which may have been others.
constexpr base::JsonBounds kItemBounds = {.max_depth = 1000};

std::string IdOf(const std::string& item) {
  const StatusOr<nlohmann::ordered_json> id =
      base::ReadOrderedMember(item, {"id"}, kItemBounds, "The item");
  return id.ok() && id->is_string() ? id->get<std::string>() : "";
}

std::string IdJson(const Items& items, size_t index) {
  std::string text;
  api::AppendJsonString(IdOf(items[index]), &text);
  return text;
}

}  // namespace

StatusOr<PageOptions> ReadPageOptions(UrlQuery* query) {
  PageOptions page;
  std::optional<int64_t> limit;
  std::string order = "desc";
  Status status = query->ReadInteger("limit", 1, kMostInPage, &limit);
  if (status.ok()) status = query->ReadText("order", &order);
  if (status.ok()) status = query->ReadText("after", &page.after);
  if (!status.ok()) return status;
  if (order != "asc" && order != "desc") {
    return InvalidArgument(
        fmt::format("'order' must be 'asc' or 'desc', but is '{}'.", api::ShownName(order)),
        "order");
  }
  page.limit = limit.value_or(page.limit);
  page.ascending = order == "asc";
  return page;
}

std::optional<size_t> FindItem(const Items& items, const std::string& id) {
  for (size_t i = 0; i < items.size(); ++i) {
    // Few others are parsed.
    if (items[i].find(id) != std::string::npos && IdOf(items[i]) == id) return i;
  }
  return std::nullopt;
}

StatusOr<std::string> PageJson(const Items& items, const PageOptions& page) {
  size_t skipped = 0;
  if (!page.after.empty()) {
    const std::optional<size_t> after = FindItem(items, page.after);
    if (!after) {
      return InvalidArgument(fmt::format("'after' must be the id of an item of this list, but is "
                                         "'{}'.",
                                         api::ShownName(page.after)),
                             "after");
    }
    skipped = page.ascending ? *after + 1 : items.size() - *after;
  }
  const size_t count = std::min(static_cast<size_t>(page.limit), items.size() - skipped);
  const auto at = [&](size_t i) {
    return page.ascending ? skipped + i : items.size() - 1 - skipped - i;
  };
  std::string data;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) data += ',';
    data += items[at(i)];
  }
  return fmt::format(R"({{"object":"list","data":[{}],"first_id":{},"last_id":{},"has_more":{}}})",
                     data, count > 0 ? IdJson(items, at(0)) : "null",
                     count > 0 ? IdJson(items, at(count - 1)) : "null",
                     skipped + count < items.size());
}

}  // namespace ropeway::server
