#include "cli/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "flags/program.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class GatewayTest : public testing::Test {
 protected:
  GatewayTest() : file_(testing::TempDir() + "gateway_test_" + std::to_string(getpid()) + ".toml") {
    program_.name = "ropeway";
    program_.commands = {GatewayCommand(&flags_)};
  }
  ~GatewayTest() override { std::remove(file_.c_str()); }

  // The message of what is rejected, "" where nothing is.
  std::string Parse(std::vector<std::string> words) {
    words.insert(words.begin(), "gateway");
    return flags::ParseCommandLine(program_, words).status().message();
  }
  std::string ParseFile(const std::string& text) {
    std::ofstream(file_) << text;
    return Parse({"--config", file_});
  }

  // What Resolve says is wrong; `options_` otherwise.
  std::string Resolve() {
    StatusOr<GatewayOptions> options = ResolveGateway(&flags_);
    if (options.ok()) options_ = *std::move(options);
    return options.status().message();
  }

  const std::string file_;
  GatewayFlags flags_;
  GatewayOptions options_;
  flags::Program program_;
};

TEST_F(GatewayTest, TheDefaultsAreTheLibrarys) {
  ASSERT_EQ(Parse({"--backend", "http://127.0.0.1:8081"}), "");
  ASSERT_EQ(Resolve(), "");
  const GatewayOptions own;
  EXPECT_EQ(options_.batching.dispatch, own.batching.dispatch);
  EXPECT_EQ(options_.batching.enable_batching, own.batching.enable_batching);
  EXPECT_EQ(options_.batching.max_batch_size, own.batching.max_batch_size);
  EXPECT_EQ(options_.batching.max_batch_wait, own.batching.max_batch_wait);
  EXPECT_EQ(options_.batching.max_parallel_batches, own.batching.max_parallel_batches);
  EXPECT_EQ(options_.batch_control, own.batch_control);
  EXPECT_EQ(options_.queue.policy, own.queue.policy);
  EXPECT_EQ(options_.queue.class_shares, own.queue.class_shares);
  EXPECT_EQ(options_.queue.strict_priority, own.queue.strict_priority);
  EXPECT_EQ(options_.queue.max_wait, own.queue.max_wait);
  EXPECT_EQ(options_.queue.max_queued_requests, own.queue.max_queued_requests);
  EXPECT_EQ(options_.queue.max_queued_tokens, own.queue.max_queued_tokens);
  EXPECT_EQ(options_.queue.ttft_limits, own.queue.ttft_limits);
  EXPECT_EQ(options_.queue.latency_limits, own.queue.latency_limits);
  EXPECT_EQ(options_.sessions.state_path, "");
  EXPECT_EQ(options_.sessions.ttl, own.sessions.ttl);
  EXPECT_EQ(options_.sessions.max_stored, own.sessions.max_stored);
  EXPECT_EQ(options_.sessions.store_bytes, own.sessions.store_bytes);
  EXPECT_EQ(options_.failover.hold_timeout, milliseconds(0));
  EXPECT_FALSE(options_.strict);
  EXPECT_EQ(flags_.server.port, 8080);
  ASSERT_EQ(options_.models.size(), 1U);
  EXPECT_EQ(options_.models[0].name, "") << "as the backend calls it";
  ASSERT_EQ(options_.models[0].backends.size(), 1U);
  EXPECT_EQ(options_.models[0].backends[0].name, "127.0.0.1:8081");
  EXPECT_EQ(options_.models[0].backends[0].kind, "openai");
  EXPECT_EQ(options_.models[0].backends[0].upstream_model, "");
}

