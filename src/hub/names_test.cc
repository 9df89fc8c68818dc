#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hub/registry.h"

namespace ropeway::hub {
namespace {

using testing::HasSubstr;
using Kind = Source::Kind;

constexpr char kSumText[] = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

TEST(NamesTest, NamesLeadNowhereElse) {
  for (const char* good : {"a", "SmolLM2-135M.Q4_1", "7b", "gemma-3_it.v1"}) {
    EXPECT_TRUE(IsModelName(good)) << good;
  }
  for (const char* bad : {"", ".", "..", ".hidden", "-x", "a/b", "a b", "a\n", "ü", "a;b", "a'b"}) {
    EXPECT_FALSE(IsModelName(bad)) << bad;
  }
  EXPECT_TRUE(IsModelName(std::string(200, 'a')));
  EXPECT_FALSE(IsModelName(std::string(201, 'a')));

  EXPECT_TRUE(IsRepoPath("a.gguf"));
  EXPECT_TRUE(IsRepoPath("Q8_0/a-00001-of-00002.gguf"));
  for (const char* bad : {"", "/a", "a/", "a//b", "../a", "a/../b", "a/.git"}) {
    EXPECT_FALSE(IsRepoPath(bad)) << bad;
  }

  EXPECT_EQ(ParseSha256(kSumText), kSumText);
  EXPECT_EQ(ParseSha256("B179C9523D0E6A0F98A330C7562B682750A6F8C8C15E5BC70EA373728110DB53"),
            kSumText);
  EXPECT_FALSE(ParseSha256(std::string(kSumText).substr(1)).has_value());
  EXPECT_FALSE(ParseSha256(std::string(64, 'g')).has_value());
}

TEST(ParseSourceTest, Repositories) {
  const Source plain = *ParseSource("hf:owner/repo");
  EXPECT_EQ(plain.kind, Kind::kRepo);
  EXPECT_EQ(plain.name, "owner/repo");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.file, "");
  const Source full = *ParseSource("hf:owner/repo@v1.0:Q8_0/model.gguf");
  EXPECT_EQ(full.name, "owner/repo");
  EXPECT_EQ(full.revision, "v1.0");
  EXPECT_EQ(full.file, "Q8_0/model.gguf");
  EXPECT_EQ(ParseSource("hf:owner/repo:model.gguf")->file, "model.gguf");

  for (const char* bad : {"hf:", "hf:repo", "hf:a/b/c", "hf:/b", "hf:a/..", "hf:a/b:", "hf:a/b@",
                          "hf:a/b:../c", "hf:a/b@x/y", "hf:a/b?x"}) {
    const auto source = ParseSource(bad);
    EXPECT_EQ(source.status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(source.status().message(), HasSubstr("expected the name of a model, hf:OWNER/REPO"))
        << bad;
  }
}

TEST(ParseSourceTest, UrlsPathsAndNames) {
  const Source url = *ParseSource("https://host/a/model.gguf?x=1");
  EXPECT_EQ(url.kind, Kind::kUrl);
  EXPECT_EQ(url.name, "https://host/a/model.gguf?x=1");
  EXPECT_EQ(url.sha256, "");
  const Source summed = *ParseSource(std::string("http://host/model.gguf#sha256=") + kSumText);
  EXPECT_EQ(summed.name, "http://host/model.gguf");
  EXPECT_EQ(summed.sha256, kSumText);
  EXPECT_FALSE(ParseSource("http://host/model.gguf#sha256=abc").ok());
  EXPECT_FALSE(ParseSource("https://").ok());
  for (const char* other : {"file:///models/x.gguf", "ftp://host/x.gguf", "HTTPS://host/x.gguf"}) {
    EXPECT_THAT(ParseSource(other).status().message(),
                HasSubstr("a scheme that is not supported; http:// and https:// are"))
        << other;
  }

  for (const char* path : {"model.gguf", "./folder", "/models/x", "../x.gguf"}) {
    EXPECT_EQ(ParseSource(path)->kind, Kind::kPath) << path;
    EXPECT_EQ(ParseSource(path)->name, path);
  }
  EXPECT_EQ(ParseSource("smollm2-135m")->kind, Kind::kRegistry);
  for (const char* bad : {"", "two words", ".x", "a\tb"}) {
    EXPECT_FALSE(ParseSource(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace ropeway::hub
