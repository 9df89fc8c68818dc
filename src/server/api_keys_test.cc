#include "server/api_keys.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>

namespace ropeway::server {
namespace {

using testing::HasSubstr;

class ApiKeysTest : public testing::Test {
 protected:
  ~ApiKeysTest() override { std::remove(path_.c_str()); }

  StatusOr<std::vector<ApiKey>> Read(const std::string& text) {
    std::remove(path_.c_str());
    std::ofstream(path_) << text;
    return ReadApiKeys(path_);
  }

  // The error names the file and `line`, contains `says`, and shows no key.
  void ExpectRejected(const std::string& text, int line, const std::string& says) {
    const auto keys = Read(text);
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_EQ(keys.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(keys.status().message(), HasSubstr(path_)) << text;
    if (line > 0) {
      EXPECT_THAT(keys.status().message(), HasSubstr("line " + std::to_string(line) + ":")) << text;
    }
    EXPECT_THAT(keys.status().message(), HasSubstr(says)) << text;
    EXPECT_THAT(keys.status().message(), testing::Not(HasSubstr("secret"))) << text;
  }

  const std::string path_ =
      fmt::format("{}api_keys_test_{}_{}.toml", testing::TempDir(),
                  testing::UnitTest::GetInstance()->current_test_info()->name(), getpid());
};

TEST_F(ApiKeysTest, ReadsNamedKeys) {
  const auto keys = Read(
      "# Ours.\n[[keys]]\nname = \"team-a\"\nkey = \"secret-0001\"\n\n"
      "[[keys]]\nkey = 'secret-0002'\nname = \"b.2_x\"\n");
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ((*keys)[0].name, "team-a");
  EXPECT_EQ((*keys)[0].key, "secret-0001");
  EXPECT_EQ((*keys)[1].name, "b.2_x");
  EXPECT_EQ((*keys)[1].key, "secret-0002");
}

TEST_F(ApiKeysTest, KeysMayShareACacheScope) {
  const std::string longest(64, 's');
  const auto keys =
      Read("[[keys]]\nname = \"a\"\nkey = \"secret-0001\"\ncache_scope = \"" + longest +
           "\"\n[[keys]]\nname = \"b\"\ncache_scope = \"a.b-c_1\"\n"
           "key = \"secret-0002\"\n[[keys]]\nname = \"c\"\nkey = \"secret-0003\"\n");
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  EXPECT_EQ((*keys)[0].cache_scope, longest);
  EXPECT_EQ((*keys)[1].cache_scope, "a.b-c_1");
  EXPECT_EQ((*keys)[2].cache_scope, "");
}

TEST_F(ApiKeysTest, NamesTheLineAtFault) {
  const std::string good = "[[keys]]\nname = \"a\"\nkey = \"secret-0001\"\n";
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = \"secret-0002\"\nquota = 3\n", 7, "'quota'");
  ExpectRejected(good + "[[keys]]\nname = \"a\"\nkey = \"secret-0002\"\n", 4, "given twice");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = \"secret-0001\"\n", 4, "the same key");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = \"\"\n", 4, "at least 8");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = \"secret\"\n", 4, "at least 8");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = \"" + std::string(513, 'k') + "\"\n", 4,
                 "more than 512");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = \"secret with space\"\n", 4,
                 "visible ASCII");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = \"secret-\u00e9\u00e9\"\n", 4, "visible");
  ExpectRejected(good + "[[keys]]\nname = \"b c\"\nkey = \"secret-0002\"\n", 4, "'name'");
  ExpectRejected(good + "[[keys]]\nname = \"\"\nkey = \"secret-0002\"\n", 4, "'name'");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\nkey = 12345678\n", 6, "must be a string");
  ExpectRejected(good + "[[keys]]\nkey = \"secret-0002\"\n", 4, "'name' is missing");
  ExpectRejected(good + "[[keys]]\nname = \"b\"\n", 4, "'key' is missing");
  ExpectRejected(good + "cache_scope = \"a b\"\n", 1, "'cache_scope' must be 1 to 64");
  ExpectRejected(good + "cache_scope = \"" + std::string(65, 'a') + "\"\n", 1, "'cache_scope'");
  ExpectRejected(good + "cache_scope = \"\"\n", 4, "'cache_scope' must be 1 to 64");
  ExpectRejected(good + "cache_scope = [\"a\"]\n", 4, "'cache_scope' must be a string");
  ExpectRejected("other = 1\n" + good, 1, "'other'");
  ExpectRejected("[[keys]]\nname = \"a\"\nkey = \"secret-0001\n", 3, "not valid TOML");
  ExpectRejected("[[keys]]\nkey = \"secret-0001\"\nkey = \"secret-0002\"\n", 3, "not valid TOML");
}

