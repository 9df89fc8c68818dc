#include "cli/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "cli/engine_flags.h"
#include "cli/run_flags.h"
#include "flags/program.h"
#include "hub/registry.h"

namespace ropeway::cli {
namespace {

using testing::HasSubstr;

// A user with a folder of models of their own.
class ModelNamesTest : public testing::Test {
 protected:
  ModelNamesTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ropeway-cli-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    cache_ = pattern;
    models_ = cache_ / "ropeway" / "models";
    const char* before = std::getenv("XDG_CACHE_HOME");
    before_ = before == nullptr ? "" : before;
    setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    Write("m.gguf");
    Write("folder/config.json");
    Write("folder/model.safetensors");
    Write("s-00001-of-00002.gguf");
    Write("s-00002-of-00002.gguf");
  }
  ~ModelNamesTest() override {
    if (before_.empty()) {
      unsetenv("XDG_CACHE_HOME");
    } else {
      setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    }
    std::error_code ignored;
    std::filesystem::remove_all(cache_, ignored);
  }

  void Write(const std::string& name) const {
    std::filesystem::create_directories((models_ / name).parent_path());
    std::ofstream(models_ / name) << "x";
  }
  std::string Found(const std::string& model) const {
    const StatusOr<std::string> path = ResolveModel(model);
    return path.ok() ? std::filesystem::path(*path).lexically_relative(models_).string() : "";
  }
  static std::string Missing(const std::string& model) {
    return std::string(ResolveModel(model).status().message());
  }

  std::filesystem::path cache_;
  std::filesystem::path models_;
  std::string before_;
};

TEST_F(ModelNamesTest, FetchedModelsHaveNames) {
  EXPECT_EQ(Found("m"), "m.gguf");
  EXPECT_EQ(Found("m.gguf"), "m.gguf");
  EXPECT_EQ(Found("folder"), "folder");
  EXPECT_EQ(Found("s"), "s-00001-of-00002.gguf");
  // A path is returned without a look at the file.
  EXPECT_EQ(*ResolveModel("./no/such"), "./no/such");
  EXPECT_EQ(*ResolveModel(models_.string()), models_.string());
}

TEST_F(ModelNamesTest, TheRegistrysNamesAreThoseOfItsFiles) {
  EXPECT_THAT(Missing("smollm2-135m"),
              HasSubstr("is not fetched yet: ropeway models pull smollm2-135m"));
  Write("SmolLM2-135M-Instruct.Q4_1.gguf");
  EXPECT_EQ(Found("smollm2-135m"), "SmolLM2-135M-Instruct.Q4_1.gguf");
}

TEST_F(ModelNamesTest, TheDefaultModelIsTheRegistrys) {
  const hub::RegistryModel& model = hub::DefaultModel();
  EXPECT_EQ(DefaultModelName() + ".gguf", model.file);
  EXPECT_EQ(Found(DefaultModelName()), "");
  EXPECT_THAT(Missing(DefaultModelName()),
              HasSubstr("is not fetched yet: ropeway models pull " + model.name));
  Write(model.file);
  EXPECT_EQ(Found(DefaultModelName()), model.file);
  EXPECT_EQ(RunFlags().engine.model, DefaultModelName());
}

TEST_F(ModelNamesTest, SettingsOfTheRegistryAreForItsFilesAlone) {
  for (const hub::RegistryModel& model : hub::BuiltInRegistry()) {
    const SamplingDefaults known = KnownSampling((models_ / model.file).string());
    EXPECT_EQ(known.temperature, model.sampling.temperature) << model.name;
    EXPECT_EQ(known.top_p, model.sampling.top_p) << model.name;
    EXPECT_EQ(KnownSampling("/elsewhere/" + model.file).temperature, std::nullopt) << model.name;
  }
  EXPECT_EQ(KnownSampling((models_ / "m.gguf").string()).temperature, std::nullopt);
  EXPECT_EQ(KnownModel((models_ / "m.gguf").string()), nullptr);
  EXPECT_EQ(KnownModel((models_ / hub::DefaultModel().file).string())->name,
            hub::DefaultModel().name);
}

TEST_F(ModelNamesTest, SourcesAreFoundByWhereTheyCameFrom) {
  EXPECT_THAT(Missing("hf:owner/repo"), HasSubstr("ropeway models pull hf:owner/repo"));
  EXPECT_THAT(Missing("https://host/x.gguf"), HasSubstr("ropeway models pull https://host/x.gguf"));
  std::ofstream(models_ / ".m.gguf.source") << "hf:owner/repo@main\n";
  EXPECT_EQ(Found("hf:owner/repo"), "m.gguf");
  EXPECT_THAT(Missing("other"),
              HasSubstr("neither a file nor a fetched model in " + models_.string()));
}

TEST_F(ModelNamesTest, AWordThatCanOnlyBeAModel) {
  for (const char* word :
       {"m", "folder", "smollm2-135m", "SmolLM2-135M-Instruct.Q4_1", "hf:owner/repo",
        "hf:owner/repo:x.gguf", "https://host/x.gguf", "./x.gguf", "x.gguf", "/"}) {
    EXPECT_TRUE(IsModelWord(word)) << word;
  }
  for (const char* word : {"", "Hello", "hello world", "and/or", "m m", "hf:", "What?", "2"}) {
    EXPECT_FALSE(IsModelWord(word)) << word;
  }
}

TEST_F(ModelNamesTest, NobodyIsAskedWithoutATerminal) {
  // A test's standard input is no terminal, or it is, and the model is there.
  EXPECT_TRUE(OfferPull("m", false).ok());
  for (const bool yes : {false, true}) {
    EXPECT_TRUE(OfferPull("no-such", yes).ok());
    EXPECT_TRUE(OfferPull("./no-such.gguf", yes).ok());
  }
}

TEST_F(ModelNamesTest, RunTakesAModelAndAPrompt) {
  RunFlags run;
  flags::Program program;
  program.name = "ropeway";
  program.commands = {RunCommand(&run)};
  ASSERT_TRUE(flags::ParseCommandLine(program, {"run", "smollm2-135m", "Hello"}).ok());
  EXPECT_EQ(run.first_word, "smollm2-135m");
  EXPECT_EQ(run.prompt, "Hello");
  const auto third = flags::ParseCommandLine(program, {"run", "a", "b", "c"});
  EXPECT_THAT(third.status().message(), HasSubstr("one argument too many: 'c'"));
}

}  // namespace
}  // namespace ropeway::cli
