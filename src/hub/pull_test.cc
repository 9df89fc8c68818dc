#include "hub/pull.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hub/test_file_server.h"

namespace ropeway::hub {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

// A hub with one repository, and a folder for what is pulled.
class PullTest : public testing::Test {
 protected:
  PullTest() : store_(scratch_.path() / "models") {
    options_.access = {.endpoint = server_.url(""), .token = ""};
    options_.download.attempts = 1;
    options_.download.pause = {};
    options_.registry.clear();
  }

  StatusOr<ModelStore::Model> PullFrom(const std::string& source) {
    const StatusOr<Source> parsed = ParseSource(source);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    return Pull(*parsed, options_, &store_);
  }
  std::string ErrorFrom(const std::string& source) {
    return std::string(PullFrom(source).status().message());
  }

  // Puts a repository's files on the server, each with a sum if it is large.
  using NamesAndBytes = std::vector<std::pair<std::string, std::string>>;
  void PutRepo(const std::string& repo, const NamesAndBytes& files, const std::string& token = "") {
    std::string list;
    for (const auto& [path, bytes] : files) {
      list += fmt::format("{}{{\"type\": \"file\", \"path\": \"{}\", \"size\": {}",
                          list.empty() ? "[" : ", ", path, bytes.size());
      if (bytes.size() > 1000) {
        list +=
            fmt::format(", \"lfs\": {{\"oid\": \"{}\", \"size\": {}}}", SumOf(bytes), bytes.size());
      }
      list += "}";
      server_.Put(fmt::format("/{}/resolve/main/{}", repo, path), {.bytes = bytes, .token = token});
    }
    server_.Put(fmt::format("/api/models/{}/tree/main", repo),
                {.bytes = list + "]", .token = token});
  }

