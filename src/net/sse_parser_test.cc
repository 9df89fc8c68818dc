#include "net/sse_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ropeway::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The events of `stream`, fed in pieces of `size` bytes.
std::vector<std::string> Events(std::string_view stream, size_t size) {
  SseParser parser;
  std::vector<std::string> events;
  for (; !stream.empty(); stream.remove_prefix(std::min(size, stream.size()))) {
    EXPECT_TRUE(parser.Feed(stream.substr(0, size),
                            [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

TEST(SseParser, ReadsTheSameHoweverTheBytesAreCut) {
  const std::string stream =
      ": a comment\n\ndata: one\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\nid: 7\rdata:  "
      "three\r\rdata\n\n\n\nretry: 5\n\ndata: [DONE]\n\ndata: never ended";
  for (size_t size = 1; size <= stream.size(); ++size) {
    EXPECT_THAT(Events(stream, size), ElementsAre("one", "two\nlines", " three", "", "[DONE]"))
        << size;
  }
}

TEST(SseParser, FieldsThatOnlyBeginLikeDataAreOthers) {
  EXPECT_THAT(Events("database: x\n\ndat: y\n\n data: z\n\n", 100), IsEmpty());
}

TEST(SseParser, RejectsAnEndlessEvent) {
  SseParser parser;
  const std::string piece(1 << 20, 'x');
  bool fits = parser.Feed("data: ", [](std::string_view) {});
  for (int i = 0; i < 9 && fits; ++i) fits = parser.Feed(piece, [](std::string_view) {});
  EXPECT_FALSE(fits);

  SseParser many_lines;
  fits = true;
  for (int i = 0; i < 9 && fits; ++i) {
    fits = many_lines.Feed("data: " + piece + "\n", [](std::string_view) {});
  }
  EXPECT_FALSE(fits);

  SseParser small(16);
  EXPECT_TRUE(small.Feed("data: 0123456789\n\n", [](std::string_view) {}));
  EXPECT_FALSE(small.Feed("data: 0123456789 and more", [](std::string_view) {}));
}

}  // namespace
}  // namespace ropeway::net
