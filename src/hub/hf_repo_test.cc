#include "hub/hf_repo.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "hub/test_file_server.h"

namespace ropeway::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> Paths(const std::vector<RepoFile>& files) {
  std::vector<std::string> paths;
  for (const RepoFile& file : files) paths.push_back(file.path);
  return paths;
}

Source Repo(const std::string& file = "") {
  Source source;
  source.kind = Source::Kind::kRepo;
  source.name = "owner/repo";
  source.file = file;
  return source;
}

StatusOr<RepoModel> Choose(const std::vector<std::string>& paths, const std::string& file = "") {
  std::vector<RepoFile> files;
  for (const std::string& path : paths) files.push_back({path, 1, ""});
  return ChooseFiles(Repo(file), files);
}

TEST(ListRepoTest, ReadsNamesSizesAndSums) {
  TestFileServer server;
  const std::string sum = SumOf("x");
  server.Put("/api/models/owner/repo/tree/main", {.bytes = R"([
    {"type": "file", "path": "model.gguf", "size": 130, "oid": "abc",
     "lfs": {"oid": ")" + sum + R"(", "size": 5000000, "pointerSize": 130}},
    {"type": "file", "path": "config.json", "size": 700, "oid": "def"},
    {"type": "directory", "path": "onnx", "size": 0},
    {"type": "file", "path": "../../evil.gguf", "size": 1},
    {"type": "file", "path": ".gitattributes", "size": 1}, 7])",
                                                  .token = "secret"});
  const HubAccess access = {.endpoint = server.url(""), .token = "secret"};
  const auto files = ListRepo(access, Repo());
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_THAT(Paths(*files), ElementsAre("config.json", "model.gguf"));
  EXPECT_EQ((*files)[0].bytes, 700u);
  EXPECT_EQ((*files)[0].sha256, "");
  EXPECT_EQ((*files)[1].bytes, 5'000'000u);
  EXPECT_EQ((*files)[1].sha256, sum);
  EXPECT_THAT(server.fields("Authorization"), ElementsAre("Bearer secret"));
}

// As if they were not there, nothing would be compared.
TEST(ListRepoTest, AFactThatCannotBeReadIsNamed) {
  TestFileServer server;
  const HubAccess access = {.endpoint = server.url(""), .token = ""};
  const auto list = [&](const std::string& facts) {
    server.Put("/api/models/owner/repo/tree/main",
               {.bytes = R"([{"type": "file", "path": "m.gguf", )" + facts + "}]"});
    return ListRepo(access, Repo());
  };
  const std::string sum(64, 'a');
  for (const std::string size :
       {"-1", "1.5", "5.0", "1e3", "\"5\"", "true", "[]", "100000000000000000000"}) {
    EXPECT_EQ(list("\"size\": " + size).status().message(),
              "hf:owner/repo: the hub's list of files: \"size\" of m.gguf is not a whole number of "
              "bytes")
        << size;
    EXPECT_THAT(list(R"("size": 5, "lfs": {"oid": ")" + sum + R"(", "size": )" + size + "}")
                    .status()
                    .message(),
                HasSubstr("\"size\" of m.gguf"))
        << size;
  }
  for (const std::string& oid : {std::string("7"), "\"" + sum + "a\"", "\"" + sum.substr(1) + "\"",
                                 "\"" + sum.substr(1) + "g\"", "\"sha256:" + sum + "\"",
                                 "\" " + sum.substr(1) + "\"", std::string("\"\"")}) {
    EXPECT_THAT(list(R"("size": 5, "lfs": {"oid": )" + oid + "}").status().message(),
                HasSubstr("\"oid\" of m.gguf is not a SHA-256 sum of 64 hexadecimal digits"))
        << oid;
  }
  EXPECT_EQ(list(R"("size": 5, "lfs": "x")").status().code(), StatusCode::kDataLoss);
  // What is not said is no fault.
  for (const char* facts : {R"("size": 5, "lfs": null)", R"("size": 5)", R"("lfs": {})",
                            R"("size": null, "lfs": {"oid": null, "size": 5})"}) {
    EXPECT_TRUE(list(facts).ok()) << facts;
  }
}

