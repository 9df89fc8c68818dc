// The wiring diagram: the program's commands, and which parts they are made of.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "engine/llm_engine.h"
#include "engine/model_vocabulary.h"
#include "engine/open_engine.h"
#include "model/describe.h"
#include "model/gguf.h"
#include "server/http_server.h"
#include "tokenizer/tokenize_lines.h"

namespace ropeway {
namespace {

constexpr char kDefaultModel[] = "SmolLM2-135M-Instruct.Q4_1";
constexpr std::chrono::seconds kDrainTimeout(30);

// Prints one sentence for a person; the reply is the program's exit code.
int Fail(const std::string& sentence) {
  std::fputs(fmt::format("ropeway: {}\n", sentence).c_str(), stderr);
  return 1;
}

int Fail(const Status& status) { return Fail(status.message()); }

std::filesystem::path ModelFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = cache != nullptr && *cache != '\0'
                                         ? cache
                                         : std::filesystem::path(home ? home : ".") / ".cache";
  return base / "ropeway" / "models";
}

// A path stays as it is; a bare name is looked up among the fetched models.
std::string ResolveModel(const std::string& model) {
  std::error_code error;
  if (std::filesystem::exists(model, error) || model.find('/') != std::string::npos) return model;
  for (const char* ending : {"", ".gguf"}) {
    const std::filesystem::path path = ModelFolder() / (model + ending);
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return model;
}

struct ServeFlags {
  std::string model = kDefaultModel;
  EngineOptions engine;
  ServerOptions server;
  std::string log_level = "info";
};

struct TokenizeFlags {
  std::string model = kDefaultModel;
  std::string text;
  bool batch = false;
};

// Takes SIGTERM and SIGINT on a thread of its own: while the model loads one of them ends the
// process at once; later the first asks for the end, and a second one, while the first is being
// served, ends the process at once.
class EndSignals {
 public:
  // Call before any other thread starts: all of them inherit the mask that leaves these signals to
  // us.
  EndSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::thread([signals, state = state_] {
      int signal = 0;
      sigwait(&signals, &signal);
      if (!state->serving) _exit(0);
      state->first.set_value(signal);
      sigwait(&signals, &signal);
      _exit(1);
    }).detach();
  }

  // Blocks until the program is asked to end.
  void Wait() {
    const int signal = state_->first.get_future().get();
    spdlog::info("{}: no new requests; what runs may finish within {} s",
                 signal == SIGTERM ? "SIGTERM" : "SIGINT", kDrainTimeout.count());
  }

  void set_serving() { state_->serving = true; }

 private:
  struct State {
    std::atomic<bool> serving = false;
    std::promise<int> first;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // Outlived by its thread.
};

// Each connection takes a descriptor; the usual soft limit of 1,024 is below the server's own
// bound.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void PrintAddress(const ServeFlags& flags, uint16_t port, const std::string& model) {
  const bool ipv6 = flags.server.host.find(':') != std::string::npos;
  const std::string& host = flags.server.host;
  const std::string url = fmt::format("http://{}:{}", ipv6 ? "[" + host + "]" : host, port);
  std::fputs(fmt::format("Ropeway {} serves {} on {}\nTry:\n"
                         "  curl {}/v1/chat/completions -H 'Content-Type: application/json' -d "
                         "'{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is a "
                         "ropeway?\"}}], \"max_tokens\": 100}}'\n",
                         ROPEWAY_VERSION, model, url, url)
                 .c_str(),
             stdout);
  std::fflush(stdout);
}

int Serve(ServeFlags flags) {
  EndSignals end;
  signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();

  flags.engine.model_path = ResolveModel(flags.model);
  const RealClock clock;
  SystemRandom random;
  auto engine = OpenEngine(flags.engine, &clock, &random);
  if (!engine.ok()) return Fail(engine.status());
  HttpServer server(flags.server, engine->get());
  end.set_serving();
  if (Status status = server.Start(); !status.ok()) return Fail(status);
  PrintAddress(flags, server.port(), (*engine)->Models().front().id);

  end.Wait();
  server.StopAccepting();
  const Status drained = (*engine)->Drain(kDrainTimeout);
  if (!drained.ok()) spdlog::warn("{}", drained.message());
  server.Stop(std::chrono::seconds(2));
  return 0;
}

// The exit code of a command whose answer is its output: half of it is no success.
int EndOutput() {
  std::cout.flush();
  return std::cout.good() ? 0 : Fail("the output could not be written");
}

int Inspect(const std::string& path) {
  auto file = GgufFile::Open(ResolveModel(path));
  if (!file.ok()) return Fail(file.status());
  std::cout << DescribeGguf(**file);
  return EndOutput();
}

int Tokenize(const TokenizeFlags& flags) {
  auto file = GgufFile::Open(ResolveModel(flags.model));
  if (!file.ok()) return Fail(file.status());
  auto tokenizer = LoadTokenizer(**file);
  if (!tokenizer.ok()) return Fail(tokenizer.status());
  if (flags.batch) {
    std::ios::sync_with_stdio(false);
    const Status status = TokenizeLines(**tokenizer, std::cin, std::cout);
    return status.ok() ? EndOutput() : Fail(status);
  }
  const std::vector<TokenId> ids = (*tokenizer)->Encode(flags.text, {});
  std::cout << fmt::format("{}\n", fmt::join(ids, " "));
  return EndOutput();
}

void AddServe(CLI::App* app, ServeFlags* flags) {
  app->add_option("--model", flags->model, "GGUF file, or the name of a fetched model")
      ->capture_default_str();
  app->add_option("--served-model-name", flags->engine.served_model_name,
                  "Name of the model in the API (default: the file's name)");
  app->add_option("--host", flags->server.host, "Address to listen on")->capture_default_str();
  flags->server.port = 8080;
  app->add_option("--port", flags->server.port, "Port to listen on; 0 for any free one")
      ->capture_default_str();
  app->add_option("--threads", flags->engine.threads, "Compute threads (default: physical cores)")
      ->check(CLI::Range(1, 1024));
  app->add_option("--max-num-seqs", flags->engine.max_num_seqs, "Sequences that run at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app->add_option("--max-num-batched-tokens", flags->engine.max_num_batched_tokens,
                  "Tokens of one forward pass")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app->add_option(
         "--kv-cache-size", flags->engine.kv_cache_bytes,
         "Memory of the KV cache, such as 48MiB (default: a quarter of the free memory, at "
         "most 4 GiB)")
      ->transform(CLI::AsSizeValue(false));
  app->add_option("--max-model-len", flags->engine.max_model_len,
                  "Prompt plus output tokens of one request (default: the model's context length)")
      ->check(CLI::Range(2, 1 << 24));
  app->add_option("--max-queued-requests", flags->engine.max_queued_requests,
                  "Requests that wait; more are refused with 429")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app->add_option("--log-level", flags->log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
}

int Main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("ropeway"));
  CLI::App app("Ropeway serves language models to many users at once.", "ropeway");
  app.set_version_flag("--version", ROPEWAY_VERSION);
  app.require_subcommand(1);

