#include "engine/trace_writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

namespace ropeway::engine {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

class TraceWriterTest : public testing::Test {
 protected:
  TraceWriterTest()
      : path_(std::filesystem::temp_directory_path() /
              ("ropeway-trace-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~TraceWriterTest() override { std::filesystem::remove(path_); }

  std::unique_ptr<TraceWriter> Open(uint64_t max_bytes = TraceWriter::kMaxFileBytes,
                                    size_t max_queued = TraceWriter::kMaxQueued) {
    auto writer = TraceWriter::Open(path_, max_bytes, max_queued);
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return *std::move(writer);
  }

  std::string Text() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  json Events() const { return json::parse(Text()); }

  // "b queued 10, e queued 20, ..." of one request.
  std::string Story(RequestId request) const {
    std::string story;
    for (const json& event : Events()) {
      if (event.value("cat", "") != "request" || event["id"] != request) continue;
      story += event["ph"].get<std::string>() + " " + event["name"].get<std::string>() + " " +
               std::to_string(static_cast<int>(event["ts"].get<double>())) + ", ";
    }
    return story;
  }

  static StepTrace StepOf(uint64_t step, int begin_us, std::vector<core::StepContent::Item> items) {
    StepTrace trace;
    trace.step = step;
    trace.begin = microseconds(begin_us);
    trace.end = microseconds(begin_us + 8);
    trace.forward = microseconds(6);
    trace.sampling = microseconds(1);
    trace.content.items = std::move(items);
    return trace;
  }

  static constexpr auto kPrefill = core::StepContent::Kind::kPrefill;
  static constexpr auto kDecode = core::StepContent::Kind::kDecode;

  const std::string path_;
};

TEST_F(TraceWriterTest, ARequestsPhasesFollowFromTheSteps) {
  auto writer = Open();
  writer->Arrived(7, "tenant \"x\"", microseconds(5));
  StepTrace fetch = StepOf(1, 10, {});
  fetch.content.fetching = {7};
  writer->Step(fetch);
  writer->Step(StepOf(2, 20, {{7, kPrefill, 0, 100}}));
  writer->Step(StepOf(3, 30, {{7, kPrefill, 100, 28}}));
  writer->Step(StepOf(4, 40, {{7, kDecode, 128, 1}}));
  StepTrace preempt = StepOf(5, 50, {});
  preempt.content.preempted = {7};
  writer->Step(preempt);
  writer->Step(StepOf(6, 60, {{7, kPrefill, 112, 18}}));
  writer->Step(StepOf(7, 70, {{7, kDecode, 130, 1}}));
  writer->Ended(7, "stop", microseconds(80));
  writer->Stop();
  EXPECT_EQ(Story(7),
            "b request 7 5, b queued 5, e queued 10, b fetching 10, e fetching 20, b prefill 20, "
            "e prefill 40, b decode 40, e decode 50, b preempted 50, e preempted 60, b prefill 60, "
            "e prefill 70, b decode 70, e decode 80, e request 7 80, ");
  const json events = Events();
  EXPECT_EQ(events[2]["args"]["tenant"], "tenant \"x\"");
  EXPECT_EQ(events[events.size() - 2]["args"]["end"], "stop");
}

TEST_F(TraceWriterTest, AStepSaysWhatItWasMadeOf) {
  auto writer = Open();
  StepTrace step = StepOf(9, 100, {{1, kDecode, 40, 1}, {2, kDecode, 7, 1}, {3, kPrefill, 64, 30}});
  step.content.preempted = {4, 5};
  step.content.fetched_blocks = 3;
  writer->Step(step);
  writer->Stop();
  const json event = Events()[2];
  EXPECT_EQ(event["ph"], "X");
  EXPECT_EQ(event["ts"], 100.0);
  EXPECT_EQ(event["dur"], 8.0);
  const json expected = json::parse(R"({"step": 9, "rows": 32, "prefill_rows": 30,
      "decode_rows": 2, "fetched_blocks": 3, "forward_us": 6.0, "sampling_us": 1.0,
      "preempted": [4, 5],
      "items": [{"request": 1, "kind": "decode", "start": 40, "tokens": 1},
                {"request": 2, "kind": "decode", "start": 7, "tokens": 1},
                {"request": 3, "kind": "prefill", "start": 64, "tokens": 30}]})");
  EXPECT_EQ(event["args"], expected);
}

TEST_F(TraceWriterTest, IsLoadableWhenItIsCutOff) {
  auto writer = Open();
  for (int i = 1; i <= 20; ++i) writer->Step(StepOf(static_cast<uint64_t>(i), i * 10, {}));
  writer->Stop();
  const std::string text = Text();
  // What viewers do with an array that does not end: they take the whole events.
  const std::string cut = text.substr(0, text.rfind(",\n", text.size() / 2)) + "]";
  EXPECT_GT(json::parse(cut).size(), 5U);
}

TEST_F(TraceWriterTest, RequestsThatRunAtTheStopAreEnded) {
  auto writer = Open();
  writer->Arrived(1, "", microseconds(5));
  writer->Step(StepOf(1, 10, {{1, kDecode, 3, 1}}));
  writer->Stop();
  EXPECT_EQ(Story(1),
            "b request 1 5, b queued 5, e queued 10, b decode 10, e decode 18, "
            "e request 1 18, ");
}

TEST_F(TraceWriterTest, TheFileIsBounded) {
  constexpr uint64_t kMost = 20000;
  auto writer = Open(kMost);
  for (int i = 1; i <= 1000; ++i) writer->Step(StepOf(static_cast<uint64_t>(i), i * 10, {}));
  writer->Stop();
  EXPECT_LE(std::filesystem::file_size(path_), kMost);
  EXPECT_GT(std::filesystem::file_size(path_), kMost / 2);
  const json last = Events().back();
  EXPECT_EQ(last["args"]["full"], true);
  EXPECT_EQ(last["args"]["dropped_events"], 0);
}

// A pipe without a reader stops the writing thread alone.
TEST_F(TraceWriterTest, WhatItCannotKeepUpWithIsDroppedAndCounted) {
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::string read;
  std::unique_ptr<TraceWriter> writer;
  std::thread opener([&] { writer = Open(TraceWriter::kMaxFileBytes, 4); });
  std::ifstream pipe(path_);
  opener.join();
  ASSERT_NE(writer, nullptr);
  const std::vector<core::StepContent::Item> items(1000, core::StepContent::Item{1, kDecode, 1, 1});
  for (int i = 0; i < 100; ++i) writer->Step(StepOf(static_cast<uint64_t>(i), i, items));
  EXPECT_GE(writer->dropped(), 50U);
  std::thread stopper([&] { writer->Stop(); });
  std::stringstream text;
  text << pipe.rdbuf();
  stopper.join();
  EXPECT_EQ(json::parse(text.str()).back()["args"]["dropped_events"], writer->dropped());
}

TEST_F(TraceWriterTest, AFileThatCannotBeWrittenIsRejectedByName) {
  const auto writer = TraceWriter::Open("/no/such/folder/trace.json");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.status().field(), "trace_file");
  EXPECT_NE(writer.status().message().find("/no/such/folder/trace.json"), std::string::npos);
}

}  // namespace
}  // namespace ropeway::engine
