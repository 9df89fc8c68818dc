#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/test_wire.h"
#include "api/wire_format.h"

namespace ropeway::api::wire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using P = SamplingParams;

constexpr size_t kRopewayCuts[] = {1, 7, 1 << 20};

const char kRopewayModels[] =
    R"({"object":"list","data":[{"id":"m","owned_by":"ropeway","ropeway":{"digest":"d1","numerics":3,"limits":"2048 f16"}}]})";

TEST(RopewayWire, WhatMayGoOnUntilTheContextEndsSaysSo) {
  const auto wire = MakeRopeway({});
  Request request = CompletionRequest();
  request.max_tokens.reset();
  EXPECT_EQ(json::parse(WrittenBody(*wire, request))["max_tokens"], -1) << "absent means 16";
  request.prompt = Chat{.messages = {{"user", "u"}}};
  EXPECT_FALSE(json::parse(WrittenBody(*wire, request)).contains("max_tokens"));
}

TEST(RopewayWire, ActsForTheTenantOnceItsKeyHasTheRight) {
  const auto wire = MakeRopeway({});
  Request request = EverythingGiven();
  request.sampling.seed = 0xFFFFFFFFFFFFFFFFU;
  request.sampling.given = P::kNoneGiven;
  request.tenant = "one";
  request.tenant_weight = 2;
  request.choice = 1;
  request.priority = Priority::kHigh;
  request.timeout = std::chrono::milliseconds(1500);
  EXPECT_FALSE(wire->CanResume());
  const json before = json::parse(WrittenBody(*wire, request));
  EXPECT_EQ(before["priority"], "high");
  EXPECT_EQ(before["timeout"], 1.5);
  EXPECT_EQ(before["min_tokens"], 2);
  EXPECT_FALSE(before.contains("temperature")) << "it was not given";
  EXPECT_FALSE(before.contains("ropeway_gateway"));
  EXPECT_EQ(before["cache_salt"].get<std::string>().size(), 64u) << "divides tenants";
  EXPECT_NE(before["seed"], 0xFFFFFFFFFFFFFFFFU) << "choices differ by their seeds";

  BackendFacts facts;
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", kRopewayModels}}, &facts).ok());
  EXPECT_EQ(facts.model_digest, "d1");
  EXPECT_EQ(facts.numerics, "3");
  EXPECT_EQ(facts.limits, "2048 f16");
  EXPECT_TRUE(wire->CanResume());
  const json after = json::parse(WrittenBody(*wire, request));
  EXPECT_EQ(after["ropeway_gateway"],
            (json{{"tenant", "one"}, {"choice", 1}, {"ids", true}, {"weight", 2.0}}));
  EXPECT_EQ(after["seed"], 0xFFFFFFFFFFFFFFFFU);
  EXPECT_EQ(after["cache_salt"], "salt");

  request.resume_ids = {5, 6};
  request.tenant = "not a name";
  const json resumed = json::parse(wire->Write(request)->body);
  EXPECT_EQ(resumed["ropeway_gateway"]["resume_ids"], (json{5, 6}));
  EXPECT_EQ(resumed["ropeway_gateway"]["tenant"].get<std::string>().size(), 64u);
  EXPECT_EQ(resumed["seed"], 0xFFFFFFFFFFFFFFFFU);
  EXPECT_EQ(resumed["max_tokens"], 8) << "of the whole answer";
  request.resume_ids.clear();

  // Another gateway gives the right, but computes nothing itself.
  const char gateway[] =
      R"({"data":[{"id":"m","ropeway":{"digest":"","numerics":"","limits":""}}]})";
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", gateway}}, &facts).ok());
  EXPECT_FALSE(wire->CanResume());
  EXPECT_EQ(json::parse(WrittenBody(*wire, request))["ropeway_gateway"]["ids"], false);

  // The right is lost with the key's.
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", R"({"data":[{"id":"m"}]})"}}, &facts).ok());
  EXPECT_FALSE(wire->CanResume());
  EXPECT_THAT(wire->Unknown(request), IsEmpty());
}

