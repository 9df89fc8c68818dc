#include <gtest/gtest.h>

#include "flags/flag.h"

namespace ropeway::flags {
namespace {

using std::chrono::milliseconds;

TEST(Units, DurationsNeedTheirUnit) {
  for (const auto& [text, value] : {std::pair("500ms", 500),
                                    {"30s", 30000},
                                    {"1.5s", 1500},
                                    {"2m", 120000},
                                    {"1h", 3600000},
                                    {"0", 0},
                                    {"0s", 0}}) {
    const auto parsed = ParseDuration(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, milliseconds(value)) << text;
  }
  for (const char* text : {"", "30", "s", "-1s", "1 s", "1s2", "inf", "nan", "1e3s", "0x1s",
                           "1001h", "99999999999999999999h"}) {
    const auto parsed = ParseDuration(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("30s"), std::string::npos);
  }
}

TEST(Units, SizesAreBytesOrHaveTheirUnit) {
  for (const auto& [text, value] : {std::pair<const char*, int64_t>("1000", 1000),
                                    {"48MiB", 48 << 20},
                                    {"1KiB", 1024},
                                    {"10MB", 10000000},
                                    {"0.5G", 1 << 29},
                                    {"4GiB", int64_t{4} << 30},
                                    {"0", 0}}) {
    const auto parsed = ParseSize(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, value) << text;
  }
  for (const char* text : {"", "lots", "MiB", "-1", "1 MiB", "1mib", "1TiBs", "9999999999GiB"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
}

TEST(Units, WhatIsWrittenIsReadBack) {
  for (const int64_t count : {0, 1, 999, 1000, 1500, 60000, 90000, 3600000, 5400000}) {
    EXPECT_EQ(*ParseDuration(FormatDuration(milliseconds(count))), milliseconds(count));
  }
  for (const int64_t bytes : {0L, 1L, 1000L, 1024L, 8L << 20, 3L << 30, (3L << 30) + 1}) {
    EXPECT_EQ(*ParseSize(FormatSize(bytes)), bytes);
  }
  EXPECT_EQ(FormatDuration(milliseconds(30000)), "30s");
  EXPECT_EQ(FormatSize(8 << 20), "8MiB");
}

}  // namespace
}  // namespace ropeway::flags