  ServeFlags serve_flags;
  CLI::App* serve = app.add_subcommand("serve", "Serve a model over an OpenAI-compatible HTTP API");
  AddServe(serve, &serve_flags);

  std::string inspect_path;
  CLI::App* inspect = app.add_subcommand("inspect", "Show what is in a GGUF file");
  inspect->add_option("FILE", inspect_path, "GGUF file")->required();

  TokenizeFlags tokenize_flags;
  CLI::App* tokenize = app.add_subcommand("tokenize", "Print the token ids of a text");
  tokenize->add_option("--model", tokenize_flags.model, "GGUF file, or the name of a fetched model")
      ->capture_default_str();
  tokenize->add_option("TEXT", tokenize_flags.text, "The text");
  tokenize->add_flag("--batch", tokenize_flags.batch,
                     "Read JSON lines {\"text\": ...} or {\"base64\": ...} from standard input");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help and --version.
  } catch (const CLI::ParseError& e) {
    return Fail(fmt::format("{} (see ropeway --help)", e.what()));
  }
  if (*inspect) return Inspect(inspect_path);
  if (*tokenize) return Tokenize(tokenize_flags);
  spdlog::set_level(spdlog::level::from_str(serve_flags.log_level));
  return Serve(serve_flags);
}

}  // namespace
}  // namespace ropeway

int main(int argc, char** argv) {
  try {
    return ropeway::Main(argc, argv);
  } catch (const std::exception& e) {
    return ropeway::Fail(e.what());
  }
}
