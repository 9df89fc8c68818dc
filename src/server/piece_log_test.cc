#include "server/piece_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropeway::server {
namespace {

Delta Piece(size_t number) {
  Delta piece;
  piece.text = std::to_string(number) + " ";
  return piece;
}

std::string Text(const PieceLog& log, size_t begin, size_t end) {
  std::string text;
  log.ForEach(begin, end, [&text](const Delta& piece) { text += piece.text; });
  return text;
}

// One of `count` pieces that was shared after every `between`.
PieceLog Shared(size_t count, size_t between) {
  PieceLog log;
  for (size_t i = 0; i < count; ++i) {
    log.Add(Piece(i));
    if ((i + 1) % between == 0) log.Share();
  }
  return log;
}

TEST(PieceLog, HasEveryRangeHoweverOftenItWasShared) {
  for (const size_t between : {1, 2, 3, 100}) {
    const PieceLog log = Shared(7, between);
    ASSERT_EQ(log.size(), 7U);
    for (size_t begin = 0; begin <= 7; ++begin) {
      std::string wanted;
      for (size_t end = begin; end <= 7; ++end) {
        EXPECT_EQ(Text(log, begin, end), wanted) << begin << " to " << end << ", " << between;
        wanted += Piece(end).text;
      }
    }
    EXPECT_EQ(log.First(3).size(), 3U);
    EXPECT_EQ(log.First(3)[2].text, "2 ");
  }
}

TEST(PieceLog, ACopyStaysAsItIs) {
  PieceLog log(std::vector<Delta>{Piece(0), Piece(1)});
  EXPECT_FALSE(log.empty());
  const PieceLog copy = log.Share();
  log.Add(Piece(2));
  EXPECT_EQ(log.last().text, "2 ");
  EXPECT_EQ(Text(copy, 0, copy.size()), "0 1 ");
  EXPECT_EQ(Text(log, 0, log.size()), "0 1 2 ");
  EXPECT_TRUE(PieceLog().Share().empty());
}

// The writer of records makes copies while the backend's thread waits for the next piece's place.
TEST(PieceLog, SharingCopiesNoPiece) {
  PieceLog log = Shared(20'000, 64);
  const auto places = [](const PieceLog& of) {
    std::vector<const Delta*> found;
    of.ForEach(0, of.size(), [&found](const Delta& piece) { found.push_back(&piece); });
    return found;
  };
  const PieceLog copy = log.Share();
  EXPECT_EQ(places(copy).size(), 20'000U);
  EXPECT_EQ(places(copy), places(log));
  EXPECT_EQ(places(log.Share()), places(copy));
}

}  // namespace
}  // namespace ropeway::server
