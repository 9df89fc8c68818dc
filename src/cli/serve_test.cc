#include "cli/serve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <tuple>

#include "cli/gateway.h"
#include "cli/run_flags.h"
#include "flags/program.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class ServeTest : public testing::Test {
 protected:
  ServeTest() {
    program_.name = "ropeway";
    program_.commands = {ServeCommand(&flags_)};
  }

  // The message of what is rejected, "" where nothing is.
  std::string Parse(const std::vector<std::string>& words) {
    return flags::ParseCommandLine(program_, words).status().message();
  }

  ServeFlags flags_;
  flags::Program program_;
};

TEST_F(ServeTest, EveryFlagReachesItsOption) {
  ASSERT_EQ(Parse({"serve",  "--model",
                   "m",      "--threads",
                   "3",      "--kv-cache-size",
                   "48MiB",  "--kv-cache-dtype",
                   "q8_0",   "--max-num-seqs",
                   "5",      "--max-num-batched-tokens",
                   "6",      "--max-model-len",
                   "7",      "--max-queued-requests",
                   "8",      "--frontend-threads",
                   "9",      "--request-timeout",
                   "10s",    "--served-model-name",
                   "n",      "--host",
                   "::1",    "--port",
                   "11",     "--io-threads",
                   "12",     "--keep-alive-interval",
                   "13s",    "--drain-timeout",
                   "14s",    "--max-body-size",
                   "15KiB",  "--max-bodies-size",
                   "16KiB",  "--max-answers-size",
                   "25KiB",  "--max-connections",
                   "17",     "--max-choices",
                   "18",     "--header-timeout",
                   "19s",    "--body-timeout",
                   "20s",    "--idle-timeout",
                   "21s",    "--write-timeout",
                   "22s",    "--max-header-size",
                   "2KiB",   "--max-stream-size",
                   "3KiB",   "--helper-threads",
                   "4",      "--tls-cert",
                   "c",      "--tls-key",
                   "k",      "--admin-key",
                   "a",      "--prefix-caching",
                   "off",    "--preempt-checkpoint",
                   "always", "--kv-disk-path",
                   "d",      "--kv-disk-size",
                   "23GiB",  "--kv-disk-write-rate",
                   "24MiB/s"}),
            "");
  const EngineOptions& engine = flags_.engine.options;
  EXPECT_EQ(flags_.engine.model, "m");
  EXPECT_EQ(engine.threads, 3);
  EXPECT_EQ(engine.cache.kv_bytes, 48 << 20);
  EXPECT_EQ(engine.cache.kv_dtype, "q8_0");
  EXPECT_EQ(engine.scheduler.max_num_seqs, 5);
  EXPECT_EQ(engine.scheduler.max_num_batched_tokens, 6);
  EXPECT_EQ(engine.model.max_model_len, 7);
  EXPECT_EQ(engine.queue.max_queued_requests, 8);
  EXPECT_EQ(engine.frontend_threads, 9);
  EXPECT_EQ(engine.request_timeout, milliseconds(10000));
  EXPECT_THAT(flags_.names, testing::ElementsAre("n"));
  EXPECT_FALSE(engine.cache.prefix_caching);
  EXPECT_EQ(engine.cache.preempt_checkpoint, "always");
  EXPECT_EQ(engine.cache.disk_path, "d");
  EXPECT_EQ(engine.cache.disk_bytes, int64_t{23} << 30);
  EXPECT_EQ(engine.cache.disk_write_rate, 24 << 20);
  const server::ServerOptions& server = flags_.server;
  EXPECT_EQ(server.host, "::1");
  EXPECT_EQ(server.port, 11);
  EXPECT_EQ(server.io_threads, 12);
  EXPECT_EQ(server.limits.keep_alive_interval, milliseconds(13000));
  EXPECT_EQ(flags_.drain_timeout, milliseconds(14000));
  EXPECT_EQ(server.limits.max_body_bytes, 15u << 10);
  EXPECT_EQ(server.limits.max_bodies_bytes, 16u << 10);
  EXPECT_EQ(server.limits.max_answers_bytes, 25u << 10);
  EXPECT_EQ(server.limits.max_connections, 17);
  EXPECT_EQ(server.limits.body.max_choices, 18);
  EXPECT_EQ(server.limits.header_timeout, milliseconds(19000));
  EXPECT_EQ(server.limits.body_timeout, milliseconds(20000));
  EXPECT_EQ(server.limits.idle_timeout, milliseconds(21000));
  EXPECT_EQ(server.limits.write_timeout, milliseconds(22000));
  EXPECT_EQ(server.limits.max_header_bytes, 2u << 10);
  EXPECT_EQ(server.limits.max_stream_bytes, 3u << 10);
  EXPECT_EQ(server.limits.helper_threads, 4);
  EXPECT_EQ(server.tls_cert, "c");
  EXPECT_EQ(server.tls_key, "k");
  EXPECT_EQ(server.admin_key, "a");
}