TEST(ListRepoTest, ListsTheFolderOfTheFileAtItsRevision) {
  TestFileServer server;
  server.Put("/mirror/api/models/owner/repo/tree/v2/Q8_0",
             {.bytes = R"([{"type": "file", "path": "Q8_0/model.gguf", "size": 3}])"});
  Source source = Repo("Q8_0/model.gguf");
  source.revision = "v2";
  const HubAccess access = {.endpoint = server.url("/mirror"), .token = ""};
  const auto files = ListRepo(access, source);
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_THAT(Paths(*files), ElementsAre("Q8_0/model.gguf"));
  EXPECT_EQ(RepoUrl(access, source, "Q8_0/model.gguf"),
            server.url("/mirror/owner/repo/resolve/v2/Q8_0/model.gguf"));
}

TEST(ListRepoTest, ListsHowAnEncoderPoolsToo) {
  TestFileServer server;
  const std::string path = "/api/models/owner/repo/tree/main";
  server.Put(path, {.bytes = R"([{"type": "directory", "path": "onnx"},
                                 {"type": "directory", "path": "1_Pooling"},
                                 {"type": "file", "path": "config.json", "size": 1}])"});
  const HubAccess access = {.endpoint = server.url(""), .token = ""};
  EXPECT_THAT(ListRepo(access, Repo()).status().message(), HasSubstr("not found"))
      << "without it the vectors would be others";
  server.Put(path + "/1_Pooling",
             {.bytes = R"([{"type": "file", "path": "1_Pooling/config.json", "size": 9},
                           {"type": "directory", "path": "1_Pooling"}])"});
  const auto files = ListRepo(access, Repo());
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_THAT(Paths(*files), ElementsAre("1_Pooling/config.json", "config.json"));
  EXPECT_EQ((*files)[0].bytes, 9u);
  EXPECT_EQ(server.requests().size(), 4u);
  // A file that is named has no need of it.
  EXPECT_THAT(Paths(*ListRepo(access, Repo("m.gguf"))), ElementsAre("config.json"));
}

TEST(ListRepoTest, FollowsARepositoryToItsNewNameWithoutGivingTheTokenAway) {
  TestFileServer server;
  TestFileServer other;
  const std::string list = R"([{"type": "file", "path": "model.gguf", "size": 3}])";
  server.Put("/api/models/owner/repo/tree/main", {.location = "/api/models/new/repo/tree/main"});
  server.Put("/api/models/new/repo/tree/main", {.location = other.url("/list"), .token = "secret"});
  other.Put("/list", {.bytes = list});
  const HubAccess access = {.endpoint = server.url(""), .token = "secret"};
  const auto files = ListRepo(access, Repo());
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_THAT(Paths(*files), ElementsAre("model.gguf"));
  EXPECT_THAT(server.fields("Authorization"), ElementsAre("Bearer secret", "Bearer secret"));
  EXPECT_THAT(other.fields("Authorization"), ElementsAre(""));
  // In a circle.
  other.Put("/list", {.location = "/list"});
  EXPECT_THAT(ListRepo(access, Repo()).status().message(), HasSubstr("the hub answers 302"));
}