TEST_F(GatewayTest, EveryFlagReachesItsOption) {
  ASSERT_EQ(Parse({"--backend",
                   "http://127.0.0.1:8081",
                   "--strict",
                   "--hold-timeout",
                   "1s",
                   "--backend-idle-timeout",
                   "2s",
                   "--backend-first-byte-timeout",
                   "3s",
                   "--backend-connect-timeout",
                   "4s",
                   "--probe-interval",
                   "5s",
                   "--max-retries",
                   "6",
                   "--max-resumptions",
                   "7",
                   "--dispatch",
                   "batch",
                   "--enable-batching",
                   "off",
                   "--max-batch-size",
                   "8",
                   "--max-batch-wait",
                   "9ms",
                   "--max-parallel-batches",
                   "10",
                   "--batch-control",
                   "memory",
                   "--max-concurrency",
                   "11",
                   "--policy",
                   "sjf",
                   "--class-shares",
                   "50,30,20",
                   "--strict-priority",
                   "--max-wait",
                   "12s",
                   "--max-queued-tokens",
                   "13",
                   "--max-queued-requests",
                   "14",
                   "--request-timeout",
                   "15s",
                   "--state-path",
                   "s",
                   "--session-ttl",
                   "90s",
                   "--max-sessions",
                   "21",
                   "--session-store-size",
                   "22MiB",
                   "--session-fsync",
                   "on",
                   "--ttft-limits",
                   "1ms,2s,3m",
                   "--latency-limits",
                   "4s,5s,6s",
                   "--port",
                   "16",
                   "--max-connections",
                   "17",
                   "--tls-cert",
                   "c",
                   "--drain-timeout",
                   "18s",
                   "--kv-cache-size",
                   "19MiB",
                   "--threads",
                   "20",
                   "--log-level",
                   "warn"}),
            "");
  ASSERT_EQ(Resolve(), "");
  EXPECT_TRUE(options_.strict);
  EXPECT_EQ(options_.failover.hold_timeout, milliseconds(1000));
  EXPECT_EQ(options_.failover.idle_timeout, milliseconds(2000));
  EXPECT_EQ(options_.failover.first_byte_timeout, milliseconds(3000));
  EXPECT_EQ(options_.connect_timeout, milliseconds(4000));
  EXPECT_EQ(options_.probe_interval, milliseconds(5000));
  EXPECT_EQ(options_.failover.max_retries, 6);
  EXPECT_EQ(options_.failover.max_resumptions, 7);
  EXPECT_EQ(options_.batching.dispatch, "batch");
  EXPECT_FALSE(options_.batching.enable_batching);
  EXPECT_EQ(options_.batching.max_batch_size, 8);
  EXPECT_EQ(options_.batching.max_batch_wait, milliseconds(9));
  EXPECT_EQ(options_.batching.max_parallel_batches, 10);
  EXPECT_EQ(options_.batch_control, "memory");
  EXPECT_EQ(options_.max_learned_concurrency, 11);
  EXPECT_EQ(options_.queue.policy, "sjf");
  EXPECT_THAT(options_.queue.class_shares, ElementsAre(50, 30, 20));
  EXPECT_TRUE(options_.queue.strict_priority);
  EXPECT_EQ(options_.queue.max_wait, milliseconds(12'000));
  EXPECT_EQ(options_.queue.max_queued_tokens, 13);
  EXPECT_EQ(options_.queue.max_queued_requests, 14);
  EXPECT_EQ(options_.request_timeout, milliseconds(15'000));
  EXPECT_EQ(options_.sessions.state_path, "s");
  EXPECT_EQ(options_.sessions.ttl, std::chrono::seconds(90));
  EXPECT_EQ(options_.sessions.max_stored, 21);
  EXPECT_EQ(options_.sessions.store_bytes, 22 << 20);
  EXPECT_TRUE(options_.sessions.fsync);
  EXPECT_EQ(options_.queue.ttft_limits[2], milliseconds(180'000));
  EXPECT_EQ(options_.queue.latency_limits[0], milliseconds(4000));
  EXPECT_EQ(flags_.server.port, 16);
  EXPECT_EQ(flags_.server.limits.max_connections, 17);
  EXPECT_EQ(flags_.server.tls_cert, "c");
  EXPECT_EQ(flags_.drain_timeout, milliseconds(18'000));
  EXPECT_EQ(flags_.engine.options.cache.kv_bytes, 19 << 20);
  EXPECT_EQ(flags_.engine.options.threads, 20);
  EXPECT_EQ(flags_.engine.log.level, "warn");
}

TEST_F(GatewayTest, BackendsOfOneModelAreItsReplicas) {
  ASSERT_EQ(Parse({"--backend", "http://a:1,kind=ropeway,model=m,alias=x,alias=y,weight=2",
                   "--backend", "http://b:1,kind=ollama,model=k,upstream=k:1b", "--backend",
                   "https://c,kind=ropeway,model=m,alias=x,max-concurrency=5,min-concurrency=2,"
                   "insecure=true",
                   "--backend", "local:file.gguf,model=m,name=here"}),
            "");
  ASSERT_EQ(Resolve(), "");
  ASSERT_EQ(options_.models.size(), 2U);
  const GatewayModel& first = options_.models[0];
  EXPECT_EQ(first.name, "m");
  EXPECT_THAT(first.aliases, ElementsAre("x", "y"));
  ASSERT_EQ(first.backends.size(), 3U);
  EXPECT_EQ(first.backends[0].url, "http://a:1");
  EXPECT_EQ(first.backends[0].kind, "ropeway");
  EXPECT_EQ(first.backends[0].weight, 2.0);
  EXPECT_EQ(first.backends[0].upstream_model, "");
  EXPECT_EQ(first.backends[1].name, "c");
  EXPECT_EQ(first.backends[1].max_concurrency, 5);
  EXPECT_EQ(first.backends[1].min_concurrency, 2);
  EXPECT_TRUE(first.backends[1].insecure);
  EXPECT_EQ(first.backends[2].name, "here");
  EXPECT_EQ(first.backends[2].url, "") << "an engine of this process, which is opened later";
  const GatewayModel& second = options_.models[1];
  EXPECT_EQ(second.name, "k");
  EXPECT_EQ(second.backends[0].upstream_model, "k:1b");
}

TEST_F(GatewayTest, TheSameInTheConfigurationFile) {
  ASSERT_EQ(ParseFile(R"(
[gateway]
port = 9000
dispatch = "batch"
max-batch-wait = "20ms"

[[gateway.backend]]
url = "http://a:1"
kind = "ropeway"
model = "m"
alias = ["x", "y"]
weight = 2

[[gateway.backend]]
url = "https://b"
model = "m"
max-concurrency = 5
min-concurrency = 2
insecure = true
)"),
            "");
  ASSERT_EQ(Resolve(), "");
  EXPECT_EQ(flags_.server.port, 9000);
  EXPECT_EQ(options_.batching.dispatch, "batch");
  EXPECT_EQ(options_.batching.max_batch_wait, milliseconds(20));
  ASSERT_EQ(options_.models.size(), 1U);
  EXPECT_THAT(options_.models[0].aliases, ElementsAre("x", "y"));
  ASSERT_EQ(options_.models[0].backends.size(), 2U);
  EXPECT_EQ(options_.models[0].backends[0].weight, 2.0);
  EXPECT_EQ(options_.models[0].backends[1].max_concurrency, 5);
  EXPECT_EQ(options_.models[0].backends[1].min_concurrency, 2);
  EXPECT_TRUE(options_.models[0].backends[1].insecure);
}

TEST_F(GatewayTest, WhatIsWrongInTheFileNamesItsLine) {
  EXPECT_THAT(ParseFile("[gateway]\nbackend = [\"http://a:1,kind=vllm\"]\n"),
              testing::AllOf(HasSubstr(file_ + ":2: --backend: 'http://a:1': kind must be"),
                             HasSubstr("'vllm'")));
  EXPECT_THAT(ParseFile("[[gateway.backend]]\nurl = \"http://a:1\"\nweight = 0\n"),
              HasSubstr("weight must be a number"));
  EXPECT_THAT(ParseFile("[[gateway.backend]]\nkind = \"ollama\"\n"), HasSubstr("has no 'url'"));
  EXPECT_THAT(ParseFile("[[gateway.backend]]\nurl = \"http://a:1\"\nurls = 1\n"),
              HasSubstr("one of the keys"));
}

TEST_F(GatewayTest, WhatIsWrongNamesTheFlagAndWhatWasExpected) {
  for (const auto& [flag, value, expected] :
       {std::tuple("--backend", "http://a:1,kind=x", "kind must be"),
        {"--backend", "nowhere", "begins with neither"},
        {"--backend", "", "begins with neither"},
        {"--dispatch", "x", "continuous, batch"},
        {"--enable-batching", "yes", "on, off"},
        {"--max-batch-size", "0", "1 to"},
        {"--max-batch-wait", "50", "30s"},
        {"--max-parallel-batches", "0", "1 to"},
        {"--batch-control", "fixed", "aimd, memory"},
        {"--max-concurrency", "0", "1 to"},
        {"--hold-timeout", "soon", "30s"},
        {"--backend-idle-timeout", "60", "30s"},
        {"--probe-interval", "0", "at least 1ms"},
        {"--max-retries", "101", "0 to 100"},
        {"--policy", "x", "fcfs"}}) {
    const std::string message = Parse({flag, value});
    EXPECT_THAT(message, HasSubstr(flag));
    EXPECT_THAT(message, HasSubstr(expected)) << value;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST_F(GatewayTest, WhatCannotBeStartedIsNamed) {
  EXPECT_THAT(Resolve(), HasSubstr("--backend is required"));
  ASSERT_EQ(Parse({"--backend", "http://a:1,name=n", "--backend", "http://b:1,name=n"}), "");
  EXPECT_THAT(Resolve(), HasSubstr("'n' is given twice"));
  unsetenv("GATEWAY_TEST_KEY");
  ASSERT_EQ(Parse({"--backend", "http://a:1,key-env=GATEWAY_TEST_KEY"}), "");
  EXPECT_THAT(Resolve(), HasSubstr("GATEWAY_TEST_KEY"));
  setenv("GATEWAY_TEST_KEY", "hush-hush", 1);
  EXPECT_EQ(Resolve(), "");
  EXPECT_EQ(options_.models[0].backends[0].api_key, "hush-hush");
  unsetenv("GATEWAY_TEST_KEY");
}

TEST_F(GatewayTest, EachStreamMayTakeADescriptorForItsBackendToo) {
  ASSERT_EQ(Parse({"--backend", "http://a:1,max-concurrency=300", "--backend", "http://b:1",
                   "--backend", "local:m,name=here", "--max-concurrency", "200"}),
            "");
  ASSERT_EQ(Resolve(), "");
  const DescriptorsBehind behind = GatewayDescriptors(options_);
  EXPECT_GE(behind.upstream, 500);
  EXPECT_LE(behind.upstream, 520);
  options_.sessions.state_path = "state";
  EXPECT_GT(GatewayDescriptors(options_).fixed, behind.fixed) << "for the files of sessions";
  server::ServerOptions server;
  server.limits.max_connections = 9000;
  EXPECT_TRUE(FitFront(1 << 20, behind, &server).ok());
  EXPECT_EQ(server.limits.max_connections, 9000);
  EXPECT_TRUE(FitFront(9000, behind, &server).ok());
  EXPECT_LE(server.limits.max_connections, 9000 - behind.upstream);
  EXPECT_GT(server.limits.max_connections, 8000);
  // Where there are few, no more connections to backends are open than connections of clients.
  server.limits.max_connections = 9000;
  EXPECT_TRUE(FitFront(1024, behind, &server).ok());
  EXPECT_LT(2 * server.limits.max_connections, 1024);
  EXPECT_GT(2 * server.limits.max_connections, 512);
  const Status few = FitFront(128, behind, &server);
  EXPECT_EQ(few.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(few.message(), HasSubstr("ulimit -Hn"));
}

TEST_F(GatewayTest, KeysAreInNoMessageAndNoHelp) {
  setenv("GATEWAY_TEST_KEY", "hush-hush", 1);
  ASSERT_EQ(Parse({"--backend", "http://a:1,key-env=GATEWAY_TEST_KEY"}), "");
  EXPECT_THAT(flags::HelpText(program_, {&program_.commands[0]}), Not(HasSubstr("hush-hush")));
  EXPECT_THAT(Parse({"--backend", "http://user:hush-hush@a:1"}), Not(HasSubstr("hush-hush")));
  unsetenv("GATEWAY_TEST_KEY");
}

}  // namespace
}  // namespace ropeway::cli
