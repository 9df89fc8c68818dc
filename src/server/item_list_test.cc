#include "server/item_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ropeway::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;

TEST(UrlQuery, ReadsWhatIsThere) {
  UrlQuery query("a=x%20y+z&b=true&n=-3&list[]=1&list=2&list%5B%5D=3&a=last&&=&odd");
  std::string text = "before";
  bool flag = false;
  std::optional<int64_t> number;
  EXPECT_TRUE(query.ReadText("a", &text).ok());
  EXPECT_EQ(text, "last");
  EXPECT_TRUE(query.ReadText("absent", &text).ok());
  EXPECT_EQ(text, "last");
  EXPECT_TRUE(query.ReadBool("b", &flag).ok());
  EXPECT_TRUE(flag);
  EXPECT_TRUE(query.ReadInteger("n", -3, 7, &number).ok());
  EXPECT_EQ(number, -3);
  EXPECT_THAT(query.List("list"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(query.Unread(), ElementsAre("", "odd"));
  UrlQuery spaces("a=x%20y+z%2B");
  EXPECT_TRUE(spaces.ReadText("a", &text).ok());
  EXPECT_EQ(text, "x y z+");
}

TEST(UrlQuery, NamesWhatIsWrong) {
  UrlQuery query("flag=1&big=8&small=-1&word=x&real=1.0&huge=99999999999999999999&none=");
  bool flag = false;
  std::string text;
  std::optional<int64_t> number;
  const auto told = [](const Status& status) { return status.field() + ": " + status.message(); };
  EXPECT_EQ(told(query.ReadBool("flag", &flag)), "flag: 'flag' must be true or false, but is '1'.");
  EXPECT_EQ(told(query.ReadInteger("big", 0, 7, &number)),
            "big: 'big' must be an integer from 0 to 7, but is '8'.");
  for (const char* name : {"small", "word", "real", "huge", "none"}) {
    EXPECT_EQ(query.ReadInteger(name, 0, 7, &number).field(), name);
  }
  EXPECT_EQ(told(query.ReadText("none", &text)), "none: 'none' is empty.");
  EXPECT_FALSE(number.has_value());
}

// Items "a", "b" ... in the order in which they came.
Items ItemsOf(const std::string& ids) {
  Items items;
  for (const char id : ids) {
    items.push_back(R"({"type":"message","text":"a b c d e","id":")" + std::string(1, id) + "\"}");
  }
  return items;
}

// The ids of a page, and "+" if more follow; or the field at fault.
std::string Page(const Items& items, const std::string& text) {
  UrlQuery query(text);
  const StatusOr<PageOptions> page = ReadPageOptions(&query);
  if (!page.ok()) return page.status().field();
  const StatusOr<std::string> body = PageJson(items, *page);
  if (!body.ok()) return body.status().field();
  const json list = json::parse(*body);
  EXPECT_EQ(list["object"], "list");
  std::string ids;
  for (const json& item : list["data"]) ids += item["id"].get<std::string>();
  if (ids.empty()) {
    EXPECT_TRUE(list["first_id"].is_null() && list["last_id"].is_null());
  } else {
    EXPECT_EQ(list["first_id"], ids.substr(0, 1));
    EXPECT_EQ(list["last_id"], ids.substr(ids.size() - 1));
  }
  return ids + (list["has_more"] == true ? "+" : "");
}

TEST(ItemList, IsPaged) {
  const Items items = ItemsOf("abcde");
  EXPECT_EQ(Page(items, ""), "edcba");
  EXPECT_EQ(Page(items, "order=asc"), "abcde");
  EXPECT_EQ(Page(items, "limit=2"), "ed+");
  EXPECT_EQ(Page(items, "limit=2&after=d"), "cb+");
  EXPECT_EQ(Page(items, "limit=2&after=b"), "a");
  EXPECT_EQ(Page(items, "limit=5"), "edcba");
  EXPECT_EQ(Page(items, "after=a"), "");
  EXPECT_EQ(Page(items, "order=asc&limit=2&after=b"), "cd+");
  EXPECT_EQ(Page(items, "order=asc&after=e"), "");
  EXPECT_EQ(Page({}, ""), "");
  EXPECT_EQ(Page(ItemsOf("abcdefghijklmnopqrstuvwxyz"), ""), "zyxwvutsrqponmlkjihg+");
}

TEST(ItemList, NamesWhatIsWrong) {
  const Items items = ItemsOf("abc");
  for (const char* limit : {"limit=0", "limit=101", "limit=x", "limit=", "limit=1.5"}) {
    EXPECT_EQ(Page(items, limit), "limit") << limit;
  }
  EXPECT_EQ(Page(items, "order=up"), "order");
  EXPECT_EQ(Page(items, "after=z"), "after");
  EXPECT_EQ(Page(items, "after=message"), "after") << "a word of an item, but no id";
  EXPECT_EQ(Page({}, "after=a"), "after");
}

}  // namespace
}  // namespace ropeway::server
