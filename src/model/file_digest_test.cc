#include "model/file_digest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstdint>
#include <set>
#include <string>

#include "model/open_model.h"
#include "model/test_gguf_writer.h"

namespace ropeway::model {
namespace {

// A valid file with `padding` bytes of metadata.
std::string PaddedFile(size_t padding, char last = 'a') {
  GgufWriter writer = TinyLlama();
  std::string text(padding, 'a');
  if (!text.empty()) text.back() = last;
  writer.SetString("general.description", text);
  return writer.Bytes();
}

std::string DigestOf(const std::string& bytes, int threads) {
  const TempFile temp(bytes);
  const auto file = OpenModel(temp.path());
  EXPECT_TRUE(file.ok());
  if (!file.ok()) return "";
  const StatusOr<std::string> digest = FileDigest(**file, threads);
  EXPECT_TRUE(digest.ok());
  return digest.ok() ? *digest : "";
}

TEST(FileDigestTest, IsTheSameOnAnyNumberOfThreads) {
  const std::string bytes = PaddedFile(9 << 20);  // Three chunks.
  const std::string digest = DigestOf(bytes, 1);
  EXPECT_EQ(digest.size(), 64U);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(DigestOf(bytes, threads), digest);
}

TEST(FileDigestTest, AnyByteCounts) {
  std::set<std::string> digests;
  for (const size_t padding : {0, 1, 5 << 20, 9 << 20}) {
    for (const char last : {'a', 'b'}) digests.insert(DigestOf(PaddedFile(padding, last), 2));
  }
  EXPECT_EQ(digests.size(), 7U);  // No padding has no last byte.
}

std::string Sha256Of(const std::string& text) {
  std::string sum(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(sum.data()));
  return sum;
}

TEST(FileDigestTest, IsTheDocumentedOne) {
  const std::string bytes = PaddedFile(5 << 20);
  const uint64_t size = bytes.size();
  std::string message = Sha256Of(bytes.substr(0, 4 << 20)) + Sha256Of(bytes.substr(4 << 20));
  message.append(reinterpret_cast<const char*>(&size), sizeof size);
  std::string hex;
  for (const char c : Sha256Of(message)) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
  EXPECT_EQ(DigestOf(bytes, 2), hex);
}

}  // namespace
}  // namespace ropeway::model
