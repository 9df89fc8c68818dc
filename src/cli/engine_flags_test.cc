#include "cli/engine_flags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/run_flags.h"
#include "cli/serve.h"
#include "flags/program.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class EngineFlagsTest : public testing::Test {
 protected:
  EngineFlagsTest() {
    program_.name = "ropeway";
    program_.commands = {ServeCommand(&serve_), RunCommand(&run_)};
  }

  // The message of what is rejected, "" where nothing is.
  std::string Parse(const std::vector<std::string>& words) {
    return flags::ParseCommandLine(program_, words).status().message();
  }

  // The options that `ropeway serve` with these flags has.
  EngineOptions Serve(std::vector<std::string> words) {
    words.insert(words.begin(), "serve");
    EXPECT_EQ(Parse(words), "");
    EngineOptions options = serve_.engine.options;
    const Status status = ResolveBatching(serve_.engine.batching, &options.scheduler);
    EXPECT_TRUE(status.ok()) << status.message();
    return options;
  }

  ServeFlags serve_;
  RunFlags run_;
  flags::Program program_;
};

TEST_F(EngineFlagsTest, TheDefaultsAreTheEngines) {
  const EngineOptions given = Serve({});
  const EngineOptions own;
  EXPECT_EQ(given.scheduler.strategy, own.scheduler.strategy);
  EXPECT_EQ(given.scheduler.max_batch_size, own.scheduler.max_batch_size);
  EXPECT_EQ(given.scheduler.static_padding, own.scheduler.static_padding);
  EXPECT_EQ(given.scheduler.batch_timeout, own.scheduler.batch_timeout);
  EXPECT_EQ(given.queue.policy, own.queue.policy);
  EXPECT_EQ(given.queue.class_shares, own.queue.class_shares);
  EXPECT_EQ(given.scheduler.preempt_max_generated, own.scheduler.preempt_max_generated);
  EXPECT_EQ(given.queue.max_wait, own.queue.max_wait);
  EXPECT_EQ(given.queue.ttft_limits, own.queue.ttft_limits);
  EXPECT_EQ(given.queue.latency_limits, own.queue.latency_limits);
  EXPECT_EQ(given.scheduler.batch_control.start, own.scheduler.batch_control.start);
  EXPECT_EQ(given.scheduler.batch_control.request_target,
            own.scheduler.batch_control.request_target);
  EXPECT_TRUE(given.scheduler.urgent_joins) << "a server's default";
  EXPECT_FALSE(own.scheduler.urgent_joins) << "a comparison of strategies keeps them pure";
  const std::string help = flags::HelpText(program_, {&program_.commands[0]});
  for (const char* shown : {"priority+fair", "70,20,10", "100ms,300ms,500ms", "continuous"}) {
    EXPECT_THAT(help, HasSubstr(shown));
  }
}

TEST_F(EngineFlagsTest, WhatTheModelSaysIsLeftToIt) {
  const ModelOptions own = Serve({}).model;
  EXPECT_EQ(own.quantize, "");
  EXPECT_EQ(own.sampling.temperature, std::nullopt);
  EXPECT_EQ(own.sampling.top_k, std::nullopt);
  EXPECT_EQ(own.sampling.top_p, std::nullopt);
  EXPECT_EQ(own.sampling.min_p, std::nullopt);
  EXPECT_EQ(own.sampling.repetition_penalty, std::nullopt);
  const ModelOptions given =
      Serve({"--quantize", "q4_0", "--temperature", "0", "--top-k", "40", "--top-p", "0.9",
             "--min-p", "0.05", "--repetition-penalty", "1.1"})
          .model;
  EXPECT_EQ(given.quantize, "q4_0");
  EXPECT_EQ(given.sampling.temperature, 0.0F);
  EXPECT_EQ(given.sampling.top_k, 40);
  EXPECT_EQ(given.sampling.top_p, 0.9F);
  EXPECT_EQ(given.sampling.min_p, 0.05F);
  EXPECT_EQ(given.sampling.repetition_penalty, 1.1F);
  EXPECT_THAT(Parse({"serve", "--quantize", "q5_k"}), HasSubstr("q8_0"));
  EXPECT_THAT(Parse({"serve", "--top-p", "0"}), HasSubstr("above 0"));
  const std::string help = flags::HelpText(program_, {&program_.commands[0]});
  EXPECT_THAT(help, HasSubstr("the model's, or 1"));
}

