#include "loadgen/load_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropeway::loadgen {
namespace {

using testing::StartsWith;

std::string Rejection(const BenchServeFlags& flags) {
  auto options = CheckFlags(flags);
  return options.ok() ? "" : options.status().message();
}

TEST(LoadOptions, TheDefaultsAreGood) {
  auto options = CheckFlags({});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_TRUE(options->ignore_eos);
  EXPECT_FALSE(options->prompt_ids.has_value());
  EXPECT_EQ(options->url.port, 8080);
}

TEST(LoadOptions, FlagsThatDoNotGoTogetherAreNamed) {
  BenchServeFlags f;
  f.num_prompts = 1'000'000;
  f.runs = 3;
  EXPECT_THAT(Rejection(f), StartsWith("--num-prompts times --runs"));
  f = {};
  f.users = 1;
  f.request_rate = 1;
  EXPECT_THAT(Rejection(f), StartsWith("--users makes a closed loop"));
  f = {};
  f.dataset = f.trace = "x";
  EXPECT_THAT(Rejection(f), StartsWith("--dataset and --trace"));
  f = {};
  f.prompt_format = "ids";
  f.endpoint = "chat";
  EXPECT_THAT(Rejection(f), StartsWith("--prompt-format ids needs"));
  f = {};
  f.goodput = {"ttft:1s"};
  f.stream = false;
  EXPECT_THAT(Rejection(f), StartsWith("--goodput on ttft"));
  f = {};
  f.base_url = "nonsense";
  EXPECT_THAT(Rejection(f), StartsWith("--base-url must be"));
  f = {};
  f.conversations = "x";
  EXPECT_THAT(Rejection(f), StartsWith("--conversations needs --endpoint chat"));
  f.endpoint = "chat";
  f.request_rate = 1;
  EXPECT_THAT(Rejection(f), StartsWith("--conversations makes a closed loop"));
  f = {};
  f.client_keys = "x";
  EXPECT_THAT(Rejection(f), StartsWith("--client-keys needs --trace"));
  f = {};
  f.api_key = "a\r\nX: y";
  EXPECT_THAT(Rejection(f), StartsWith("--api-key must be"));
}

TEST(LoadOptions, APriorityIsOneOfTheThreeOrNone) {
  BenchServeFlags f;
  EXPECT_FALSE(CheckFlags(f)->priority.has_value());
  f.priority = "low";
  EXPECT_EQ(CheckFlags(f)->priority, Priority::kLow);
}

TEST(LoadOptions, ADatasetEndsWhereTheModelDoes) {
  BenchServeFlags f;
  f.dataset = "x";
  EXPECT_FALSE(CheckFlags(f)->ignore_eos);
  f.ignore_eos = "on";
  EXPECT_TRUE(CheckFlags(f)->ignore_eos);
}

}  // namespace
}  // namespace ropeway::loadgen