TEST_F(ApiKeysTest, AKeyMayBeAGateways) {
  const std::string key = "[[keys]]\nname = \"g\"\nkey = \"secret-0001\"\n";
  ASSERT_TRUE(Read(key).ok());
  EXPECT_FALSE((*Read(key))[0].gateway);
  EXPECT_TRUE((*Read(key + "gateway = true\n"))[0].gateway);
  EXPECT_FALSE((*Read(key + "gateway = false\n"))[0].gateway);
  EXPECT_FALSE((*Read(key))[0].metrics_only);
  EXPECT_TRUE((*Read(key + "metrics_only = true\n"))[0].metrics_only);
  ExpectRejected(key + "metrics_only = 1\n", 4, "'metrics_only' must be true or false");
  ExpectRejected(key + "metrics_only = true\ngateway = true\n", 1, "cannot both be true");
  ExpectRejected(key + "gateway = 1\n", 4, "'gateway' must be true or false");
  ExpectRejected(key + "gateway = \"true\"\n", 4, "'gateway'");
}

TEST_F(ApiKeysTest, KeysHaveAClassAWeightAndLimits) {
  const auto keys = Read(
      "[[keys]]\nname = \"a\"\nkey = \"secret-0001\"\npriority = \"low\"\n"
      "priority_ceiling = \"medium\"\nweight = 0.01\nmax_concurrent_requests = 1\n"
      "tokens_per_minute = 2\n[[keys]]\nname = \"b\"\nkey = \"secret-0002\"\nweight = 100\n"
      "[[keys]]\nname = \"c\"\nkey = \"secret-0003\"\npriority_ceiling = \"low\"\n");
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  EXPECT_EQ((*keys)[0].priority, Priority::kLow);
  EXPECT_EQ((*keys)[0].priority_ceiling, Priority::kMedium);
  EXPECT_EQ((*keys)[0].weight, 0.01);
  EXPECT_EQ((*keys)[0].max_concurrent_requests, 1);
  EXPECT_EQ((*keys)[0].tokens_per_minute, 2);
  EXPECT_EQ((*keys)[1].priority, Priority::kMedium);
  EXPECT_EQ((*keys)[1].priority_ceiling, Priority::kHigh);
  EXPECT_EQ((*keys)[1].weight, 100);
  EXPECT_EQ((*keys)[1].max_concurrent_requests, 0);
  EXPECT_EQ((*keys)[1].tokens_per_minute, 0);
  EXPECT_EQ((*keys)[2].priority, Priority::kLow);  // As its ceiling, by default.
}