TEST_F(EngineFlagsTest, EveryFlagReachesItsOption) {
  const EngineOptions options = Serve({"--scheduler",
                                       "static",
                                       "--max-batch-size",
                                       "3",
                                       "--static-padding",
                                       "off",
                                       "--static-flush",
                                       "4s",
                                       "--batch-timeout",
                                       "5ms",
                                       "--target-latency",
                                       "6s",
                                       "--policy",
                                       "sjf",
                                       "--class-shares",
                                       "50,30,20",
                                       "--strict-priority",
                                       "--preempt-max-generated",
                                       "7",
                                       "--max-wait",
                                       "8s",
                                       "--max-queued-tokens",
                                       "9",
                                       "--prefill-chunk",
                                       "10",
                                       "--long-prefill-threshold",
                                       "11",
                                       "--long-prefill-budget",
                                       "12",
                                       "--batch-control",
                                       "aimd",
                                       "--step-target",
                                       "13ms",
                                       "--ttft-limits",
                                       "1ms,2s,3m",
                                       "--latency-limits",
                                       "4s,5s,6s",
                                       "--request-target",
                                       "7s",
                                       "--aimd-start",
                                       "14",
                                       "--urgent-joins",
                                       "off"});
  EXPECT_EQ(options.scheduler.strategy, "static");
  EXPECT_EQ(options.scheduler.max_batch_size, 3);
  EXPECT_FALSE(options.scheduler.static_padding);
  EXPECT_EQ(options.scheduler.static_flush, milliseconds(4000));
  EXPECT_EQ(options.scheduler.batch_timeout, milliseconds(5));
  EXPECT_EQ(options.scheduler.target_latency, milliseconds(6000));
  EXPECT_EQ(options.queue.policy, "sjf");
  EXPECT_EQ(options.queue.class_shares, (std::array<int, 3>{50, 30, 20}));
  EXPECT_TRUE(options.queue.strict_priority);
  EXPECT_EQ(options.scheduler.preempt_max_generated, 7);
  EXPECT_EQ(options.queue.max_wait, milliseconds(8000));
  EXPECT_EQ(options.queue.max_queued_tokens, 9);
  EXPECT_EQ(options.scheduler.max_prefill_chunk, 10);
  EXPECT_EQ(options.scheduler.long_prefill_threshold, 11);
  EXPECT_EQ(options.scheduler.long_prefill_budget, 12);
  EXPECT_EQ(options.scheduler.batch_control.name, "aimd");
  EXPECT_EQ(options.scheduler.batch_control.step_target, milliseconds(13));
  EXPECT_EQ(options.queue.ttft_limits,
            (std::array{milliseconds(1), milliseconds(2000), milliseconds(180'000)}));
  EXPECT_EQ(options.queue.latency_limits,
            (std::array{milliseconds(4000), milliseconds(5000), milliseconds(6000)}));
  EXPECT_EQ(options.scheduler.batch_control.request_target, milliseconds(7000));
  EXPECT_EQ(options.scheduler.batch_control.start, 14);
  EXPECT_FALSE(options.scheduler.urgent_joins);
}

TEST_F(EngineFlagsTest, AutoIsANegativeNumber) {
  const EngineOptions options =
      Serve({"--batch-timeout", "auto", "--preempt-max-generated", "auto"});
  EXPECT_LT(options.scheduler.batch_timeout, milliseconds(0));
  EXPECT_LT(options.scheduler.preempt_max_generated, 0);
}

TEST_F(EngineFlagsTest, APresetGivesWayToFlags) {
  for (const auto& [preset, timeout, size] :
       {std::tuple("latency", 10, 4), {"balanced", 50, 8}, {"throughput", 100, 16}}) {
    serve_.engine.batching = {};
    const EngineOptions options = Serve({"--preset", preset});
    EXPECT_EQ(options.scheduler.strategy, "dynamic");
    EXPECT_EQ(options.scheduler.batch_timeout, milliseconds(timeout));
    EXPECT_EQ(options.scheduler.max_batch_size, size);
  }
  const EngineOptions options = Serve({"--max-batch-size", "5", "--batch-timeout", "auto",
                                       "--preset", "throughput", "--scheduler", "static"});
  EXPECT_EQ(options.scheduler.strategy, "static");
  EXPECT_EQ(options.scheduler.max_batch_size, 5);
  EXPECT_LT(options.scheduler.batch_timeout, milliseconds(0));
}

TEST_F(EngineFlagsTest, WhatIsWrongNamesTheFlagAndWhatWasExpected) {
  for (const auto& [flag, value, expected] :
       {std::tuple("--scheduler", "batched", "continuous, dynamic, static, serial"),
        {"--preset", "fast", "latency, balanced, throughput"},
        {"--batch-control", "auto", "fixed, aimd, memory"},
        {"--max-batch-size", "0", "1 to 4096"},
        {"--static-padding", "yes", "on, off"},
        {"--batch-timeout", "50", "auto, or a time"},
        {"--batch-timeout", "-1ms", "auto, or a time"},
        {"--target-latency", "0", "at least 1ms"},
        {"--step-target", "0", "at least 1ms"},
        {"--max-wait", "0", "at least 1ms"},
        {"--max-queued-tokens", "0", "1 to"},
        {"--ttft-limits", "100ms,0,500ms", "at least 1ms"},
        {"--latency-limits", "1s,2s", "three times"},
        {"--aimd-start", "7", "8 to 64"},
        {"--aimd-start", "65", "8 to 64"},
        {"--urgent-joins", "yes", "on, off"},
        {"--ttft-limits", "100ms,300ms", "three times"},
        {"--ttft-limits", "1,2,3", "three times"},
        {"--class-shares", "70,20,11", "add up to 100"},
        {"--class-shares", "100,0,0", "at least 1"},
        {"--class-shares", "120,-30,10", "at least 1"},
        {"--class-shares", "70,30", "three whole numbers"},
        {"--class-shares", "40,30,20,10", "three whole numbers"},
        {"--class-shares", "70,20,", "three whole numbers"},
        {"--class-shares", "69.5,20.5,10", "three whole numbers"},
        {"--preempt-max-generated", "-2", "auto, or a whole number"},
        {"--preempt-max-generated", "all", "auto, or a whole number"},
        {"--policy", "lifo", "fcfs, sjf, length-balance, cache-aware, priority, fair"},
        {"--policy", "priority+priority", "different"},
        {"--policy", "fcfs+sjf+fair+priority", "two or three"},
        {"--policy", "fair+", "joined by '+'"},
        {"--policy", "", "joined by '+'"}}) {
    const std::string message = Parse({"serve", flag, value});
    EXPECT_THAT(message, HasSubstr(std::string(flag) + ":")) << value;
    EXPECT_THAT(message, HasSubstr(expected)) << value;
  }
}

TEST_F(EngineFlagsTest, ABatchFitsInWhatRunsAtOnce) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 8;
  for (const char* scheduler : {"static", "dynamic"}) {
    BatchingFlags flags;
    flags.scheduler = scheduler;
    flags.max_batch_size = 9;
    const Status status = ResolveBatching(flags, &options.scheduler);
    EXPECT_THAT(status.message(),
                HasSubstr("--max-batch-size: expected at most 8 (--max-num-seqs)"))
        << scheduler;
    flags.max_batch_size = 8;
    EXPECT_TRUE(ResolveBatching(flags, &options.scheduler).ok());
  }
  BatchingFlags preset;
  preset.preset = "latency";
  preset.max_batch_size = 9;
  EXPECT_FALSE(ResolveBatching(preset, &options.scheduler).ok());
  // The preset's 16 was not given, and continuous batching has no batch size.
  preset.preset = "throughput";
  preset.max_batch_size.reset();
  EXPECT_TRUE(ResolveBatching(preset, &options.scheduler).ok());
  EXPECT_EQ(options.scheduler.max_batch_size, 8);
  options.scheduler.strategy = "continuous";
  BatchingFlags size;
  size.max_batch_size = 9;
  EXPECT_TRUE(ResolveBatching(size, &options.scheduler).ok());
}

TEST_F(EngineFlagsTest, RunHasThoseOfManyPromptsAlone) {
  EXPECT_EQ(Parse({"run", "--scheduler", "static", "--max-batch-size", "4", "--policy", "sjf"}),
            "");
  EXPECT_EQ(run_.engine.batching.scheduler, "static");
  EXPECT_EQ(run_.engine.options.queue.policy, "sjf");
  EXPECT_GE(run_.engine.options.queue.max_wait, std::chrono::hours(24));
  EXPECT_NE(Parse({"run", "--max-wait", "1s"}), "");
}

TEST_F(EngineFlagsTest, AFileSaysTheSame) {
  const std::string file =
      fmt::format("{}scheduler_flags_test_{}.toml", testing::TempDir(), getpid());
  std::ofstream(file)
      << "[serve]\nscheduler = \"dynamic\"\nbatch-timeout = \"auto\"\n"
         "class-shares = \"60,30,10\"\nstrict-priority = true\npreempt-max-generated = 20\n"
         "policy = \"priority+sjf\"\nttft-limits = \"1s,2s,3s\"\n";
  EXPECT_EQ(Parse({"--config", file, "serve", "--policy", "fair"}), "");
  EXPECT_EQ(serve_.engine.batching.scheduler, "dynamic");
  EXPECT_LT(*serve_.engine.batching.batch_timeout, milliseconds(0));
  const EngineOptions& options = serve_.engine.options;
  EXPECT_EQ(options.queue.class_shares[0], 60);
  EXPECT_TRUE(options.queue.strict_priority);
  EXPECT_EQ(options.scheduler.preempt_max_generated, 20);
  EXPECT_EQ(options.queue.policy, "fair");
  EXPECT_EQ(options.queue.ttft_limits[2], milliseconds(3000));
  for (const auto& [line, says] :
       {std::tuple("preempt-max-generated = \"all\"", "auto, or a whole number"),
        {"preempt-max-generated = true", "an integer, or \"auto\""},
        {"class-shares = [70, 20, 10]", "must be a string"},
        {"policy = \"lifo\"", "--policy"}}) {
    std::ofstream(file) << "[serve]\n" << line << "\n";
    const std::string message = Parse({"--config", file, "serve"});
    EXPECT_THAT(message, HasSubstr(file + ":2:")) << line;
    EXPECT_THAT(message, HasSubstr(says)) << line;
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace ropeway::cli