TEST(RopewayWire, OnlyOneThatGivesTheRightGoesOnFromIds) {
  Request request = CompletionRequest();
  request.sampling.seed = 3;
  request.resume_ids = {5, 6};
  for (const BackendKind kind : {BackendKind::kOpenAi, BackendKind::kLlamaCpp, BackendKind::kOllama,
                                 BackendKind::kRopeway}) {
    const Status status = MakeWireFormat(kind, {"m"})->Write(request).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << BackendKindName(kind);
    EXPECT_EQ(status.field(), "resume_ids");
    EXPECT_EQ(status.message().find("it cannot continue"), 0u) << status.message();
  }
  const auto wire = MakeRopeway({"m"});
  BackendFacts facts;
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", kRopewayModels}}, &facts).ok());
  EXPECT_EQ(json::parse(WrittenBody(*wire, request))["ropeway_gateway"]["resume_ids"],
            (json{5, 6}));
  // A stream that was to be taken up there just when it took the right away.
  EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", R"({"data":[{"id":"m"}]})"}}, &facts).ok());
  EXPECT_EQ(wire->Write(request).status().code(), StatusCode::kUnimplemented);
}

TEST(RopewayWire, ReadsIdsAndOffsets) {
  Request request = CompletionRequest();
  const std::string stream = Events(
      {R"({"id":"cmpl-1","choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null,"ropeway_ids":[7]}],"usage":null})",
       R"({"id":"cmpl-1","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":null,"ropeway_ids":[8,0]}],"usage":null})",
       R"({"id":"cmpl-1","choices":[{"index":0,"text":"rest","logprobs":null,"finish_reason":"stop"}],"usage":null,"ropeway":{"batch_num":1,"seed":18446744073709551615,"max_tokens":22,"cut_by":"tokens_per_minute"}})",
       R"({"id":"cmpl-1","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}})"});
  for (const size_t cut : kRopewayCuts) {
    const ReadStream read = ReadInPieces(*MakeRopeway({}), request, stream, cut);
    ASSERT_FALSE(read.failure) << read.failure->status.message();
    EXPECT_THAT(read.sink.pieces, ElementsAre("a", "", "rest"));
    ASSERT_EQ(read.sink.tokens.size(), 3u);
    EXPECT_EQ(read.sink.tokens[0].id, 7);
    EXPECT_EQ(read.sink.tokens[2].id, 0);
    EXPECT_EQ(read.end.seed, 0xFFFFFFFFFFFFFFFFU);
    EXPECT_EQ(read.end.max_tokens, 22);
    EXPECT_STREQ(read.end.cut_by, "tokens_per_minute");
    EXPECT_EQ(read.end.usage.completion_tokens, 3);
  }
  request.logprobs = 0;
  const std::string scored = Events(
      {R"({"choices":[{"index":0,"text":"a","logprobs":{"text_offset":[0],"token_logprobs":[-1],"tokens":["a"],"top_logprobs":[{"a":-1}]},"ropeway_ids":[7],"ropeway_offsets":[41]}]})"});
  const ReadStream read = ReadInPieces(*MakeRopeway({}), request, scored, 9);
  ASSERT_EQ(read.sink.tokens.size(), 1u);
  EXPECT_EQ(read.sink.tokens[0].id, 7);
  EXPECT_EQ(read.sink.tokens[0].text_offset, 41u);
  EXPECT_EQ(read.sink.tokens[0].logprob, -1);
  for (const char* offsets : {"[-1]", "[41,42]", "{}", "\"41\"", "[\"41\"]"}) {
    std::string wrong = scored;
    wrong.replace(wrong.find("[41]"), 4, offsets);
    const ReadStream odd = ReadInPieces(*MakeRopeway({}), request, wrong, 9);
    ASSERT_TRUE(odd.failure) << offsets;
    EXPECT_THAT(odd.failure->status.message(), HasSubstr("'ropeway_offsets'")) << offsets;
  }
  const std::string other = Events({R"({"choices":[],"ropeway":{"cut_by":"<b>"}})"});
  EXPECT_STREQ(ReadInPieces(*MakeRopeway({}), request, other, 9).end.cut_by, "") << "no such limit";
  for (const char* name : {"seed", "max_tokens"}) {
    for (const char* value : {"-1", "\"1\"", "1.5", "[]"}) {
      const std::string event =
          std::string(R"({"choices":[],"ropeway":{")") + name + "\":" + value + "}}";
      EXPECT_TRUE(ReadInPieces(*MakeRopeway({}), request, Events({event}), 9).failure) << event;
    }
  }
  for (const char* ids : {"[7,8]", "[]", "[-1]", "[2147483648]", "[\"7\"]", "{}"}) {
    std::string wrong = scored;
    wrong.replace(wrong.find("[7]"), 3, ids);
    EXPECT_TRUE(ReadInPieces(*MakeRopeway({}), request, wrong, 9).failure) << ids;
  }
}

