#include "bench/load_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ropeway {
namespace {

using testing::StartsWith;

std::string Refusal(const BenchServeFlags& flags) {
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

TEST(LoadOptions, EachWrongFlagIsNamed) {
  BenchServeFlags f;
  f.num_prompts = 0;
  EXPECT_EQ(Refusal(f), "--num-prompts must be 1 to 1000000, but is 0.");
  f = {};
  f.users = -1;
  EXPECT_THAT(Refusal(f), StartsWith("--users must be"));
  f = {};
  f.request_rate = std::nan("");
  EXPECT_THAT(Refusal(f), StartsWith("--request-rate must be"));
  f = {};
  f.num_prompts = 1'000'000;
  f.runs = 3;
  EXPECT_THAT(Refusal(f), StartsWith("--num-prompts times --runs"));
  f = {};
  f.users = 1;
  f.request_rate = 1;
  EXPECT_THAT(Refusal(f), StartsWith("--users makes a closed loop"));
  f = {};
  f.dataset = f.trace = "x";
  EXPECT_THAT(Refusal(f), StartsWith("--dataset and --trace"));
  f = {};
  f.endpoint = "embeddings";
  EXPECT_THAT(Refusal(f), StartsWith("--endpoint must be completions or chat"));
  f = {};
  f.prompt_format = "tokens";
  EXPECT_THAT(Refusal(f), StartsWith("--prompt-format must be"));
  f.prompt_format = "ids";
  f.endpoint = "chat";
  EXPECT_THAT(Refusal(f), StartsWith("--prompt-format ids needs"));
  f = {};
  f.ignore_eos = "yes";
  EXPECT_THAT(Refusal(f), StartsWith("--ignore-eos must be"));
  f = {};
  f.goodput = {"ttft:1s"};
  f.stream = false;
  EXPECT_THAT(Refusal(f), StartsWith("--goodput on ttft"));
  f = {};
  f.base_url = "nonsense";
  EXPECT_THAT(Refusal(f), StartsWith("--base-url must be"));
  f = {};
  f.priority = "urgent";
  EXPECT_THAT(Refusal(f), StartsWith("--priority must be high, medium or low, but is 'urgent'"));
  f = {};
  f.api_key = "a\r\nX: y";
  EXPECT_THAT(Refusal(f), StartsWith("--api-key must be"));
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
}  // namespace ropeway
