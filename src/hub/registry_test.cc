#include "hub/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace ropeway::hub {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::string& json) {
  const auto models = ReadRegistry(json);
  return models.ok() ? "" : models.status().message();
}

TEST(RegistryTest, TheProgramsOwnIsValid) {
  const auto& models = BuiltInRegistry();
  ASSERT_FALSE(models.empty());
  for (const RegistryModel& model : models) {
    EXPECT_EQ(FindModel(models, model.name), &model);
    EXPECT_GT(model.bytes, 0u) << model.name;
    EXPECT_FALSE(model.description.empty()) << model.name;
    // One that came over the network is checked.
    EXPECT_TRUE(ParseSha256(model.sha256).has_value()) << model.name;
    // As it is called once it was fetched.
    EXPECT_EQ(FindModel(models, model.file.substr(0, model.file.rfind('.'))), &model);
  }
  EXPECT_EQ(FindModel(models, "no-such"), nullptr);
  EXPECT_EQ(FindModel(models, ""), nullptr);
}

TEST(RegistryTest, ReadsPackagesAndSources) {
  const auto models = ReadRegistry(R"([
    {"name": "a", "file": "A.gguf", "packages": [{"name": "p", "version": "1.0"},
                                                 {"name": "q", "version": "2.0"}]},
    {"name": "b", "file": "B.gguf", "bytes": 17, "source": "hf:owner/repo:B.gguf",
     "description": "The second"}])");
  ASSERT_TRUE(models.ok()) << models.status().message();
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[0].packages.size(), 2u);
  EXPECT_EQ((*models)[0].packages[1].version, "2.0");
  EXPECT_EQ((*models)[1].source, "hf:owner/repo:B.gguf");
  EXPECT_EQ((*models)[1].bytes, 17u);
  EXPECT_TRUE(ReadRegistry("[]")->empty());
}

TEST(RegistryTest, TheFirstIsTheDefault) {
  EXPECT_EQ(&DefaultModel(), &BuiltInRegistry().front());
  EXPECT_EQ(DefaultModel().packages.size(), 1U);  // scripts/fetch_model.sh fetches one.
}

TEST(RegistryTest, ReadsSettingsOfSampling) {
  const auto models = ReadRegistry(R"([
    {"name": "a", "file": "A.gguf", "source": "x", "sampling": {"temperature": 0.25, "top_k": 40,
     "top_p": 0.5, "min_p": 0.125, "repetition_penalty": 1.5}},
    {"name": "b", "file": "B.gguf", "source": "y"}])");
  ASSERT_TRUE(models.ok()) << models.status().message();
  const SamplingDefaults& sampling = models->front().sampling;
  EXPECT_EQ(sampling.temperature, 0.25F);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(models->back().sampling.temperature, std::nullopt);
  for (const char* wrong : {"7", R"({"temperature": 3})", R"({"top_p": 0})", R"({"top_k": "all"})",
                            R"({"temprature": 1})"}) {
    const std::string entry = R"([{"name": "a", "file": "A.gguf", "source": "x", "sampling": )";
    EXPECT_THAT(ErrorOf(entry + wrong + "}]"), HasSubstr("\"sampling\" ")) << wrong;
  }
}

TEST(RegistryTest, NamesTheEntryAndTheField) {
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("the registry is not a JSON list"));
  EXPECT_THAT(ErrorOf("["), HasSubstr("the registry is not valid JSON"));
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr("the registry's model 1: is not an object"));
  EXPECT_THAT(ErrorOf(R"([{"file": "A.gguf", "source": "x"}])"), HasSubstr("\"name\" is missing"));
  EXPECT_THAT(ErrorOf(R"([{"name": "../a", "file": "A.gguf", "source": "x"}])"),
              HasSubstr("\"name\" is not a valid model name"));
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "a/../b.gguf", "source": "x"}])"),
              HasSubstr("\"file\" is not the name of a .gguf file"));
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "A.gguf"}])"), HasSubstr("\"packages\" or"));
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "A.gguf", "source": "x",
                           "packages": [{"name": "p", "version": "1"}]}])"),
              HasSubstr("but not both"));
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "A.gguf", "source": "x", "sha256": "1"}])"),
              HasSubstr("\"sha256\" is not a SHA-256 sum"));
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "A.gguf", "source": "x", "bytes": -1}])"),
              HasSubstr("\"bytes\" is not a whole number of bytes"));
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "A.gguf", "source": "x", "sha265": "1"}])"),
              HasSubstr("model 1: \"sha265\" is not a field of a model; the fields are: name, "));
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "A.gguf", "source": "a"}])"),
              HasSubstr("\"source\" is the model's own name"));
  for (const char* packages : {R"([{"name": "--index-url=x", "version": "1"}])",
                               R"([{"name": "p", "version": "1; rm"}])", R"([7])", R"("p")"}) {
    EXPECT_NE(
        ErrorOf(std::string(R"([{"name": "a", "file": "A.gguf", "packages": )") + packages + "}]"),
        "")
        << packages;
  }
  EXPECT_THAT(ErrorOf(R"([{"name": "a", "file": "A.gguf", "source": "x"},
                          {"name": "a", "file": "B.gguf", "source": "y"}])"),
              HasSubstr("two models named \"a\""));
}

}  // namespace
}  // namespace ropeway::hub
