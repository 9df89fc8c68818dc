#include "base/sha256.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>

namespace ropeway::base {
namespace {

std::string Hex(const std::string& text) { return HexText(Sha256(text.data(), text.size())); }

// FIPS 180-4's examples.
TEST(Sha256Test, KnownAnswers) {
  EXPECT_EQ(Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesHaveTheSumOfTheWhole) {
  const std::string text(1000, 'x');
  for (const size_t piece : {1, 63, 64, 65, 1000}) {
    Sha256Stream stream;
    for (size_t at = 0; at < text.size(); at += piece) {
      stream.Add(text.data() + at, std::min(piece, text.size() - at));
    }
    EXPECT_EQ(HexText(stream.End()), Hex(text)) << piece;
  }
  EXPECT_EQ(HexText(Sha256Stream().End()), Hex(""));
}

// A machine whose OpenSSL is set up without its default provider: SHA256() fails there.
TEST(Sha256DeathTest, NeedsNoProvider) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path =
      testing::TempDir() + "/ropeway_sha256_" + std::to_string(getpid()) + ".cnf";
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs("openssl_conf = a\n[a]\nproviders = b\n[b]\nlegacy = c\n[c]\nactivate = 1\n", file);
  fclose(file);
  setenv("OPENSSL_CONF", path.c_str(), 1);
  EXPECT_EXIT(exit(Hex("abc").substr(0, 8) == "ba7816bf" ? 0 : 1), testing::ExitedWithCode(0), "");
  unsetenv("OPENSSL_CONF");
  remove(path.c_str());
}

}  // namespace
}  // namespace ropeway::base