  TestFileServer server_;
  ScratchFolder scratch_;
  ModelStore store_;
  PullOptions options_;
  const std::string bytes_ = SomeBytes(50'000);
};

TEST_F(PullTest, AFileOfARepository) {
  PutRepo("owner/repo", {{"m.gguf", bytes_}, {"n.gguf", "x"}}, "secret");
  EXPECT_THAT(ErrorFrom("hf:owner/repo:m.gguf"), HasSubstr("set HF_TOKEN"));
  options_.access.token = "secret";
  const auto model = PullFrom("hf:owner/repo:m.gguf");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->name, "m");
  EXPECT_EQ(model->path, scratch_.path() / "models" / "m.gguf");
  EXPECT_EQ(model->source, "hf:owner/repo@main:m.gguf");
  EXPECT_EQ(scratch_.Read("models/m.gguf"), bytes_);
  EXPECT_FALSE(scratch_.Has("models/.pulls/m"));
  // Again: nothing is fetched.
  const size_t before = server_.requests().size();
  EXPECT_TRUE(PullFrom("hf:owner/repo:m.gguf").ok());
  EXPECT_EQ(server_.requests().size(), before + 1);  // The list.
}

TEST_F(PullTest, TellsHowFarItIs) {
  PutRepo("owner/repo", {{"m.gguf", bytes_}});
  std::vector<uint64_t> told;
  options_.tell = [&](const std::string& what, uint64_t done, uint64_t total) {
    EXPECT_EQ(what, "m.gguf");
    EXPECT_EQ(total, bytes_.size());
    told.push_back(done);
  };
  EXPECT_TRUE(PullFrom("hf:owner/repo").ok());
  ASSERT_GE(told.size(), 2U);
  EXPECT_EQ(told.front(), 0U);
  EXPECT_EQ(told.back(), bytes_.size());
  EXPECT_TRUE(std::ranges::is_sorted(told));
}

TEST_F(PullTest, AFolderComesWhole) {
  const std::string shard = SomeBytes(5'000);
  PutRepo("owner/repo", {{"config.json", "{}"},
                         {"model-00001-of-00002.safetensors", bytes_},
                         {"model-00002-of-00002.safetensors", shard},
                         {"model.safetensors.index.json", "{}"},
                         {"tokenizer.json", "{}"}});
  server_.Put("/owner/repo/resolve/main/model-00002-of-00002.safetensors",
              {.bytes = shard, .cut = 3'000});
  EXPECT_FALSE(PullFrom("hf:owner/repo").ok());
  EXPECT_TRUE(store_.List().empty());
  // The next time only what is missing is fetched.
  server_.Put("/owner/repo/resolve/main/model-00002-of-00002.safetensors", {.bytes = shard});
  const size_t before = server_.requests().size();
  const auto model = PullFrom("hf:owner/repo");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->name, "repo");
  EXPECT_EQ(model->path, scratch_.path() / "models" / "repo");
  EXPECT_EQ(scratch_.Read("models/repo/model-00001-of-00002.safetensors"), bytes_);
  EXPECT_EQ(scratch_.Read("models/repo/model-00002-of-00002.safetensors"), shard);
  EXPECT_EQ(server_.requests().size(), before + 2);
  EXPECT_EQ(server_.fields("Range").back(), "bytes=3000-");
  EXPECT_FALSE(scratch_.Has("models/.pulls/repo"));
}

TEST_F(PullTest, AnEncoderComesWithItsPooling) {
  const std::string path = "/api/models/owner/repo/tree/main";
  PutRepo("owner/repo", {{"config.json", "{}"},
                         {"model.safetensors", bytes_},
                         {"modules.json", "[]"},
                         {"1_Pooling/config.json", R"({"a": 1})"}});
  server_.Put(path, {.bytes = R"([{"type": "file", "path": "config.json", "size": 2},
                                  {"type": "file", "path": "model.safetensors", "size": 50000},
                                  {"type": "file", "path": "modules.json", "size": 2},
                                  {"type": "directory", "path": "1_Pooling"}])"});
  server_.Put(path + "/1_Pooling",
              {.bytes = R"([{"type": "file", "path": "1_Pooling/config.json", "size": 8}])"});
  const auto model = PullFrom("hf:owner/repo");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(scratch_.Read("models/repo/config.json"), "{}");
  EXPECT_EQ(scratch_.Read("models/repo/modules.json"), "[]");
  EXPECT_EQ(scratch_.Read("models/repo/1_Pooling/config.json"), R"({"a": 1})");
  EXPECT_FALSE(scratch_.Has("models/.pulls/repo"));
  // One that was pulled without it is mended.
  fs::remove_all(scratch_.path() / "models/repo/1_Pooling");
  ASSERT_TRUE(PullFrom("hf:owner/repo").ok());
  EXPECT_TRUE(scratch_.Has("models/repo/1_Pooling/config.json"));
  // From a folder, too.
  options_.name = "copy";
  const auto copy = PullFrom((scratch_.path() / "models/repo").string());
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_EQ(scratch_.Read("models/copy/1_Pooling/config.json"), R"({"a": 1})");
}

TEST_F(PullTest, TheFolderOfAnEncodersPoolingIsNoLink) {
  const std::string path = "/api/models/owner/repo/tree/main";
  PutRepo("owner/repo", {{"1_Pooling/config.json", "{}"}});
  server_.Put(path, {.bytes = R"([{"type": "file", "path": "config.json", "size": 2},
                                  {"type": "file", "path": "model.safetensors", "size": 2},
                                  {"type": "directory", "path": "1_Pooling"}])"});
  server_.Put(path + "/1_Pooling",
              {.bytes = R"([{"type": "file", "path": "1_Pooling/config.json", "size": 2}])"});
  for (const char* parts : {"models/.pulls/repo", "models/.pulls/repo/whole"}) {
    fs::create_directories(scratch_.path() / parts);
    scratch_.Write("elsewhere/config.json", "VICTIM");
    fs::create_symlink(scratch_.path() / "elsewhere", scratch_.path() / parts / "1_Pooling");
    EXPECT_THAT(ErrorFrom("hf:owner/repo"), HasSubstr("is a symbolic link, which is not followed"));
    EXPECT_EQ(scratch_.Read("elsewhere/config.json"), "VICTIM");
    fs::remove_all(scratch_.path() / "models/.pulls");
  }
}

TEST_F(PullTest, AFolderIsOfOneStateOfItsRepository) {
  const std::string shard = SomeBytes(5'000);
  PutRepo("owner/repo", {{"config.json", "{}"}, {"model.safetensors", shard}});
  server_.Put("/owner/repo/resolve/main/model.safetensors", {.bytes = shard, .cut = 3'000});
  EXPECT_FALSE(PullFrom("hf:owner/repo").ok());
  EXPECT_TRUE(scratch_.Has("models/.pulls/repo/whole/config.json"));
  // It changes before the rest is fetched.
  const std::string other = "x" + shard;
  PutRepo("owner/repo", {{"config.json", R"({"a": 1})"}, {"model.safetensors", other}});
  EXPECT_THAT(ErrorFrom("hf:owner/repo"), HasSubstr("did not send the requested part"));
  const auto model = PullFrom("hf:owner/repo");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(scratch_.Read("models/repo/config.json"), R"({"a": 1})");
  EXPECT_EQ(scratch_.Read("models/repo/model.safetensors"), other);
}

// A user that may write to the folder of models must not choose which other files a pull changes.
TEST_F(PullTest, NothingBehindALinkIsChanged) {
  namespace fs = std::filesystem;
  PutRepo("owner/repo", {{"m.gguf", bytes_}});
  for (const char* name : {".pulls", ".pulls/m", ".pulls/m/m.gguf", ".pulls/m/m.gguf.tag",
                           ".pulls/m/.whole.source", ".pulls/m/whole", ".pulls/m/whole/m.gguf"}) {
    for (const bool folder : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", name, folder));
      const fs::path link = scratch_.path() / "models" / name;
      fs::remove_all(scratch_.path() / "models");
      fs::remove_all(scratch_.path() / "folder");
      scratch_.Write("folder/victim", "VICTIM");
      fs::create_directories(link.parent_path());
      const fs::path victim = scratch_.path() / (folder ? "folder" : "folder/victim");
      fs::create_symlink(victim, link);
      EXPECT_EQ(ErrorFrom("hf:owner/repo"),
                link.string() + ": is a symbolic link, which is not followed: remove it");
      EXPECT_EQ(scratch_.Read("folder/victim"), "VICTIM");
      EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path() / "folder"), {}), 1);
      fs::remove(link);
      EXPECT_TRUE(PullFrom("hf:owner/repo").ok());
    }
  }
}

TEST_F(PullTest, APartIsAFileOfOneName) {
  namespace fs = std::filesystem;
  PutRepo("owner/repo", {{"m.gguf", bytes_}});
  scratch_.Write("victim", "VICTIM");
  const fs::path part = scratch_.path() / "models/.pulls/m/m.gguf";
  fs::create_directories(part.parent_path());
  fs::create_hard_link(scratch_.path() / "victim", part);
  EXPECT_THAT(ErrorFrom("hf:owner/repo"), HasSubstr(part.string() + ": is hard-linked"));
  EXPECT_EQ(scratch_.Read("victim"), "VICTIM");
  fs::remove(part);
  ASSERT_EQ(mkfifo(part.c_str(), 0600), 0);
  EXPECT_THAT(ErrorFrom("hf:owner/repo"), HasSubstr(part.string() + ": is neither a file nor"));
}

TEST_F(PullTest, ALinkInThePlaceOfAModelOrItsNoteIsReplaced) {
  namespace fs = std::filesystem;
  PutRepo("owner/repo", {{"m.gguf", bytes_}});
  scratch_.Write("victim", "VICTIM");
  fs::create_directories(scratch_.path() / "models");
  fs::create_symlink(scratch_.path() / "victim", scratch_.path() / "models/.m.gguf.source");
  fs::create_symlink(scratch_.path() / "none", scratch_.path() / "models/m.gguf");
  ASSERT_TRUE(PullFrom("hf:owner/repo").ok());
  EXPECT_EQ(scratch_.Read("victim"), "VICTIM");
  EXPECT_FALSE(scratch_.Has("none"));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(scratch_.path() / "models/m.gguf")));
  EXPECT_EQ(scratch_.Read("models/.m.gguf.source"), "hf:owner/repo@main\n");
  // The folder of models itself may be one.
  fs::rename(scratch_.path() / "models", scratch_.path() / "elsewhere");
  fs::create_directory_symlink("elsewhere", scratch_.path() / "models");
  options_.name = "n";
  EXPECT_TRUE(PullFrom("hf:owner/repo").ok());
  EXPECT_EQ(scratch_.Read("elsewhere/n.gguf"), bytes_);
}

TEST_F(PullTest, AnotherSumThanTheHubsIsNoModel) {
  PutRepo("owner/repo", {{"m.gguf", bytes_}});
  server_.Put("/owner/repo/resolve/main/m.gguf", {.bytes = SomeBytes(49'999) + "x"});
  EXPECT_THAT(ErrorFrom("hf:owner/repo"), HasSubstr("SHA-256"));
  EXPECT_TRUE(store_.List().empty());
}

TEST_F(PullTest, WhatTheDiskCannotHoldIsNotAskedFor) {
  PutRepo("owner/repo", {{"m.gguf", bytes_}});
  server_.Put("/api/models/owner/repo/tree/main",
              {.bytes = R"([{"type": "file", "path": "m.gguf", "size": 1000000000000000000}])"});
  EXPECT_THAT(ErrorFrom("hf:owner/repo"),
              HasSubstr("not enough disk space for " + (scratch_.path() / "models").string()));
  EXPECT_EQ(server_.requests().size(), 1u);  // The list.
  EXPECT_FALSE(scratch_.Has("models/.pulls/m")) << "nothing has come";
}

TEST_F(PullTest, AUrlAndASplitOne) {
  server_.Put("/files/m.gguf", {.bytes = bytes_});
  const auto model = PullFrom(server_.url("/files/m.gguf") + "#sha256=" + SumOf(bytes_));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->source, server_.url("/files/m.gguf"));
  EXPECT_EQ(scratch_.Read("models/m.gguf"), bytes_);

  server_.Put("/files/s-00001-of-00002.gguf?x=1", {.bytes = "one"});
  server_.Put("/files/s-00002-of-00002.gguf?x=1", {.bytes = "two"});
  const auto split = PullFrom(server_.url("/files/s-00001-of-00002.gguf?x=1"));
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ(split->name, "s");
  EXPECT_EQ(scratch_.Read("models/s/s-00002-of-00002.gguf"), "two");

  EXPECT_THAT(ErrorFrom(server_.url("/files/t-00001-of-00002.gguf#sha256=") + SumOf("one")),
              HasSubstr("models of one file"));

  EXPECT_THAT(ErrorFrom(server_.url("/files/page.html")), HasSubstr("name of a .gguf file"));
  EXPECT_THAT(ErrorFrom(server_.url("/files/none.gguf")), HasSubstr("file not found (404)"));
  EXPECT_FALSE(scratch_.Has("models/.pulls/none")) << "nothing has come";
}

TEST_F(PullTest, OptionsNameAndCheckIt) {
  server_.Put("/m.gguf", {.bytes = bytes_});
  options_.name = "mine";
  options_.sha256 = SumOf("other");
  EXPECT_THAT(ErrorFrom(server_.url("/m.gguf")), HasSubstr("SHA-256"));
  options_.sha256 = SumOf(bytes_);
  for (char& c : options_.sha256) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(PullFrom(server_.url("/m.gguf"))->path, scratch_.path() / "models" / "mine.gguf");
  options_.sha256 = "abc";
  options_.name = "other";
  EXPECT_THAT(ErrorFrom(server_.url("/m.gguf")), HasSubstr("64 hexadecimal digits"));
  options_.sha256 = "";
  options_.name = "../m";
  EXPECT_THAT(ErrorFrom(server_.url("/m.gguf")), HasSubstr("is not a valid model name"));
  EXPECT_FALSE(scratch_.Has("m.gguf"));
}

TEST_F(PullTest, ANameIsOfOneModel) {
  server_.Put("/a/m.gguf", {.bytes = bytes_});
  server_.Put("/b/m.gguf", {.bytes = "another"});
  ASSERT_TRUE(PullFrom(server_.url("/a/m.gguf")).ok());
  EXPECT_THAT(ErrorFrom(server_.url("/b/m.gguf")),
              HasSubstr("model 'm' already exists (from " + server_.url("/a/m.gguf")));
  EXPECT_EQ(scratch_.Read("models/m.gguf"), bytes_);
}

// A file is a model here if it begins as one.
Status CheckBegin(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic(4, '\0');
  file.read(magic.data(), 4);
  return magic == "GGUF" ? Status() : Status(StatusCode::kDataLoss, path + ": is not a GGUF file");
}

TEST_F(PullTest, WhatIsNoModelLeavesASentence) {
  options_.check = CheckBegin;
  server_.Put("/a.gguf", {.bytes = "<html>Please log in</html>"});
  server_.Put("/b.gguf", {.bytes = "", .length = false});
  for (const char* file : {"/a.gguf", "/b.gguf"}) {
    EXPECT_EQ(
        ErrorFrom(server_.url(file)),
        fmt::format(
            "{}: the fetched data is not a valid model and was deleted: {}: is not a GGUF file",
            server_.url(file), file + 1));
  }
  scratch_.Write("passwd", "root:x:0:0");
  EXPECT_EQ(ErrorFrom((scratch_.path() / "passwd").string()),
            (scratch_.path() / "passwd").string() + ": is not a GGUF file");
  EXPECT_TRUE(store_.List().empty());
  EXPECT_TRUE(!scratch_.Has("models/.pulls") ||
              std::filesystem::is_empty(scratch_.path() / "models/.pulls"));
  // A model needs no extension, and gets one.
  scratch_.Write("blob", "GGUF...");
  const auto model = PullFrom((scratch_.path() / "blob").string());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->path, scratch_.path() / "models" / "blob.gguf");
}

TEST_F(PullTest, WhatIsDamagedIsFetchedAnew) {
  options_.check = CheckBegin;
  std::string said;
  options_.write = [&](std::string_view text) { said += text; };
  const std::string model = "GGUF" + bytes_;
  const std::string url = server_.url("/m.gguf");
  server_.Put("/m.gguf", {.bytes = model});
  ASSERT_TRUE(PullFrom(url).ok());
  scratch_.Write("models/m.gguf", "damaged");
  said.clear();
  ASSERT_TRUE(PullFrom(url).ok());
  EXPECT_EQ(scratch_.Read("models/m.gguf"), model);
  EXPECT_THAT(said,
              HasSubstr("m is fetched again: " + (scratch_.path() / "models/m.gguf").string() +
                        ": is not a GGUF file\n"));
  EXPECT_EQ(store_.Find("m")->source, url);
  EXPECT_FALSE(scratch_.Has("models/.pulls/m"));

  // A sum tells of damage that the check does not see; the new file must have the same sum.
  scratch_.Write("models/m.gguf", "GGUFdamaged");
  ASSERT_TRUE(PullFrom(url).ok());
  EXPECT_EQ(scratch_.Read("models/m.gguf"), "GGUFdamaged");
  ASSERT_TRUE(PullFrom(url + "#sha256=" + SumOf(model)).ok());
  EXPECT_EQ(scratch_.Read("models/m.gguf"), model);
  options_.sha256 = SumOf("other");
  EXPECT_THAT(ErrorFrom(url), HasSubstr("the SHA-256 sum is " + SumOf(model)));
  EXPECT_EQ(scratch_.Read("models/m.gguf"), model) << "it was there, and is";
}

TEST_F(PullTest, ADamagedFolderIsReplaced) {
  PutRepo("owner/repo", {{"config.json", "{}"}, {"model.safetensors", bytes_}});
  ASSERT_TRUE(PullFrom("hf:owner/repo").ok());
  scratch_.Write("models/repo/model.safetensors", "cut off");
  scratch_.Write("models/repo/of-nobody", "x");
  const auto model = PullFrom("hf:owner/repo");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(scratch_.Read("models/repo/model.safetensors"), bytes_);
  EXPECT_FALSE(scratch_.Has("models/repo/of-nobody"));
  EXPECT_FALSE(scratch_.Has("models/.pulls/repo"));
  EXPECT_EQ(store_.List().size(), 1u);
}

TEST_F(PullTest, AFileOfUnknownOriginIsKeptAsItIs) {
  server_.Put("/m.gguf", {.bytes = bytes_});
  const std::string url = server_.url("/m.gguf");
  scratch_.Write("models/m.gguf", "by hand");
  EXPECT_THAT(ErrorFrom(url), HasSubstr("model 'm' already exists (of unknown origin, "));
  EXPECT_THAT(ErrorFrom(url), HasSubstr("(ropeway models rm m) or choose another --name"));
  options_.sha256 = SumOf(bytes_);
  EXPECT_THAT(ErrorFrom(url), HasSubstr("its size or SHA-256 sum differs"));
  EXPECT_EQ(scratch_.Read("models/m.gguf"), "by hand");
  EXPECT_TRUE(server_.requests().empty());
  options_.sha256 = SumOf("by hand");
  EXPECT_TRUE(PullFrom(url).ok());
  EXPECT_EQ(store_.Find("m")->source, url);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(PullTest, PartsOfOneSourceAreNotAnothers) {
  for (const char* folder : {"/a", "/b"}) {
    for (const char* file : {"/s-00001-of-00002.gguf", "/s-00002-of-00002.gguf"}) {
      server_.Put(std::string(folder) + file, {.bytes = folder});
    }
  }
  server_.Put("/a/s-00002-of-00002.gguf", {.status = 500});
  EXPECT_FALSE(PullFrom(server_.url("/a/s-00001-of-00002.gguf")).ok());
  EXPECT_EQ(scratch_.Read("models/.pulls/s/whole/s-00001-of-00002.gguf"), "/a");
  ASSERT_TRUE(PullFrom(server_.url("/b/s-00001-of-00002.gguf")).ok());
  EXPECT_EQ(scratch_.Read("models/s/s-00001-of-00002.gguf"), "/b");
}

TEST_F(PullTest, ANumberOfFilesHasABound) {
  for (const std::string& source : {server_.url("/s-00001-of-10001.gguf"),
                                    (scratch_.path() / "s-00001-of-10001.gguf").string()}) {
    EXPECT_THAT(ErrorFrom(source),
                HasSubstr("the name says 10001 files; at most 10000 are supported"));
  }
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(PullTest, ANameOfTheRegistryIsOfItsModel) {
  server_.Put("/m.gguf", {.bytes = bytes_});
  options_.registry = *ReadRegistry(fmt::format(
      R"([{{"name": "known", "file": "K.gguf", "source": "{}"}}])", server_.url("/m.gguf")));
  for (const char* name : {"known", "smollm2-135m"}) {
    options_.name = name;
    EXPECT_THAT(ErrorFrom(server_.url("/m.gguf")),
                HasSubstr("is the name of another model in the registry; choose a different "
                          "name for " +
                          server_.url("/m.gguf")))
        << name;
  }
  options_.name = "known";
  EXPECT_TRUE(PullFrom("known").ok());
  // By the name of its file it is the same model.
  options_.name = "";
  ASSERT_TRUE(PullFrom("K").ok());
  EXPECT_EQ(store_.Find("K")->source, "known");
}

TEST_F(PullTest, PathsAreCopied) {
  scratch_.Write("here/m.gguf", bytes_);
  const std::string file = (scratch_.path() / "here/m.gguf").string();
  ASSERT_TRUE(PullFrom(file).ok());
  EXPECT_EQ(scratch_.Read("models/m.gguf"), bytes_);
  EXPECT_EQ(store_.Find("m")->source, file);

  scratch_.Write("folder/config.json", "{}");
  scratch_.Write("folder/model.safetensors", "12");
  scratch_.Write("folder/README.md", "x");
  const auto folder = PullFrom((scratch_.path() / "folder").string() + "/");
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  EXPECT_EQ(folder->name, "folder");
  EXPECT_EQ(scratch_.Read("models/folder/model.safetensors"), "12");
  EXPECT_FALSE(scratch_.Has("models/folder/README.md"));

  scratch_.Write("here/s-00001-of-00002.gguf", "1");
  EXPECT_THAT(ErrorFrom((scratch_.path() / "here/s-00001-of-00002.gguf").string()),
              HasSubstr("s-00002-of-00002.gguf"));
  EXPECT_FALSE(PullFrom((scratch_.path() / "none.gguf").string()).ok());
}

TEST_F(PullTest, NamesOfARegistry) {
  PutRepo("owner/repo", {{"M-Q8_0.gguf", bytes_}});
  options_.registry = *ReadRegistry(
      fmt::format(R"([{{"name": "m", "file": "M-Q8_0.gguf", "source": "hf:owner/repo:M-Q8_0.gguf",
                        "sha256": "{}"}},
                      {{"name": "n", "file": "N.gguf", "source": "m"}}])",
                  SumOf(bytes_)));
  EXPECT_FALSE(FindPulled(*ParseSource("m"), options_.registry, store_).has_value());
  const auto model = PullFrom("m");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->name, "M-Q8_0");
  EXPECT_EQ(FindPulled(*ParseSource("m"), options_.registry, store_)->path, model->path);
  EXPECT_THAT(ErrorFrom("other"), HasSubstr("available: m, n."));
  EXPECT_THAT(ErrorFrom("n"), HasSubstr("must not be the name of another model"));
}

TEST_F(PullTest, AnEarlierPullIsFoundByItsSource) {
  PutRepo("owner/repo", {{"m.gguf", bytes_}});
  options_.name = "mine";
  ASSERT_TRUE(PullFrom("hf:owner/repo").ok());
  const auto found = [&](const char* text) {
    return FindPulled(*ParseSource(text), options_.registry, store_);
  };
  ASSERT_TRUE(found("hf:owner/repo").has_value());
  EXPECT_EQ(found("hf:owner/repo")->name, "mine");
  EXPECT_FALSE(found("hf:owner/other").has_value());
  EXPECT_FALSE(found("./m.gguf").has_value());
}

TEST_F(PullTest, TheFolderMustBeWritable) {
  scratch_.Write("models", "a file");
  server_.Put("/m.gguf", {.bytes = bytes_});
  EXPECT_THAT(ErrorFrom(server_.url("/m.gguf")), HasSubstr("cannot be created"));
}

}  // namespace
}  // namespace ropeway::hub
