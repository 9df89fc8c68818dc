#include "base/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace ropeway::base {
namespace {

// In a process of its own: which of the checks failed, 0 where none did.
int WithClosedDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(descriptor);
  HoldStandardDescriptors();
  if (open("/dev/null", O_RDWR) <= STDERR_FILENO) return 1;
  char byte = 'x';
  if (read(STDIN_FILENO, &byte, 1) != 0) return 2;
  if (write(STDOUT_FILENO, &byte, 1) != -1 || errno != EBADF) return 3;
  if (write(STDERR_FILENO, &byte, 1) != -1 || errno != EBADF) return 4;
  return 0;
}

TEST(HoldStandardDescriptorsTest, NothingElseTakesTheNumberOfAClosedOne) {
  const pid_t child = fork();
  if (child == 0) _exit(WithClosedDescriptors());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(HoldStandardDescriptorsTest, OpenOnesStay) {
  const int before = fcntl(STDOUT_FILENO, F_GETFL);
  HoldStandardDescriptors();
  EXPECT_EQ(fcntl(STDOUT_FILENO, F_GETFL), before);
}

TEST(FailTest, WhatASentenceQuotesIsBoundedAndActsOnNoTerminal) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Fail("no '\x1B[31m" + std::string(1 << 20, 'x') + "\n': expected y"), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_LT(said.size(), 5000U);
  EXPECT_TRUE(said.starts_with("ropeway: no '\uFFFD[31mxxx")) << said;
  EXPECT_TRUE(said.ends_with("xx\n': expected y\n")) << said;
}

}  // namespace
}  // namespace ropeway::base
