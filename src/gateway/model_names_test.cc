#include "gateway/model_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropeway::gateway {
namespace {

using testing::ElementsAre;

std::vector<std::string> Listed(const ModelNames& names) {
  std::vector<std::string> ids;
  for (const service::ModelInfo& info : names.List(7)) {
    EXPECT_EQ(info.created, 7);
    ids.push_back(info.id);
  }
  return ids;
}

TEST(ModelNamesTest, AModelHasItsNameAndAliases) {
  const ModelNames names({{"m", {"other"}, 1}, {"n", {}, 1}});
  for (const char* name : {"", "default", "m", "other"}) EXPECT_EQ(names.Find(name), 0U) << name;
  EXPECT_EQ(names.Find("n"), 1U);
  EXPECT_EQ(names.Find("none"), std::nullopt);
  EXPECT_EQ(names.ForBackends(0, "other"), "m");
  EXPECT_THAT(Listed(names), ElementsAre("m", "n"));
  EXPECT_THAT(names.List(7)[0].aliases, ElementsAre("other"));
  EXPECT_EQ(names.OfReplica(0, 0), "m");
}

TEST(ModelNamesTest, OneWithoutANameHasThoseThatAllItsReplicasReport) {
  ModelNames names({{"m", {}, 1}, {"", {"alias"}, 2}});
  EXPECT_EQ(names.Find("any"), 1U) << "before any has said what it serves";
  EXPECT_THAT(Listed(names), ElementsAre("m", "default", "alias"));
  EXPECT_EQ(names.ForBackends(1, "default"), "");
  EXPECT_EQ(names.OfReplica(1, 1), "");
  names.Report(1, 0, {"m", "x", "y"}, false);
  EXPECT_EQ(names.Find("x"), 1U);
  names.Report(1, 1, {"y", "m"}, false);
  EXPECT_EQ(names.Find("x"), std::nullopt);
  EXPECT_EQ(names.Find("y"), 1U);
  EXPECT_EQ(names.Find("alias"), 1U);
  EXPECT_EQ(names.ForBackends(1, ""), "m");
  EXPECT_EQ(names.ForBackends(1, "y"), "y");
  EXPECT_THAT(Listed(names), ElementsAre("m", "y", "alias")) << "what another is called is that";
  EXPECT_EQ(names.OfReplica(1, 1), "y");
}

TEST(ModelNamesTest, OneWhoseReplicasAllEmbedOnlyEmbeds) {
  ModelNames names({{"m", {}, 2}, {"", {}, 1}});
  const auto embed_only = [&] {
    std::vector<bool> all;
    for (const service::ModelInfo& info : names.List(7)) {
      EXPECT_EQ(info.chats, !info.embeds_only);
      all.push_back(info.embeds_only);
    }
    return all;
  };
  EXPECT_THAT(embed_only(), ElementsAre(false, false)) << "before any has said so";
  names.Report(0, 1, {"x"}, true);
  EXPECT_THAT(embed_only(), ElementsAre(true, false));
  names.Report(1, 0, {"y"}, true);
  EXPECT_THAT(embed_only(), ElementsAre(true, true));
  names.Report(0, 0, {"x"}, false);
  EXPECT_THAT(embed_only(), ElementsAre(false, true));
}

TEST(ModelNamesTest, WhatOneWithANameReportsIsNothing) {
  ModelNames names({{"m", {}, 1}});
  names.Report(0, 0, {"x"}, false);
  EXPECT_EQ(names.Find("x"), std::nullopt);
  EXPECT_EQ(names.OfReplica(0, 0), "m");
}

TEST(ModelNamesTest, NamesAreUnique) {
  EXPECT_TRUE(ModelNames::Check({{"m", {"a"}, 1}, {"", {}, 1}}).ok());
  EXPECT_EQ(ModelNames::Check({}).field(), "models");
  EXPECT_EQ(ModelNames::Check({{"m", {"m"}, 1}}).field(), "name");
  EXPECT_EQ(ModelNames::Check({{"m", {}, 1}, {"n", {"m"}, 1}}).field(), "name");
  EXPECT_EQ(ModelNames::Check({{"", {}, 1}, {"", {}, 1}}).field(), "name");
  EXPECT_EQ(ModelNames::Check({{"default", {}, 1}}).field(), "name");
}

}  // namespace
}  // namespace ropeway::gateway
