#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "store/session.h"

namespace ropeway::store {
namespace {

std::string Packed() {
  RecordWriter writer;
  writer.Number(7);
  writer.Text("two words");
  writer.Ids(std::vector<TokenId>{1, 49151, -1});
  return std::move(writer).Seal();
}

bool ReadsWell(std::string_view record) {
  RecordReader reader(record);
  const bool same = reader.Number() == 7 && reader.Text() == "two words" &&
                    reader.Ids() == std::vector<TokenId>{1, 49151, -1};
  return same && reader.ok();
}

TEST(Record, ComesBackAsItWasPacked) { EXPECT_TRUE(ReadsWell(Packed())); }

TEST(Record, EveryFlippedBitIsFound) {
  const std::string record = Packed();
  for (size_t bit = 0; bit < record.size() * 8; ++bit) {
    std::string broken = record;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(ReadsWell(broken)) << "bit " << bit;
  }
}

TEST(Record, EveryTornRecordIsFound) {
  const std::string record = Packed();
  for (size_t size = 0; size < record.size(); ++size) {
    EXPECT_FALSE(ReadsWell(record.substr(0, size))) << size << " bytes";
  }
  EXPECT_FALSE(ReadsWell(record + "x"));
}

TEST(Record, WhatIsReadShorterOrLongerThanPackedIsNotOk) {
  const std::string record = Packed();
  RecordReader shorter(record);
  shorter.Number();
  EXPECT_FALSE(shorter.ok());
  RecordReader longer(record);
  longer.Number();
  longer.Text();
  longer.Ids();
  EXPECT_TRUE(longer.ok());
  longer.Number();
  EXPECT_FALSE(longer.ok());
}

TEST(Record, ACountThatCannotFollowTakesNoMemory) {
  RecordWriter writer;
  writer.Number(uint64_t{1} << 60);
  const std::string record = std::move(writer).Seal();
  RecordReader reader(record);
  EXPECT_TRUE(reader.Ids().empty());
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace ropeway::store