TEST_F(ServeTest, FlagsOfStateAndTraceReachTheirOptions) {
  ASSERT_EQ(Parse({"serve", "--state-path", "s", "--session-ttl", "90s", "--max-sessions", "2",
                   "--session-store-size", "3MiB", "--session-fsync", "on", "--trace-file", "t"}),
            "");
  const EngineOptions& engine = flags_.engine.options;
  EXPECT_EQ(engine.sessions.state_path, "s");
  EXPECT_EQ(engine.sessions.ttl, std::chrono::seconds(90));
  EXPECT_EQ(engine.sessions.max_stored, 2);
  EXPECT_EQ(engine.sessions.store_bytes, 3 << 20);
  EXPECT_TRUE(engine.sessions.fsync);
  EXPECT_EQ(engine.trace_file, "t");
}

TEST_F(ServeTest, WhatIsWrongNamesTheFlagAndWhatWasExpected) {
  for (const auto& [flag, value, expected] : {std::tuple("--port", "70000", "0 to 65535"),
                                              {"--port", "80x", "whole number"},
                                              {"--threads", "-3", "1 to 1024"},
                                              {"--drain-timeout", "30", "30s"},
                                              {"--header-timeout", "0", "at least 1ms"},
                                              {"--kv-cache-size", "lots", "48MiB"},
                                              {"--kv-cache-dtype", "x", "f16, q8_0"},
                                              {"--max-body-size", "0", "at least 1"},
                                              {"--prefix-caching", "yes", "on, off"},
                                              {"--preempt-checkpoint", "x", "pressure, always"},
                                              {"--kv-disk-size", "0", "at least 1"},
                                              {"--kv-disk-write-rate", "20MiB", "20MiB/s"},
                                              {"--kv-disk-write-rate", "0/s", "auto"},
                                              {"--kv-disk-write-rate", "-1/s", "auto"},
                                              {"--session-ttl", "10ms", "at least 1s"},
                                              {"--max-sessions", "0", "1 to"},
                                              {"--session-store-size", "1KiB", "at least 1MiB"},
                                              {"--api-keys", "", "expected a value, not ''"},
                                              {"--admin-key", "", "expected a value, not ''"},
                                              {"--static-flush", "0", "at least 1ms"},
                                              {"--log-level", "loud", "debug, info"}}) {
    const std::string message = Parse({"serve", flag, value});
    EXPECT_THAT(message, HasSubstr(flag));
    EXPECT_THAT(message, HasSubstr(expected));
  }
}

TEST_F(ServeTest, TheDefaultsOfTheKvMemory) {
  ASSERT_EQ(Parse({"serve", "--prefix-caching", "on", "--kv-disk-write-rate", "auto"}), "");
  const EngineOptions& engine = flags_.engine.options;
  EXPECT_TRUE(engine.cache.prefix_caching);
  EXPECT_EQ(engine.cache.preempt_checkpoint, "pressure");
  EXPECT_EQ(engine.cache.disk_path, "");
  EXPECT_EQ(engine.cache.disk_bytes, int64_t{8} << 30);
  EXPECT_EQ(engine.cache.disk_write_rate, 0);
}