TEST(ListRepoTest, ReadsAllPages) {
  TestFileServer server;
  const std::string path = "/api/models/owner/repo/tree/main";
  const auto file = [](const std::string& name) {
    return fmt::format(R"([{{"type": "file", "path": "{}", "size": 3}}])", name);
  };
  const auto next = [](const std::string& url) { return "<" + url + ">; rel=\"next\""; };
  server.Put(path, {.bytes = file("m-00002-of-00002.gguf"),
                    .token = "secret",
                    .link = next(server.url(path + "?limit=1&cursor=a,b"))});
  // A path alone is on the same server.
  server.Put(
      path + "?limit=1&cursor=a,b",
      {.bytes = file("config.json"), .token = "secret", .link = next(path + "?limit=1&cursor=c")});
  server.Put(path + "?limit=1&cursor=c",
             {.bytes = file("m-00001-of-00002.gguf"), .token = "secret"});
  const HubAccess access = {.endpoint = server.url(""), .token = "secret"};
  const auto files = ListRepo(access, Repo());
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_THAT(Paths(*files),
              ElementsAre("config.json", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"));
  EXPECT_THAT(server.fields("Authorization"),
              ElementsAre("Bearer secret", "Bearer secret", "Bearer secret"));

  // Pages without an end, and one that is elsewhere.
  server.Put(path, {.bytes = file("a.gguf"), .token = "secret", .link = next(path)});
  EXPECT_THAT(ListRepo(access, Repo()).status().message(),
              HasSubstr("hf:owner/repo: the hub's list of files has more than 50 pages"));
  TestFileServer other;
  server.Put(path, {.bytes = file("a.gguf"), .token = "secret", .link = next(other.url("/b"))});
  EXPECT_THAT(ListRepo(access, Repo()).status().message(),
              HasSubstr("the next page of the hub's list of files is not on the hub: http://"));
  EXPECT_TRUE(other.requests().empty());
}

TEST(NextPageTest, ReadsTheFieldLink) {
  EXPECT_EQ(NextPage(""), "");
  EXPECT_EQ(NextPage("<https://hub/a?b=c,d;e>; rel=\"next\""), "https://hub/a?b=c,d;e");
  EXPECT_EQ(NextPage("<https://hub/a>;rel=next"), "https://hub/a");
  EXPECT_EQ(NextPage("</1>; rel=\"first\", </3>; title=\"x\"; rel=\"next\", </9>; rel=\"last\""),
            "/3");
  for (const char* none : {"</1>; rel=\"prev\"", "</1>", "</1", "rel=\"next\"", "<>; rel=\"next\"",
                           "</1>; title=\"next\"", "</1>; rel=\"nextish\"", ";;,,<>;;"}) {
    EXPECT_EQ(NextPage(none), "") << none;
  }
}

TEST(ListRepoTest, SaysWhyThereIsNoList) {
  TestFileServer server;
  HubAccess access = {.endpoint = server.url(""), .token = ""};
  const std::string path = "/api/models/owner/repo/tree/main";
  const auto error = [&] { return ListRepo(access, Repo()).status(); };
  EXPECT_EQ(error().code(), StatusCode::kNotFound);
  EXPECT_THAT(error().message(),
              HasSubstr("hf:owner/repo: repository or revision 'main' not found"));
  server.Put(path, {.token = "secret"});
  EXPECT_THAT(error().message(), HasSubstr("set HF_TOKEN"));
  access.token = "wrong";
  EXPECT_THAT(error().message(), HasSubstr("accepted the model's terms"));
  access.token = "";
  server.Put(path, {.status = 500});
  EXPECT_THAT(error().message(), HasSubstr("the hub answers 500: something is wrong"));
  for (const char* body : {"<html>", "{}", ""}) {
    server.Put(path, {.bytes = body});
    EXPECT_EQ(error().code(), StatusCode::kDataLoss) << body;
    EXPECT_THAT(error().message(), StartsWith("hf:owner/repo: the hub's list of files is not"))
        << body;
  }
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  server.Put(path, {.bytes = many + "]"});
  EXPECT_EQ(error().message(),
            "hf:owner/repo: the hub's list of files holds more than 1000000 JSON values");
  const net::ClosedPort closed;
  access.endpoint = closed.url();
  EXPECT_EQ(error().code(), StatusCode::kUnavailable);
}

TEST(ChooseFilesTest, TheFileThatIsNamed) {
  const auto model = Choose({"a.gguf", "b.gguf", "config.json"}, "b.gguf");
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->name, "b");
  EXPECT_FALSE(model->folder);
  EXPECT_THAT(Paths(model->files), ElementsAre("b.gguf"));
  EXPECT_THAT(Choose({"a.gguf", "b.gguf"}, "c.gguf").status().message(),
              HasSubstr("model 'c.gguf' not found; available: a.gguf, b.gguf"));
}

TEST(ChooseFilesTest, AllPartsOfASplitModel) {
  const std::vector<std::string> files = {"Q8/m-00001-of-00002.gguf", "Q8/m-00002-of-00002.gguf",
                                          "Q8/n.gguf"};
  const auto model = Choose(files, "Q8/m-00001-of-00002.gguf");
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->name, "m");
  EXPECT_TRUE(model->folder);
  EXPECT_THAT(Paths(model->files), ElementsAre(files[0], files[1]));
  EXPECT_THAT(Choose({files[0]}, files[0]).status().message(),
              HasSubstr("part Q8/m-00002-of-00002.gguf is missing"));
}

