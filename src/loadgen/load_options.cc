#include "loadgen/load_options.h"

#include <fmt/format.h>

#include <array>

namespace ropeway::loadgen {
flags::Command BenchServeCommand(BenchServeFlags* f) {
  flags::Command command;
  command.name = "serve";
  command.description =
      "Put load on an OpenAI-compatible server and print latencies and throughput";
  command.flags = {
      {"Server",
       {{"--base-url", flags::TextValue(&f->base_url, "URL"),
         "The server: http://HOST:PORT, with or without /v1"},
        {"--model", flags::TextValue(&f->model, "NAME").Default("the first of /v1/models"),
         "Model to request"},
        {"--endpoint", flags::ChoiceValue(&f->endpoint, {"completions", "chat"}),
         "Endpoint of the API: completions or chat"},
        {"--api-key", flags::TextValue(&f->api_key, "KEY").Environment("ROPEWAY_API_KEY"),
         "API key, sent as a bearer token"},
        {"--client-keys", flags::TextValue(&f->client_keys, "FILE"),
         "File with the keys of a trace's clients 0, 1, ..., one per line"},
        {"--insecure", flags::SwitchValue(&f->insecure), "Accept any certificate (https)"}}},
      {"Load",
       {{"--users", flags::IntValue(&f->users, 0, 10'000).Default("1"),
         "Closed loop: number of users; each sends its next request when its answer is complete"},
        {"--request-rate", flags::NumberValue(&f->request_rate, 0, 100'000).Default("closed loop"),
         "Open loop: requests per second on average, at random (Poisson) times"},
        {"--max-concurrency", flags::IntValue(&f->max_concurrency, 0, 10'000).Default("no limit"),
         "Maximum requests in flight; the others wait for their turn"},
        {"--num-prompts", flags::IntValue(&f->num_prompts, 1, 1'000'000),
         "Requests or conversations per run"},
        {"--runs", flags::IntValue(&f->runs, 1, 1'000),
         "Number of runs, each with different random prompts"},
        {"--warmup", flags::IntValue(&f->warmup, 0, 1'000'000),
         "Requests before the first run, not counted in any metric"},
        {"--duration", flags::NumberValue(&f->duration, 0, 86'400).Default("no limit"),
         "Seconds after which a run sends no more requests"},
        {"--think-time", flags::NumberValue(&f->think_time, 0, 86'400),
         "Conversations: mean seconds from an answer to the next message"},
        {"--user-interval", flags::NumberValue(&f->user_interval, 0, 86'400),
         "Conversations: seconds between the first messages of two users"},
        {"--timeout", flags::NumberValue(&f->timeout, 0.001, 86'400),
         "Timeout of one request, in seconds to the end of its answer"},
        {"--retries", flags::IntValue(&f->retries, 0, 1'000),
         "How many times a rejected request is sent again, each time after its Retry-After"}}},
      {"Prompts",
       {{"--input-tokens", flags::IntValue(&f->input_tokens, 1, 1'000'000),
         "Length of the random prompts, in tokens"},
        {"--output-tokens", flags::IntValue(&f->output_tokens, 1, 1'000'000),
         "Tokens to generate for each prompt"},
        {"--dataset", flags::TextValue(&f->dataset, "FILE"),
         R"(File of prompts, instead of random ones: lines of {"prompt": ..., "max_tokens": ...})"},
        {"--trace", flags::TextValue(&f->trace, "FILE"),
         "Trace in CSV or JSON lines with lengths and, if it has them, arrival times, clients and "
         "classes"},
        {"--conversations", flags::TextValue(&f->conversations, "FILE"),
         R"(File of chats: lines of {"turns": [{"user": ..., "max_tokens": ...}, ...]})"},
        {"--trace-speed", flags::NumberValue(&f->trace_speed, 1e-6, 1e6),
         "Factor by which the trace's arrivals are sped up"},
        {"--max-request-tokens",
         flags::IntValue(&f->max_request_tokens, 0, 100'000'000)
             .Default("the server's max_model_len"),
         "Leave out entries of the trace with more input plus output tokens than this"},
        {"--prompt-format", flags::ChoiceValue(&f->prompt_format, {"auto", "ids", "text"}),
         "Send random prompts as token ids or as text; auto: ids if the server accepts them"},
        {"--ignore-eos", flags::ChoiceValue(&f->ignore_eos, {"auto", "on", "off"}),
         "on: generate all --output-tokens; off: stop when the model ends its answer; auto: on "
         "unless --dataset is given"},
        {"--priority",
         flags::ChoiceValue(&f->priority, {"high", "medium", "low"}).Default("not sent"),
         "Priority class of the requests: high, medium or low"},
        {"--seed", flags::IntValue(&f->seed, 0, INT64_MAX),
         "Seed for prompts, arrival times and sampling"},
        {"--temperature", flags::NumberValue(&f->temperature, 0, 2),
         "Sampling temperature; 0 takes the most probable token"},
        {"--stream,!--no-stream", flags::SwitchValue(&f->stream).Default("on"),
         "Request streamed answers; without them TTFT, ITL and TPOT are not measured"}}},
      {"Report",
       {{"--goodput", flags::ManyTextsValue(&f->goodput, "LIMIT"),
         "Count the requests within these limits, such as ttft:500ms tpot:50ms e2e:10s"},
        {"--csv", flags::TextValue(&f->csv, "FILE"), "Write one line per request to this file"},
        {"--json", flags::TextValue(&f->json, "FILE"), "Write the summary to this file"},
        {"--records", flags::TextValue(&f->records, "FILE"),
         "Write everything known about each request to this file, as JSON lines"},
        {"--progress,!--no-progress", flags::SwitchValue(&f->progress).Default("on"),
         "Show progress on stderr"}}}};
  command.footer =
      "Example:\n  ropeway bench serve --base-url http://127.0.0.1:8080 --users 16 --num-prompts "
      "64";
  command.run = [f] { return RunBenchServe(*f); };
  return command;
}

namespace {

// Requests of all runs together: their records stay in memory.
constexpr int64_t kMaxRequests = 2'000'000;

Status Wrong(const char* flag, const std::string& what) {
  return InvalidArgument(fmt::format("--{} {}.", flag, what), flag);
}

Status CheckTogether(const BenchServeFlags& f, const GoodputLimits& goodput) {
  if (int64_t{f.num_prompts} * f.runs > kMaxRequests) {
    return Wrong("num-prompts", fmt::format("times --runs must be at most {}, but is {}",
                                            kMaxRequests, int64_t{f.num_prompts} * f.runs));
  }
  if (f.users > 0 && f.request_rate > 0) {
    return Wrong("users", "makes a closed loop and --request-rate an open one: give one of them");
  }
  const std::array sources = {std::pair("dataset", &f.dataset), std::pair("trace", &f.trace),
                              std::pair("conversations", &f.conversations)};
  const char* source = nullptr;
  for (const auto& [flag, file] : sources) {
    if (file->empty()) continue;
    if (source != nullptr) {
      return Wrong(source, fmt::format("and --{} exclude each other: give one of them", flag));
    }
    source = flag;
  }
  if (!f.conversations.empty() && f.endpoint != "chat") {
    return Wrong("conversations", "needs --endpoint chat");
  }
  if (!f.conversations.empty() && f.request_rate > 0) {
    return Wrong("conversations",
                 "makes a closed loop and --request-rate an open one: give one of them");
  }
  if (!f.client_keys.empty() && f.trace.empty()) {
    return Wrong("client-keys", "needs --trace: a file that says which client sends what");
  }
  if (!f.stream && (goodput.ttft || goodput.tpot)) {
    return Wrong("goodput", "on ttft or tpot needs streamed answers, which --no-stream turns off");
  }
  if (f.api_key.find_first_of("\r\n") != std::string::npos) {
    return Wrong("api-key", "must be one line");
  }
  return {};
}

}  // namespace

StatusOr<LoadOptions> CheckFlags(const BenchServeFlags& flags) {
  LoadOptions options;
  options.flags = flags;
  auto url = net::ParseBaseUrl(flags.base_url, "--base-url");
  if (!url.ok()) return url.status();
  options.url = *url;
  options.chat = flags.endpoint == "chat";
  if (flags.prompt_format != "auto") options.prompt_ids = flags.prompt_format == "ids";
  if (options.chat && options.prompt_ids.value_or(false)) {
    return Wrong("prompt-format", "ids needs --endpoint completions");
  }
  if (options.chat) options.prompt_ids = false;
  options.ignore_eos =
      flags.ignore_eos == "auto" ? flags.dataset.empty() : flags.ignore_eos == "on";
  options.priority = PriorityOf(flags.priority);
  auto goodput = ParseGoodput(flags.goodput);
  if (!goodput.ok()) return goodput.status();
  options.goodput = *goodput;
  if (Status status = CheckTogether(flags, *goodput); !status.ok()) return status;
  return options;
}

}  // namespace ropeway::loadgen