TEST_F(ApiKeysTest, AClassAWeightOrALimitOutOfRangeIsRejectedByItsLine) {
  const std::string begin = "[[keys]]\nname = \"a\"\nkey = \"secret-0001\"\n";
  for (const auto& [line, says] :
       {std::tuple("priority = \"urgent\"", "'priority' must be \"high\", \"medium\" or \"low\""),
        {"priority = 1", "'priority' must be"},
        {"priority_ceiling = \"\"", "'priority_ceiling' must be"},
        {"weight = 0", "'weight' must be 0.01 to 100, but is 0"},
        {"weight = 100.5", "'weight' must be"},
        {"weight = -1", "'weight' must be"},
        {"weight = nan", "'weight' must be"},
        {"weight = inf", "'weight' must be"},
        {"weight = \"1\"", "'weight' must be a number"},
        {"max_concurrent_requests = 0", "'max_concurrent_requests' must be a whole number, 1 to"},
        {"max_concurrent_requests = 1.5", "'max_concurrent_requests' must be"},
        {"max_concurrent_requests = 1000001", "'max_concurrent_requests' must be"},
        {"tokens_per_minute = 0", "'tokens_per_minute' must be a whole number, 1 to"},
        {"tokens_per_minute = 1000000000001", "'tokens_per_minute' must be"},
        {"tokens_per_minute = \"many\"", "'tokens_per_minute' must be"}}) {
    ExpectRejected(begin + line + "\n", 4, says);
  }
  ExpectRejected(begin + "priority = \"high\"\npriority_ceiling = \"medium\"\n", 1,
                 "'priority' is \"high\", which is above the 'priority_ceiling' \"medium\"");
}

TEST_F(ApiKeysTest, AnEmptyFileIsRejected) {
  for (const char* text :
       {"", "# Nothing.\n", "keys = []\n", "keys = 3\n", "[keys]\nname = \"a\"\n"}) {
    ExpectRejected(text, 0, "has no [[keys]] table");
  }
  ExpectRejected("keys = [1]\n", 1, "[[keys]]");
}

// Each would end the process in toml++, which destroys tables within tables by recursion.
TEST_F(ApiKeysTest, DeepTablesAreRejectedBeforeTheyAreParsed) {
  std::string parts = "a";
  for (int i = 1; i < 100'000; ++i) parts += ".a";
  for (const std::string& text : {parts + " = 1", "[" + parts + "]", "[[" + parts + "]]",
                                  "[[keys]]\nname = {" + parts + " = 1}"}) {
    ExpectRejected(text, text[2] == 'k' ? 2 : 1, "a key has more than 16 parts");
  }
  ExpectRejected("keys = " + std::string(100'000, '['), 1, "more than 32 brackets are open");
}

TEST_F(ApiKeysTest, MissingFilesAndFoldersAreNamed) {
  for (const std::string& path : {std::string("no/such/keys.toml"), testing::TempDir()}) {
    const auto keys = ReadApiKeys(path);
    ASSERT_FALSE(keys.ok());
    EXPECT_EQ(keys.status().code(), StatusCode::kNotFound);
    EXPECT_EQ(keys.status().message(), "--api-keys: cannot read '" + path + "'");
  }
}

TEST(CheckApiKeys, HoldsForKeysOfTheCommandLineToo) {
  EXPECT_TRUE(CheckApiKeys({}, "").ok());
  EXPECT_TRUE(CheckApiKeys({{"default", "secret-0001"}}, "secret-0002").ok());
  EXPECT_EQ(CheckApiKeys({{"default", "short"}}, "").field(), "api_keys");
  EXPECT_TRUE(CheckApiKeys({{"a", "secret-0001", "s"}, {"b", "secret-0002", "s"}}, "").ok());
  EXPECT_EQ(CheckApiKeys({{"a", "secret-0001", "s/t"}}, "").field(), "api_keys");
  EXPECT_EQ(CheckApiKeys({{"a", "secret-0001"}, {"a", "secret-0002"}}, "").field(), "api_keys");
  EXPECT_EQ(CheckApiKeys({{"a", "secret-0001"}}, "secret-0001").field(), "admin_key");
  EXPECT_EQ(CheckApiKeys({}, "short").field(), "admin_key");
  ApiKey key = {"a", "secret-0001"};
  key.weight = 0;
  EXPECT_EQ(CheckApiKeys({key}, "").field(), "api_keys");
  key.weight = 1;
  key.tokens_per_minute = -1;
  EXPECT_EQ(CheckApiKeys({key}, "").field(), "api_keys");
  key.tokens_per_minute = 0;
  key.priority_ceiling = Priority::kLow;
  EXPECT_EQ(CheckApiKeys({key}, "").field(), "api_keys");
}

}  // namespace
}  // namespace ropeway::server