TEST(RopewayWire, TheOnlyModelIsMeantWhateverClientsCallIt) {
  const auto sent = [](WireFormat* wire) {
    return json::parse(WrittenBody(*wire, CompletionRequest()))["model"];
  };
  const std::vector<std::pair<std::string, std::string>> one = {{"/v1/models", kRopewayModels}};
  const std::vector<std::pair<std::string, std::string>> two = {
      {"/v1/models", R"({"data":[{"id":"x"},{"id":"y"}]})"}};
  BackendFacts facts;
  const auto wire = MakeRopeway({.name = "public", .may_differ = true});
  EXPECT_EQ(sent(wire.get()), "public");
  EXPECT_TRUE(ReadProbes(wire.get(), one, &facts).ok());
  EXPECT_EQ(sent(wire.get()), "m");
  EXPECT_TRUE(wire->CanResume()) << "its facts are those of that model";
  // With several models, the gateway cannot tell which one is meant.
  EXPECT_TRUE(ReadProbes(wire.get(), two, &facts).ok());
  EXPECT_FALSE(facts.ready);
  EXPECT_EQ(facts.reason, "it has no model 'public'; it has 'x', 'y': name one with upstream=NAME");
  facts = {};
  const std::vector<std::pair<std::string, std::string>> its = {
      {"/v1/models", R"({"data":[{"id":"x"},{"id":"public"}]})"}};
  EXPECT_TRUE(ReadProbes(wire.get(), its, &facts).ok());
  EXPECT_TRUE(facts.ready);
  EXPECT_EQ(sent(wire.get()), "public");
  const auto ready = [](ServerModel model, const auto& answers) {
    BackendFacts told;
    EXPECT_TRUE(ReadProbes(MakeRopeway(std::move(model)).get(), answers, &told).ok());
    return told.ready;
  };
  EXPECT_FALSE(ready({.name = "inner"}, one)) << "what upstream says is meant";
  EXPECT_TRUE(ready({.name = "m"}, one));
  EXPECT_TRUE(ready({.name = "default"}, two));
  EXPECT_TRUE(ready({}, two));
}

TEST(RopewayWire, AFactOfAnUnexpectedTypeIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"/health", R"({"status":"ok","batching":7})"},
      {"/health", R"({"status":"ok","batching":{"max_batch_size":[]}})"},
      {"/v1/models", R"({"data":[{"id":"m","ropeway":"yes"}]})"},
      {"/v1/models", R"({"data":[{"id":["m"]}]})"},
      {"/v1/queue", R"({"classes":7})"},
      {"/v1/queue", R"({"classes":{"high":{"running":true}}})"},
  };
  const auto wire = MakeRopeway({});
  for (const auto& [path, body] : cases) {
    for (const WireProbe& probe : wire->Probes()) {
      BackendFacts facts;
      if (probe.path != path) continue;
      EXPECT_THAT(probe.read(body, &facts).message(), HasSubstr("it sent the field '")) << body;
    }
  }
}

