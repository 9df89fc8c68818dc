#include <gtest/gtest.h>

#include "base/words.h"

namespace ropeway::base {
namespace {

TEST(CsvField, QuotesAsRfc4180Says) {
  EXPECT_EQ(CsvField(""), "");
  EXPECT_EQ(CsvField("plain text; 'x'"), "plain text; 'x'");
  EXPECT_EQ(CsvField("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvField("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(CsvField("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(CsvField("\r"), "\"\r\"");
}

}  // namespace
}  // namespace ropeway::base