TEST_F(ServeTest, KeysOfBothKindsAreNamed) {
  const std::string file = testing::TempDir() + fmt::format("serve_flags_test_{}.toml", getpid());
  std::ofstream(file) << "[[keys]]\nname = 'team-a'\nkey = 'key-of-team-a'\n";
  ASSERT_EQ(
      Parse({"serve", "--api-key", "first-key", "--api-key", "second-key", "--api-keys", file}),
      "");
  const auto options = ResolveServer(flags_);
  std::remove(file.c_str());
  ASSERT_TRUE(options.ok()) << options.status().message();
  ASSERT_EQ(options->api_keys.size(), 3u);
  EXPECT_EQ(options->api_keys[0].name, "default");
  EXPECT_EQ(options->api_keys[1].name, "default-2");
  EXPECT_EQ(options->api_keys[1].key, "second-key");
  EXPECT_EQ(options->api_keys[2].name, "team-a");
}

TEST_F(ServeTest, AnEmptyHostAndAnEmptyKeyOfTheEnvironmentOpenNothing) {
  ASSERT_EQ(Parse({"serve", "--host", ""}), "");
  EXPECT_THAT(ResolveServer(flags_).status().message(), HasSubstr("--host"));
  flags_.server.host = "127.0.0.1";
  setenv("ROPEWAY_API_KEY", "", 1);
  const Status rejected = ResolveServer(flags_).status();
  flags_.api_keys = {"a-key-of-its-own"};
  const bool with_another = ResolveServer(flags_).ok();
  unsetenv("ROPEWAY_API_KEY");
  EXPECT_THAT(rejected.message(), HasSubstr("ROPEWAY_API_KEY is set but empty"));
  EXPECT_TRUE(with_another);
}

TEST_F(ServeTest, KeysThatOthersCanReadAreNamed) {
  const std::string file =
      testing::TempDir() + fmt::format("serve_flags_test_mode_{}.toml", getpid());
  std::ofstream(file) << "x";
  flags_.api_keys_file = file;
  ASSERT_EQ(chmod(file.c_str(), 0604), 0);
  EXPECT_EQ(SecretsOthersCanRead(flags_), std::vector<std::string>{file});
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  EXPECT_TRUE(SecretsOthersCanRead(flags_).empty());
  flags_.server.tls_key = "/no/such/file";
  EXPECT_TRUE(SecretsOthersCanRead(flags_).empty());
  std::remove(file.c_str());
}

// Before the model is loaded, which may take long.
TEST_F(ServeTest, TlsNeedsTheCertificateAndItsKey) {
  EXPECT_THAT(Parse({"serve", "--tls-cert", "", "--tls-key", ""}),
              HasSubstr("--tls-cert: expected a value, not ''"));
  EXPECT_THAT(Parse({"serve", "--tls-key", ""}), HasSubstr("--tls-key: expected a value"));
  flags_.server.tls_cert = "a";
  EXPECT_EQ(ResolveServer(flags_).status().message(), "--tls-key is required with --tls-cert");
  flags_.server = {};
  flags_.server.tls_key = "b";
  EXPECT_EQ(ResolveServer(flags_).status().message(), "--tls-cert is required with --tls-key");
  flags_.server.tls_cert = "a";
  EXPECT_TRUE(ResolveServer(flags_).ok());
}