TEST(ChooseFilesTest, SafetensorsWithWhatBelongsToThem) {
  const auto model = Choose({"README.md", "added_tokens.json", "chat_template.json", "config.json",
                             "generation_config.json", "merges.txt", "special_tokens_map.json",
                             "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                             "model.safetensors.index.json", "pytorch_model.bin", "tokenizer.json",
                             "tokenizer_config.json", "training_args.bin"});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->name, "repo");
  EXPECT_TRUE(model->folder);
  EXPECT_THAT(Paths(model->files),
              ElementsAre("config.json", "generation_config.json", "tokenizer.json",
                          "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                          "chat_template.json", "model.safetensors.index.json",
                          "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
}

TEST(ChooseFilesTest, AnEncoderWithItsPooling) {
  const auto model = Choose({"1_Pooling/config.json", "1_Pooling/model.safetensors", "config.json",
                             "model.safetensors", "modules.json", "sentence_bert_config.json"});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(Paths(model->files),
              ElementsAre("config.json", "modules.json", "sentence_bert_config.json",
                          "1_Pooling/config.json", "model.safetensors"));
}

TEST(ChooseFilesTest, TheOneGgufOrAQuestion) {
  EXPECT_EQ(Choose({"README.md", "m-Q8_0.gguf"})->name, "m-Q8_0");
  EXPECT_EQ(Choose({"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"})->name, "m");
  EXPECT_THAT(Choose({"a.gguf", "b.gguf"}).status().message(),
              HasSubstr("name one file as hf:owner/repo:FILE; available: a.gguf, b.gguf"));
  EXPECT_THAT(Choose({"pytorch_model.bin"}).status().message(),
              HasSubstr("found neither a .gguf file nor"));
}

TEST(HubAccessTest, TakesTheTokenOfTheEnvironmentOrTheLoginsFile) {
  const ScratchFolder scratch;
  scratch.Write("token", "from-file\n");
  for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH"}) unsetenv(name);
  setenv("HF_HOME", scratch.path().c_str(), 1);
  EXPECT_EQ(HubAccessFromEnvironment().endpoint, "https://huggingface.co");
  EXPECT_EQ(HubAccessFromEnvironment().token, "from-file");
  scratch.Write("other", "bad token\r\nX: y\n");
  setenv("HF_TOKEN_PATH", (scratch.path() / "other").c_str(), 1);
  EXPECT_EQ(HubAccessFromEnvironment().token, "");
  setenv("HF_TOKEN", "from-variable", 1);
  setenv("HF_ENDPOINT", "http://127.0.0.1:9/", 1);
  EXPECT_EQ(HubAccessFromEnvironment().token, "from-variable");
  setenv("HF_TOKEN", "from-variable\r\nX: y", 1);
  EXPECT_EQ(HubAccessFromEnvironment().token, "");
  setenv("HF_TOKEN", "from-variable\n", 1);
  EXPECT_EQ(HubAccessFromEnvironment().token, "from-variable");
  EXPECT_EQ(HubAccessFromEnvironment().endpoint, "http://127.0.0.1:9");
  for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME"}) unsetenv(name);
}

}  // namespace
}  // namespace ropeway::hub
