#include "net/sse_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ropeway::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The events of `stream`, fed in pieces of `size` bytes; those that have a type, behind it.
std::vector<std::string> Events(std::string_view stream, size_t size) {
  SseParser parser;
  std::vector<std::string> events;
  for (; !stream.empty(); stream.remove_prefix(std::min(size, stream.size()))) {
    EXPECT_TRUE(parser.Feed(stream.substr(0, size), [&](const SseEvent& event) {
      events.push_back(std::string(event.type) + (event.type.empty() ? "" : "=") +
                       std::string(event.data));
    }));
  }
  return events;
}

TEST(SseParser, ReadsTheSameHoweverTheBytesAreCut) {
  const std::string stream =
      ": a comment\n\ndata: one\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\nid: 7\rdata:  "
      "three\r\rdata\n\n\n\nretry: 5\n\ndata: [DONE]\n\ndata: never ended";
  for (size_t size = 1; size <= stream.size(); ++size) {
    EXPECT_THAT(Events(stream, size), ElementsAre("one", "x=two\nlines", " three", "", "[DONE]"))
        << size;
  }
}

TEST(SseParser, FieldsThatOnlyBeginLikeDataAreOthers) {
  EXPECT_THAT(Events("database: x\n\ndat: y\n\n data: z\n\n", 100), IsEmpty());
}

TEST(SseParser, DropsOneByteOrderMarkBeforeTheStream) {
  const std::string mark = "\xEF\xBB\xBF";
  for (const size_t size : {1, 2, 100}) {
    EXPECT_THAT(Events(mark + "data: a\n\ndata: b\n\n", size), ElementsAre("a", "b"));
    EXPECT_THAT(Events(mark + ": ping\n\ndata: a\n\n", size), ElementsAre("a"));
    EXPECT_THAT(Events(mark + "\r\n\r\ndata: a\r\n\r\n", size), ElementsAre("a"));
    // A second one, or one further on, is part of a field's name.
    EXPECT_THAT(Events(mark + mark + "data: a\n\ndata: b\n\n", size), ElementsAre("b"));
    EXPECT_THAT(Events("data: a\n\n" + mark + "data: b\n\n", size), ElementsAre("a"));
    EXPECT_THAT(Events(mark.substr(0, 2) + "data: a\n\ndata: b\n\n", size), ElementsAre("b"));
  }
}

TEST(SseParser, ATypeIsThatOfItsOwnEvent) {
  EXPECT_THAT(Events("event: a\nevent:b\ndata: 1\n\ndata: 2\n\nevent: c\n\ndata: 3\n\n", 3),
              ElementsAre("b=1", "2", "3"));
}

TEST(SseParser, RejectsAnEndlessEvent) {
  SseParser parser;
  const std::string piece(1 << 20, 'x');
  bool fits = parser.Feed("data: ", [](const SseEvent&) {});
  for (int i = 0; i < 9 && fits; ++i) fits = parser.Feed(piece, [](const SseEvent&) {});
  EXPECT_FALSE(fits);

  SseParser many_lines;
  fits = true;
  for (int i = 0; i < 9 && fits; ++i) {
    fits = many_lines.Feed("data: " + piece + "\n", [](const SseEvent&) {});
  }
  EXPECT_FALSE(fits);

  SseParser types;
  fits = true;
  for (int i = 0; i < 9 && fits; ++i) {
    fits = types.Feed(i == 0 ? "event: " : piece, [](const SseEvent&) {});
  }
  EXPECT_FALSE(fits);

  SseParser small(16);
  EXPECT_TRUE(small.Feed("data: 0123456789\n\n", [](const SseEvent&) {}));
  EXPECT_FALSE(small.Feed("data: 0123456789 and more", [](const SseEvent&) {}));
}

}  // namespace
}  // namespace ropeway::net
