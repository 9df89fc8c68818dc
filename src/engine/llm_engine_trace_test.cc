#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/llm_engine.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

using nlohmann::json;

class TraceTest : public testing::Test {
 protected:
  TraceTest()
      : path_(std::filesystem::temp_directory_path() /
              ("ropeway-engine-trace-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    test_.options.trace_file = path_;
  }
  ~TraceTest() override { std::filesystem::remove(path_); }

  RequestId Submit(Request request, std::shared_ptr<TestSink> sink) {
    const StatusOr<RequestId> id = test_.engine->Submit(std::move(request), std::move(sink));
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : 0;
  }

  static Request TextRequest(const std::string& text, int32_t max_tokens) {
    Request request;
    request.prompt = text;
    request.max_tokens = max_tokens;
    return request;
  }

  // Ends the engine, and with it the trace.
  std::string TraceText() {
    test_.engine.reset();
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // The phases of a request, in order.
  static std::vector<std::string> Phases(const json& events, RequestId request) {
    std::vector<std::string> phases;
    for (const json& event : events) {
      if (event["ph"] == "b" && event["id"] == request) phases.push_back(event["name"]);
    }
    return phases;
  }

  static json ItemOf(const json& step, RequestId request) {
    for (const json& item : step["args"]["items"]) {
      if (item["request"] == request) return item;
    }
    return nullptr;
  }

  const std::string path_;
  TestEngine test_;
};

// What Pensieve (EuroSys'25) calls a unified batch: the prefill of a session's next turn, over the
// KV blocks that were kept of its history, in one forward pass with other sequences' decodes.
TEST_F(TraceTest, ASessionsTurnIsPrefilledOverItsKeptBlocksAmongOthersDecodes) {
  test_.control->step_micros = 200;
  test_.Start();
  Request turn = TextRequest("what was said first, which is long enough for blocks", 12);
  turn.session_id = "s";
  auto first = std::make_shared<TestSink>();
  Submit(turn, first);
  const int32_t session_tokens = first->WaitEnd().prompt_tokens + 12;

  auto other = std::make_shared<TestSink>();
  const RequestId others = Submit(TextRequest("someone else's stream", 3000), other);
  ASSERT_TRUE(other->WaitDeltas(5));
  turn.prompt = std::string("and the next question");
  auto second = std::make_shared<TestSink>();
  const RequestId next = Submit(turn, second);
  const TestSink::Seen seen = second->WaitEnd();
  EXPECT_EQ(seen.finish->session_tokens, session_tokens);
  EXPECT_TRUE(test_.engine->Cancel(others).ok());
  other->WaitEnd();

  const json events = json::parse(TraceText());
  // The last token was never computed with. All full blocks before it are kept; the rest and the
  // question are computed, in chunks that beside a stream are small.
  int reached = (session_tokens - 1) / base::kBlockTokens * base::kBlockTokens;
  for (const json& step : events) {
    if (step["name"] != "step") continue;
    const json prefill = ItemOf(step, next);
    if (prefill.is_null() || prefill["kind"] != "prefill") continue;
    EXPECT_EQ(prefill["start"], reached) << step;
    reached += prefill["tokens"].get<int>();
    ASSERT_FALSE(ItemOf(step, others).is_null()) << step;
    EXPECT_EQ(ItemOf(step, others)["kind"], "decode");
    EXPECT_EQ(step["args"]["decode_rows"], 1);
    EXPECT_EQ(step["args"]["prefill_rows"], prefill["tokens"]);
  }
  EXPECT_EQ(reached, seen.prompt_tokens);
}

TEST_F(TraceTest, ARequestsStoryIsWholeAndItsTextIsNotInIt) {
  test_.Start();
  auto sink = std::make_shared<TestSink>();
  Request request = TextRequest("a secret prompt", 3);
  request.tenant = "someone";
  const RequestId id = Submit(request, sink);
  sink->WaitEnd();
  auto gone = std::make_shared<TestSink>(TestSink::OnDeltaDoes::kStop, 1);
  const RequestId cancelled = Submit(TextRequest("another one", 3000), gone);
  gone->WaitEnd();
  const std::string text = TraceText();
  EXPECT_EQ(text.find("secret"), std::string::npos);
  const json events = json::parse(text);
  EXPECT_EQ(Phases(events, id), (std::vector<std::string>{"request " + std::to_string(id), "queued",
                                                          "prefill", "decode"}));
  std::string end;
  std::string tenant;
  std::string cancelled_end;
  double ended = 0;
  double last_step_end = 0;
  for (const json& event : events) {
    if (event["name"] == "request " + std::to_string(id)) {
      if (event["ph"] == "b") tenant = event["args"]["tenant"];
      if (event["ph"] == "e") end = event["args"]["end"];
      if (event["ph"] == "e") ended = event["ts"];
    }
    if (event["name"] == "request " + std::to_string(cancelled) && event["ph"] == "e") {
      cancelled_end = event["args"]["end"];
    }
    if (event["name"] == "step" && !ItemOf(event, id).is_null()) {
      last_step_end = event["ts"].get<double>() + event["dur"].get<double>();
      EXPECT_GE(event["args"]["rows"], 1);
      EXPECT_LE(event["args"]["sampling_us"], event["args"]["forward_us"]);
    }
  }
  EXPECT_EQ(tenant, "someone");
  EXPECT_EQ(end, "length");
  EXPECT_EQ(cancelled_end, "cancelled");
  EXPECT_GE(ended + 0.01, last_step_end);
}

TEST_F(TraceTest, APreemptionIsSeen) {
  test_.options.cache.kv_bytes = EchoExecutor::PoolBytes(8);
  test_.options.scheduler.max_num_seqs = 2;
  test_.control->step_micros = 3000;  // The second comes while the first is far from its end.
  test_.Start();
  auto first = std::make_shared<TestSink>();
  auto second = std::make_shared<TestSink>();
  test_.control->CloseGate();
  Submit(TextRequest(std::string(30, 'a'), 60), first);
  const RequestId newer = Submit(TextRequest(std::string(30, 'b'), 60), second);
  test_.control->OpenGate();
  first->WaitEnd();
  ASSERT_GE(second->WaitEnd().finish->preemptions, 1);
  const std::vector<std::string> phases = Phases(json::parse(TraceText()), newer);
  EXPECT_NE(std::find(phases.begin(), phases.end(), "preempted"), phases.end());
  EXPECT_EQ(phases.back(), "decode");
}

TEST_F(TraceTest, AFileThatCannotBeWrittenIsRejectedByName) {
  LlmEngineConfig config;
  config.options = test_.options;
  config.options.trace_file = "/no/such/folder/trace.json";
  config.model_context_length = 64;
  config.tokenizer = std::make_shared<ByteTokenizer>();
  config.executor = std::make_unique<EchoExecutor>(test_.control);
  config.clock = &test_.clock;
  config.random = &test_.random;
  EXPECT_EQ(LlmEngine::Create(std::move(config)).status().field(), "trace_file");
}

}  // namespace
}  // namespace ropeway::engine