TEST(RopewayWire, IdsOutsideTheVocabularyAndBeyondWhatWasAskedForAreNoIds) {
  const auto wire = MakeRopeway({"m"});
  const auto read = [&](const std::string& ids) {
    const std::string stream =
        Events({R"({"choices":[{"index":0,"text":"a","finish_reason":"stop","ropeway_ids":)" + ids +
                "}]}"});
    return ReadInPieces(*wire, CompletionRequest(), stream, 9).failure;  // It asks for 8 tokens.
  };
  const auto reports = [&](const std::string& more) {
    const std::string list =
        R"({"data":[{"id":"m","ropeway":{"digest":"d","numerics":"1","limits":"l")" + more + "}}]}";
    BackendFacts facts;
    EXPECT_TRUE(ReadProbes(wire.get(), {{"/v1/models", list}}, &facts).ok());
  };
  reports(R"(,"vocabulary":49152)");
  EXPECT_FALSE(read("[49151]"));
  for (const char* ids : {"[49152]", "[7,99999999]", "[2147483647]", "[1,2,3,4,5,6,7,8,9]"}) {
    const auto failure = read(ids);
    ASSERT_TRUE(failure.has_value()) << ids;
    EXPECT_EQ(failure->kind, FailureKind::kBroken);
  }
  EXPECT_FALSE(read("[1,2,3,4,5,6,7,8]"));
  reports("");  // An older one.
  EXPECT_FALSE(read("[99999999]"));
  EXPECT_TRUE(read("[-1]"));
}

TEST(RopewayWire, AFailureOfResumeIdsIsNotTheServers) {
  const std::string stream = Events(
      {R"({"error":{"message":"others","type":"internal_error","param":"resume_ids","code":null}})"});
  const ReadStream read = ReadInPieces(*MakeRopeway({"m"}), CompletionRequest(), stream, 9);
  ASSERT_TRUE(read.failure.has_value());
  EXPECT_EQ(read.failure->kind, FailureKind::kRejected);
}

TEST(RopewayWire, TellsThatItsModelOnlyEmbeds) {
  const auto embeds_only = [](const ServerModel& model, const std::string& entries) {
    BackendFacts facts;
    const auto wire = MakeRopeway(model);
    const Status status =
        ReadProbes(wire.get(),
                   {{"/health", R"({"status":"ok"})"},
                    {"/v1/models", "{\"object\":\"list\",\"data\":[" + entries + "]}"},
                    {"/v1/queue", "{}"}},
                   &facts);
    EXPECT_TRUE(status.ok()) << status.message();
    return facts.embeds_only;
  };
  const std::string encoder = R"({"id":"e","embeds_only":true})";
  const std::string chats = R"({"id":"c"})";
  EXPECT_TRUE(embeds_only({}, encoder));
  EXPECT_TRUE(embeds_only({}, encoder + "," + chats)) << "the first is the default";
  EXPECT_FALSE(embeds_only({}, chats + "," + encoder));
  EXPECT_TRUE(embeds_only({"e"}, chats + "," + encoder));
  EXPECT_FALSE(embeds_only({"c"}, encoder + "," + chats));
  EXPECT_FALSE(embeds_only({}, R"({"id":"e","embeds_only":"true"})"));
}

TEST(RopewayWire, TellsItsPlacesQueueAndMemory) {
  const auto wire = MakeRopeway({});
  BackendFacts facts;
  const Status status = ReadProbes(
      wire.get(),
      {{"/health", R"({"status":"ok","batching":{"queue_depth":4,"max_batch_size":16}})"},
       {"/v1/models", kRopewayModels},
       {"/v1/queue",
        R"({"object":"queue","classes":{"high":{"waiting":1,"running":2},"low":{"waiting":9,"running":3}}})"},
       {"/metrics", "ropeway_kv_cache_usage_ratio 0.5\n"}},
      &facts);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(facts.places, 16);
  EXPECT_TRUE(facts.preempts);
  EXPECT_EQ(facts.waiting, 4);
  EXPECT_EQ(facts.running, 5);
  EXPECT_EQ(facts.free_memory, 0.5);
  EXPECT_FALSE(ReadProbes(wire.get(), {{"/health", "{}"}}, &facts).ok());
}

}  // namespace
}  // namespace ropeway::api::wire