TEST_F(ServeTest, ProxiesAreAddressesOrNetworks) {
  ASSERT_EQ(Parse({"serve", "--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "::1"}), "");
  EXPECT_EQ(ResolveServer(flags_)->trusted_proxies,
            (std::vector<std::string>{"10.0.0.0/8", "::1"}));
  flags_.server.trusted_proxies = {"proxy.example"};
  const std::string message = ResolveServer(flags_).status().message();
  EXPECT_THAT(message, HasSubstr("--trusted-proxy: expected an address"));
  EXPECT_THAT(message, HasSubstr("'proxy.example'"));
}

TEST_F(ServeTest, OriginsAndHostsAreLists) {
  ASSERT_EQ(Parse({"serve", "--cors-origins", "https://a.example,http://b.example:81",
                   "--allowed-hosts", "a.example,192.0.2.7"}),
            "");
  const server::ServerOptions options = *ResolveServer(flags_);
  EXPECT_THAT(options.cors_origins,
              testing::ElementsAre("https://a.example", "http://b.example:81"));
  EXPECT_THAT(options.allowed_hosts, testing::ElementsAre("a.example", "192.0.2.7"));
  flags_.server.cors_origins = {"https://a.example", ""};
  EXPECT_THAT(ResolveServer(flags_).status().message(), HasSubstr("--cors-origins: expected orig"));
  flags_.server.cors_origins = {};
  flags_.server.allowed_hosts = {"http://a.example"};
  EXPECT_THAT(ResolveServer(flags_).status().message(), HasSubstr("--allowed-hosts: expected nam"));
}

TEST_F(ServeTest, ConnectionsAreLoweredToTheDescriptors) {
  EngineOptions engine;
  server::ServerOptions options;
  server::ServerLimits& limits = options.limits;
  EXPECT_TRUE(FitDescriptors(1 << 20, engine, &options).ok());
  EXPECT_EQ(limits.max_connections, 4096);
  EXPECT_TRUE(FitDescriptors(1024, engine, &options).ok());
  const int alone = limits.max_connections;
  EXPECT_LT(alone, 1024 - 64);
  EXPECT_GT(alone, 512);
  options.io_threads = 64;
  limits = {};
  EXPECT_TRUE(FitDescriptors(1024, engine, &options).ok());
  EXPECT_LE(limits.max_connections, alone - 63 * 3) << "each event loop has three";
  options.io_threads = 1;
  engine.cache.disk_path = "d";
  engine.sessions.state_path = "s";
  limits = {};
  EXPECT_TRUE(FitDescriptors(1024, engine, &options).ok());
  EXPECT_LT(limits.max_connections, alone) << "RocksDB needs some";
  const int with_disk = limits.max_connections;
  engine.cache.events_address = "5557";
  limits = {};
  EXPECT_TRUE(FitDescriptors(2048, engine, &options).ok());
  EXPECT_LE(limits.max_connections, with_disk + 1024 - 64) << "readers of events need some";
  engine.cache.events_address = "";
  limits = {};
  const Status few = FitDescriptors(64, engine, &options);
  EXPECT_EQ(few.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(few.message(), HasSubstr("64 open files"));
  EXPECT_THAT(few.message(), HasSubstr("ulimit -Hn"));
  limits.max_connections = 2;  // A server of few connections is not asked for more.
  EXPECT_TRUE(FitDescriptors(900, engine, &options).ok());
  EXPECT_EQ(limits.max_connections, 2);
}

TEST_F(ServeTest, NoRequestMayHaveMoreChoicesThanMayWait) {
  ASSERT_EQ(Parse({"serve", "--max-queued-requests", "5", "--max-choices", "18"}), "");
  EXPECT_EQ(ResolveServer(flags_)->limits.body.max_choices, 5);
}

TEST_F(ServeTest, TheBannersRequestFitsTheModelAndReachesTheServer) {
  server::ServerOptions options;
  options.host = "127.0.0.1";
  EXPECT_EQ(Banner(options, 80, "m", Asks::kChats),
            "Ropeway " ROPEWAY_VERSION
            " serves m on http://127.0.0.1:80\nTry:\n  curl "
            "http://127.0.0.1:80/v1/chat/completions -H 'Content-Type: application/json' -d "
            "'{\"messages\": [{\"role\": \"user\", \"content\": \"What is a ropeway?\"}], "
            "\"max_tokens\": 100}'\n");
  options.host = "0.0.0.0";
  options.api_keys = {{"a", "secret-of-a"}};
  options.tls_cert = "cert.pem";
  const std::string all = Banner(options, 8443, "m", Asks::kTexts);
  EXPECT_THAT(all, HasSubstr("serves m on https://0.0.0.0:8443\n"));
  EXPECT_THAT(all,
              HasSubstr("  curl https://127.0.0.1:8443/v1/completions -H 'Authorization: Bearer "
                        "YOUR_KEY' -H 'Content-Type: application/json' -d '{\"prompt\": \"A "
                        "ropeway is\", \"max_tokens\": 100}'\n"));
  options.host = "::";
  EXPECT_THAT(Banner(options, 1, "m", Asks::kChats), HasSubstr("curl https://[::1]:1/v1/"));
  EXPECT_THAT(Banner(options, 1, "m", Asks::kEmbeddings),
              testing::EndsWith("-d '{\"input\": \"What is a ropeway?\"}'\n"));
}

TEST_F(ServeTest, TheModelMayHaveSeveralNames) {
  EXPECT_EQ(Parse({"serve", "--served-model-name", "a", "--alias", "b", "--alias", "a"}), "");
  EXPECT_THAT(flags_.names, testing::ElementsAre("a", "b"));
  EXPECT_THAT(Parse({"serve", "--served-model-name", ""}), HasSubstr("names of 1 to 256 bytes"));
  std::vector<std::string> many = {"serve"};
  for (int i = 0; i < 17; ++i) {
    many.insert(many.end(), {"--served-model-name", "n" + std::to_string(i)});
  }
  EXPECT_THAT(Parse(many), HasSubstr("--served-model-name: expected at most 16 names, not 17"));
}

TEST_F(ServeTest, AnyNameIsTakenByItselfOnlyWhereNoStrangerAsks) {
  server::ServerOptions options;
  options.host = "127.0.0.1";
  EXPECT_TRUE(ServesAnyModel("auto", options));
  EXPECT_FALSE(ServesAnyModel("off", options));
  options.api_keys = {{"a", "secret-of-a"}};
  EXPECT_FALSE(ServesAnyModel("auto", options));
  EXPECT_TRUE(ServesAnyModel("on", options));
  options.api_keys.clear();
  options.host = "0.0.0.0";
  EXPECT_FALSE(ServesAnyModel("auto", options));
}

TEST_F(ServeTest, RequestsPullModelsOnlyWhereNoStrangerAsks) {
  server::ServerOptions options;
  options.host = "127.0.0.1";
  EXPECT_TRUE(CheckAllowPull(options).ok());
  server::ServerOptions reachable = options;
  reachable.host = "0.0.0.0";
  server::ServerOptions behind = options;
  behind.trusted_proxies = {"127.0.0.1"};
  server::ServerOptions keyed = options;
  keyed.api_keys = {{"a", "secret-of-a"}};
  for (server::ServerOptions* other : {&reachable, &behind, &keyed}) {
    const Status status = CheckAllowPull(*other);
    EXPECT_EQ(status.field(), "allow_pull");
    EXPECT_THAT(status.message(), testing::HasSubstr("--admin-key"));
    other->admin_key = "the-admins-key";
    EXPECT_TRUE(CheckAllowPull(*other).ok());
  }
}

// What --help shows is there, and few enough to be read.
TEST(FirstFlagsTest, AreFlagsOfTheirCommand) {
  ServeFlags serve;
  GatewayFlags gateway;
  RunFlags run;
  for (const flags::Command& command :
       {ServeCommand(&serve), GatewayCommand(&gateway), RunCommand(&run)}) {
    std::set<std::string> names;
    for (const flags::FlagGroup& group : command.flags) {
      for (const flags::Flag& flag : group.flags) names.insert(flags::MainName(flag));
    }
    EXPECT_LE(command.first.size(), 22U) << command.name;
    EXPECT_GT(names.size(), command.first.size()) << command.name;
    for (const std::string& name : command.first) EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST_F(ServeTest, UnderstandsTheNamesOfOtherServers) {
  EXPECT_EQ(Parse({"serve", "-c", "1024", "-np", "3", "--alias", "m"}), "");
  EXPECT_EQ(flags_.engine.options.model.max_model_len, 1024);
  EXPECT_EQ(flags_.engine.options.scheduler.max_num_seqs, 3);
  EXPECT_THAT(flags_.names, testing::ElementsAre("m"));
  EXPECT_EQ(Parse({"serve", "--ctx-size=512", "--parallel", "5"}), "");
  EXPECT_EQ(flags_.engine.options.model.max_model_len, 512);
  EXPECT_EQ(flags_.engine.options.scheduler.max_num_seqs, 5);
}

}  // namespace
}  // namespace ropeway::cli
