#include "gateway/reported_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropeway::gateway {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> Names(size_t count, const std::string& prefix = "m") {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

TEST(BoundFacts, KeepsWhatHonestBackendsReport) {
  BackendFacts facts;
  facts.models = {"meta-llama/Llama-3.1-8B", "C:\\models\\a b.gguf", "modèle-中文:latest"};
  facts.model_digest = std::string(64, 'a');
  facts.reason = "loading model";
  const BackendFacts before = facts;
  EXPECT_EQ(BoundFacts(&facts), "");
  EXPECT_EQ(facts.models, before.models);
  EXPECT_EQ(facts.model_digest, before.model_digest);
  EXPECT_EQ(facts.reason, before.reason);
}

TEST(BoundFacts, SkipsNamesThatCannotBeShown) {
  const std::vector<std::string> bad = {
      "",
      "a\nb",
      std::string("a\0b", 3),
      "a\rX: y",
      "\x1B[2J",
      "a\x7F",
      "a\xC2\x85",  // A control character of C1.
      "a\xE2\x80\xAE"
      "b",  // Right to left from here.
      "a\xE2\x81\xA6"
      "b",  // An isolate.
      "a\xE2\x80\xA8"
      "b",      // A line separator.
      "a\xFF",  // No UTF-8.
      std::string(kMostModelNameBytes + 1, 'a'),
      std::string(100'000, 'a'),
  };
  for (const std::string& name : bad) {
    BackendFacts facts;
    facts.models = {"x", name, "y"};
    EXPECT_THAT(BoundFacts(&facts), HasSubstr("1 of its model names")) << name.substr(0, 20);
    EXPECT_THAT(facts.models, ElementsAre("x", "y")) << name.substr(0, 20);
  }
}

TEST(BoundFacts, ANameCountsOnce) {
  BackendFacts facts;
  facts.models = {"ok", "default", "ok"};
  EXPECT_EQ(BoundFacts(&facts), "");
  EXPECT_THAT(facts.models, ElementsAre("ok", "default"));
}

TEST(BoundFacts, TakesNoMoreNamesThanItsBounds) {
  BackendFacts facts;
  facts.models = Names(60'000);
  EXPECT_THAT(BoundFacts(&facts), AllOf(HasSubstr("58976 more"), HasSubstr("the 1024")));
  EXPECT_THAT(facts.models, SizeIs(kMostModelNames));
  EXPECT_EQ(facts.models.back(), "m1023");
  facts.models = Names(1000, std::string(300, 'x'));
  EXPECT_THAT(BoundFacts(&facts), HasSubstr("more models"));
  size_t bytes = 0;
  for (const std::string& name : facts.models) bytes += name.size();
  EXPECT_LE(bytes, kMostModelNamesBytes);
  EXPECT_GT(bytes, kMostModelNamesBytes - 400);
}

TEST(BoundFacts, TheReasonIsShortAndPrintable) {
  BackendFacts facts;
  facts.reason = "a\nb\xE2\x80\xAE" + std::string(100'000, 'c');
  EXPECT_EQ(BoundFacts(&facts), "");
  EXPECT_LE(facts.reason.size(), 320U);
  EXPECT_EQ(facts.reason.find('\n'), std::string::npos);
  EXPECT_EQ(facts.reason.find("\xE2\x80\xAE"), std::string::npos);
  const Status failure =
      ShownFailure({StatusCode::kUnavailable, "a\n" + std::string(1 << 20, 'b')});
  EXPECT_EQ(failure.code(), StatusCode::kUnavailable);
  EXPECT_LE(failure.message().size(), 320U);
  EXPECT_EQ(failure.message().find('\n'), std::string::npos);
}

TEST(BoundFacts, WhatIsTooLongToCompareIsNotCompared) {
  for (std::string BackendFacts::*fact :
       {&BackendFacts::model_digest, &BackendFacts::numerics, &BackendFacts::limits}) {
    BackendFacts facts;
    facts.model_digest = facts.numerics = facts.limits = "x";
    facts.*fact = std::string(1 << 20, 'x');
    EXPECT_THAT(BoundFacts(&facts), HasSubstr("identifies its model"));
    EXPECT_THAT(facts.model_digest, IsEmpty());
  }
}

TEST(CommonNames, AreThoseOfAllListsThatAreNotEmpty) {
  const std::vector<std::string> a = {"z", "a", "b"};
  const std::vector<std::string> b = {"b", "z", "c"};
  const std::vector<std::string> none;
  EXPECT_THAT(CommonNames({&a, &none, &b}), ElementsAre("z", "b"));
  EXPECT_THAT(CommonNames({&none}), IsEmpty());
}

// By pairs these are 10^10 comparisons: minutes.
TEST(CommonNames, OfLongListsTakeMilliseconds) {
  const std::vector<std::string> names = Names(100'000);
  EXPECT_EQ(CommonNames({&names, &names}), names);
}

}  // namespace
}  // namespace ropeway::gateway
