#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "loadgen/load_runner.h"

namespace ropeway::loadgen {
namespace {

std::string Written(bool is_terminal) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  Progress progress(out, is_terminal);
  progress.Show({"run 1", 4, 1, 0, 2, 3.2});
  progress.End({"run 1", 4, 4, 1, 0, 6});
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(Progress, DrawsABarOnATerminal) {
  EXPECT_EQ(Progress::Line({"run 1", 4, 1, 0, 2, 3.2}, 8),
            "run 1 [##------] 1/4, 2 in flight, 3 s");
  EXPECT_EQ(Progress::Line({"run 1", 0, 0, 0, 0, 0}, 4), "run 1 [----] 0/0, 0 in flight, 0 s");
  const std::string text = Written(true);
  EXPECT_EQ(text.find('\r'), 0U);
  EXPECT_TRUE(text.ends_with("4/4, 0 in flight, 6 s, 1 failed\x1b[K\n")) << text;
}

TEST(Progress, WritesLinesElsewhere) {
  EXPECT_EQ(Written(false), "run 1 1/4, 2 in flight, 3 s\nrun 1 4/4, 0 in flight, 6 s, 1 failed\n");
}

}  // namespace
}  // namespace ropeway::loadgen
