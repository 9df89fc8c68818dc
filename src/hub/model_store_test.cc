#include "hub/model_store.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "hub/test_file_server.h"

namespace ropeway::hub {
namespace {

std::vector<std::string> NamesIn(const ModelStore& store) {
  std::vector<std::string> names;
  for (const ModelStore::Model& model : store.List()) names.push_back(model.name);
  return names;
}

TEST(ModelStoreTest, ListsFilesSplitFilesAndFolders) {
  const ScratchFolder scratch;
  const ModelStore none(scratch.path() / "none");
  EXPECT_TRUE(none.List().empty());

  scratch.Write("b.gguf", "12345");
  scratch.Write("a-00001-of-00002.gguf", "123");
  scratch.Write("a-00002-of-00002.gguf", "1234");
  scratch.Write("c/model.safetensors", "12");
  scratch.Write("c/config.json", "{}");
  scratch.Write("d/d-00001-of-00001.gguf", "1");
  // No models.
  scratch.Write("notes.txt", "x");
  scratch.Write("empty/readme.md", "x");
  scratch.Write(".hidden.gguf", "x");
  scratch.Write(".pulls/e/e.gguf", "x");
  const ModelStore store(scratch.path());
  EXPECT_EQ(NamesIn(store), (std::vector<std::string>{"a", "b", "c", "d"}));
  const std::vector<ModelStore::Model> models = store.List();
  EXPECT_EQ(models[0].path, scratch.path() / "a-00001-of-00002.gguf");
  EXPECT_EQ(models[0].bytes, 7u);
  EXPECT_EQ(models[1].bytes, 5u);
  EXPECT_EQ(models[2].path, scratch.path() / "c");
  EXPECT_EQ(models[2].bytes, 4u);
}

TEST(ModelStoreTest, FindsByNameAndKnowsWhereItCameFrom) {
  const ScratchFolder scratch;
  scratch.Write("a-00001-of-00002.gguf", "123");
  scratch.Write("b.gguf", "12345");
  scratch.Write("c/model.safetensors", "12");
  ModelStore store(scratch.path());
  store.Note(scratch.path() / "b.gguf", "hf:owner/repo@main:b.gguf");
  store.Note(scratch.path() / "c", "hf:owner/c@main");
  EXPECT_EQ(store.Find("b")->source, "hf:owner/repo@main:b.gguf");
  EXPECT_EQ(store.Find("b.gguf")->name, "b");
  EXPECT_EQ(store.Find("c")->source, "hf:owner/c@main");
  EXPECT_EQ(store.Find("a")->source, "");
  for (const char* none : {"", "x", "../b", "c/model", ".", ".."}) {
    EXPECT_FALSE(store.Find(none).has_value()) << none;
  }
}

TEST(ModelStoreTest, RemovesAllOfAModelAndNothingElse) {
  const ScratchFolder scratch;
  scratch.Write("a-00001-of-00002.gguf", "123");
  scratch.Write("a-00002-of-00002.gguf", "1234");
  scratch.Write("b.gguf", "12345");
  scratch.Write("c/model.safetensors", "12");
  ModelStore store(scratch.path());
  store.Note(scratch.path() / "b.gguf", "somewhere");
  EXPECT_TRUE(store.Remove("a").ok());
  EXPECT_FALSE(scratch.Has("a-00002-of-00002.gguf"));
  EXPECT_TRUE(store.Remove("c").ok());
  EXPECT_FALSE(scratch.Has("c"));
  EXPECT_EQ(NamesIn(store), (std::vector<std::string>{"b"}));
  EXPECT_TRUE(store.Remove("b.gguf").ok());
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_EQ(store.Remove("b").code(), StatusCode::kNotFound);
  EXPECT_EQ(store.Remove("..").code(), StatusCode::kNotFound);
  EXPECT_TRUE(scratch.Has("."));
}

TEST(ModelStoreTest, ListsAndRemovesWhatWasFetchedInPart) {
  const ScratchFolder scratch;
  scratch.Write("b.gguf", "12345");
  scratch.Write(".pulls/b/b.gguf", "12");
  scratch.Write(".pulls/c/c.safetensors", "123");
  scratch.Write(".pulls/c/whole/config.json", "{}");
  ModelStore store(scratch.path());
  const std::vector<ModelStore::Partial> partials = store.ListPartial();
  ASSERT_EQ(partials.size(), 2u);
  EXPECT_EQ(partials[0].name, "b");
  EXPECT_EQ(partials[0].bytes, 2u);
  EXPECT_EQ(partials[1].name, "c");
  EXPECT_EQ(partials[1].bytes, 5u);
  EXPECT_EQ(NamesIn(store), std::vector<std::string>{"b"});
  for (const char* none : {"", "x", ".", "..", "../b", "c/whole", ".gguf"}) {
    EXPECT_FALSE(store.FindPartial(none).has_value()) << none;
  }

  EXPECT_TRUE(store.Remove("c").ok());
  EXPECT_FALSE(scratch.Has(".pulls/c"));
  // With the model of the name.
  EXPECT_TRUE(store.Remove("b.gguf").ok());
  EXPECT_FALSE(scratch.Has(".pulls/b"));
  EXPECT_FALSE(scratch.Has("b.gguf"));
  EXPECT_TRUE(store.ListPartial().empty());
  EXPECT_EQ(store.Remove("c").code(), StatusCode::kNotFound);
}

TEST(ModelStoreTest, RemovesNothingOfAPullThatRuns) {
  const ScratchFolder scratch;
  scratch.Write("b.gguf", "12345");
  scratch.Write(".pulls/b/b.gguf", "12");
  ModelStore store(scratch.path());
  {
    const StatusOr<PartsLock> pull = PartsLock::Take(store.PartsOf("b"));
    ASSERT_TRUE(pull.ok()) << pull.status().message();
    const Status status = store.Remove("b");
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), store.PartsOf("b").string() + ": another process is fetching it");
    EXPECT_TRUE(scratch.Has("b.gguf"));
    EXPECT_TRUE(scratch.Has(".pulls/b/b.gguf"));
  }
  EXPECT_TRUE(store.Remove("b").ok());
  EXPECT_FALSE(scratch.Has(".pulls/b"));
}

TEST(ModelStoreTest, IsInTheUsersCache) {
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::string saved = before == nullptr ? "" : before;
  setenv("XDG_CACHE_HOME", "/some/cache", 1);
  EXPECT_EQ(ModelStore::DefaultFolder(), "/some/cache/ropeway/models");
  unsetenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  if (home != nullptr) {
    EXPECT_EQ(ModelStore::DefaultFolder(), std::string(home) + "/.cache/ropeway/models");
  }
  if (before != nullptr) setenv("XDG_CACHE_HOME", saved.c_str(), 1);
}

}  // namespace
}  // namespace ropeway::hub
