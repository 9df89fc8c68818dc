#include "cli/gateway_backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace ropeway::cli {
namespace {

using api::BackendKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The message of what is rejected, "" where nothing is.
std::string Fault(const std::string& text) {
  const StatusOr<BackendFlag> backend = ParseBackend(text);
  return backend.ok() ? "" : backend.status().message();
}

std::vector<BackendFlag> Backends(const std::vector<std::string>& texts) {
  std::vector<BackendFlag> backends;
  for (const std::string& text : texts) {
    StatusOr<BackendFlag> backend = ParseBackend(text);
    EXPECT_TRUE(backend.ok()) << text << ": " << backend.status().message();
    if (backend.ok()) backends.push_back(*std::move(backend));
  }
  return backends;
}

std::string ResolveFault(const std::vector<std::string>& texts) {
  std::vector<BackendFlag> backends = Backends(texts);
  return ResolveBackends(&backends).message();
}

TEST(ParseBackend, AUrlAloneIsAnyOpenAiServer) {
  const StatusOr<BackendFlag> backend = ParseBackend("http://127.0.0.1:8081");
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_EQ(backend->kind, BackendKind::kOpenAi);
  EXPECT_EQ(backend->where, "http://127.0.0.1:8081");
  EXPECT_EQ(backend->weight, 1.0);
  EXPECT_EQ(backend->max_concurrency, 0);
  EXPECT_EQ(backend->key_variable, "");
  EXPECT_FALSE(backend->insecure);
}

TEST(ParseBackend, EveryKeyReachesItsField) {
  const StatusOr<BackendFlag> backend = ParseBackend(
      "https://host.example/api,kind=ollama,model=m,upstream=llama3.2:1b,alias=a,alias=b,name=n,"
      "weight=2.5,max-concurrency=7,min-concurrency=3,key-env=SOME_KEY,insecure=true");
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_EQ(backend->kind, BackendKind::kOllama);
  EXPECT_EQ(backend->where, "https://host.example/api");
  EXPECT_EQ(backend->model, "m");
  EXPECT_EQ(backend->upstream_model, "llama3.2:1b");
  EXPECT_THAT(backend->aliases, ElementsAre("a", "b"));
  EXPECT_EQ(backend->name, "n");
  EXPECT_EQ(backend->weight, 2.5);
  EXPECT_EQ(backend->max_concurrency, 7);
  EXPECT_EQ(backend->min_concurrency, 3);
  EXPECT_EQ(backend->key_variable, "SOME_KEY");
  EXPECT_TRUE(backend->insecure);
}

TEST(ParseBackend, EveryKindHasItsName) {
  for (const auto& [name, kind] : {std::pair("openai", BackendKind::kOpenAi),
                                   {"llamacpp", BackendKind::kLlamaCpp},
                                   {"ollama", BackendKind::kOllama},
                                   {"ropeway", BackendKind::kRopeway}}) {
    const auto backend = ParseBackend(std::string("http://h:1,kind=") + name);
    ASSERT_TRUE(backend.ok()) << backend.status().message();
    EXPECT_EQ(backend->kind, kind);
    EXPECT_FALSE(backend->local);
  }
}

TEST(ParseBackend, LocalIsAModelOfThisProcess) {
  const StatusOr<BackendFlag> backend = ParseBackend("local:models/a.gguf,model=a,weight=3");
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_TRUE(backend->local);
  EXPECT_EQ(backend->where, "models/a.gguf");
  EXPECT_EQ(backend->weight, 3.0);
  EXPECT_THAT(Fault("local:"), HasSubstr("'local:' without a model"));
  EXPECT_THAT(Fault("local:m,kind=openai"), HasSubstr("'kind' is only for URLs"));
  EXPECT_THAT(Fault("local:m,key-env=K"), HasSubstr("'key-env' is only for URLs"));
  EXPECT_THAT(Fault("local:m,device=gpu"), HasSubstr("device must be one of cpu, auto, cuda"));
  EXPECT_THAT(Fault("http://a:1,device=cpu"), HasSubstr("'device' is only for local:MODEL"));
}

TEST(ParseBackend, WhatIsWrongNamesTheBackendAndWhatWasExpected) {
  for (const auto& [text, expected] :
       {std::pair("http://h:1,kind=vllm",
                  "'http://h:1': kind must be openai, llamacpp, ollama or ropeway, not 'vllm'"),
        {"http://h:1,kind=", "kind must be"},
        {"http://h:1,kind=local", "not 'local'"},
        {"http://h:1,kind=ollama,kind=ollama", "'kind' is given twice"},
        {"http://h:1,weight=0", "weight must be a number, 0.01 to 100, not '0'"},
        {"http://h:1,weight=-1", "weight must be"},
        {"http://h:1,weight=nan", "weight must be"},
        {"http://h:1,weight=2x", "weight must be"},
        {"http://h:1,max-concurrency=0", "max-concurrency must be a whole number, 1 to"},
        {"http://h:1,max-concurrency=1.5", "max-concurrency must be"},
        {"http://h:1,min-concurrency=0", "min-concurrency must be a whole number, 1 to"},
        {"http://h:1,min-concurrency=8,max-concurrency=7",
         "min-concurrency must be at most 7 (max-concurrency), not 8"},
        {"http://h:1,model=", "model must be 1 to"},
        {"http://h:1,model=a b", "visible ASCII"},
        {"http://h:1,name=\x1b[31m", "visible ASCII"},
        {"http://h:1,alias=", "alias must be 1 to"},
        {"http://h:1,alias=a,alias=a", "alias 'a' is given twice"},
        {"http://h:1,alias=a,model=m,alias=b,alias=a", "alias 'a' is given twice"},
        {"http://h:1,model=m,model=m", "'model' is given twice"},
        {"http://h:1,key-env=", "the name of an environment variable"},
        {"http://h:1,insecure=yes", "insecure must be true or false"},
        {"http://h:1,insecure=true", "'insecure' is only for https"},
        {"http://h:1,wieght=2", "one of the keys kind, model, alias, upstream, name, weight"},
        {"http://h:1,", "expected key=value"},
        {"http://h:1,kind", "expected key=value"},
        {"127.0.0.1:8081", "'127.0.0.1:8081' begins with neither"},
        {"ftp://h", "begins with neither"},
        {"http://", "has no host"},
        {"http://h:0", "no port from 1 to 65535"},
        {"http://h:99999", "no port from 1 to 65535"},
        {"http://[::1", "has no ']' after '['"},
        {"", "begins with neither"}}) {
    EXPECT_THAT(Fault(text), HasSubstr(expected)) << text;
    EXPECT_EQ(Fault(text).find_first_of("\n\x1b"), std::string::npos) << text;
  }
}

TEST(ParseBackend, SecretsAreNotShown) {
  for (const char* text : {"http://user:hush-hush@h:1", "http://h:1/v1?key=hush-hush",
                           "http://h:1,key-env=hush-hush", "http://h:1,key=hush-hush"}) {
    EXPECT_NE(Fault(text), "") << text;
    EXPECT_THAT(Fault(text), Not(HasSubstr("hush-hush"))) << text;
  }
}

TEST(ResolveBackends, NamesAreHostAndPortAndTheModelWhereItHelps) {
  std::vector<BackendFlag> backends =
      Backends({"http://a:1", "https://b", "http://[::1]:2", "http://c:3,kind=ollama,model=x",
                "http://c:3,kind=ollama,model=y", "http://d:4,name=mine", "local:m",
                "local:m,device=opencl:1"});
  const Status status = ResolveBackends(&backends);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<std::string> names;
  for (const BackendFlag& backend : backends) names.push_back(backend.name);
  EXPECT_THAT(names, ElementsAre("a:1", "b", "[::1]:2", "c:3/x", "c:3/y", "mine", "local:m",
                                 "local:m/opencl:1"));
}

TEST(ResolveBackends, NamesAreDistinct) {
  EXPECT_THAT(ResolveFault({}), HasSubstr("--backend is required"));
  EXPECT_THAT(ResolveFault({"http://a:1", "http://a:1"}), HasSubstr("'a:1' is given twice"));
  EXPECT_THAT(ResolveFault({"http://a:1,name=n", "http://b:1,name=n"}),
              HasSubstr("'n' is given twice"));
  EXPECT_THAT(ResolveFault({"http://a:1,model=m", "http://b:1,model=k,alias=m"}),
              HasSubstr("the alias 'm' of 'b:1' is already a name of the model 'm'"));
  EXPECT_THAT(ResolveFault({"http://a:1,model=m,alias=x", "http://b:1,model=k,alias=x"}),
              HasSubstr("the alias 'x' of 'b:1' is already a name of the model 'm'"));
  EXPECT_THAT(ResolveFault({"http://a:1,model=m,alias=m"}), HasSubstr("the alias 'm'"));
  EXPECT_THAT(ResolveFault({"http://a:1,model=default"}), HasSubstr("'default'"));
  EXPECT_THAT(ResolveFault({"http://a:1,model=m,alias=default"}), HasSubstr("'default'"));
  EXPECT_EQ(ResolveFault({"http://a:1,model=m,alias=x", "http://b:1,model=m,alias=x"}), "")
      << "replicas of one model say the same";
}

TEST(ResolveBackends, AModelHasBoundedReplicas) {
  std::vector<std::string> texts;
  for (int i = 1; i <= 64; ++i) texts.push_back("http://h:" + std::to_string(i) + ",model=m");
  EXPECT_EQ(ResolveFault(texts), "");
  texts.emplace_back("http://h:65,model=m");
  EXPECT_THAT(ResolveFault(texts), HasSubstr("more than 64 backends"));
  texts.back() = "http://h:65,model=k";
  EXPECT_EQ(ResolveFault(texts), "");
}

TEST(BackendKey, ComesFromTheEnvironmentAlone) {
  std::vector<BackendFlag> backends =
      Backends({"http://a:1", "http://b:1,key-env=GATEWAY_BACKENDS_TEST_KEY"});
  ASSERT_TRUE(ResolveBackends(&backends).ok());
  EXPECT_EQ(*BackendKey(backends[0]), "");
  unsetenv("GATEWAY_BACKENDS_TEST_KEY");
  const std::string missing = BackendKey(backends[1]).status().message();
  EXPECT_THAT(missing, HasSubstr("GATEWAY_BACKENDS_TEST_KEY"));
  EXPECT_THAT(missing, HasSubstr("'b:1'"));
  setenv("GATEWAY_BACKENDS_TEST_KEY", "", 1);
  EXPECT_FALSE(BackendKey(backends[1]).ok());
  setenv("GATEWAY_BACKENDS_TEST_KEY", "a key\r\nX: 1", 1);
  const std::string odd = BackendKey(backends[1]).status().message();
  EXPECT_THAT(odd, HasSubstr("visible ASCII"));
  EXPECT_THAT(odd, Not(HasSubstr("a key")));
  setenv("GATEWAY_BACKENDS_TEST_KEY", "a-key", 1);
  EXPECT_EQ(*BackendKey(backends[1]), "a-key");
  unsetenv("GATEWAY_BACKENDS_TEST_KEY");
}

}  // namespace
}  // namespace ropeway::cli
