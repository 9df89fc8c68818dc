#include "bench/bench_serve_command.h"

#include <CLI/CLI.hpp>

namespace ropeway {

CLI::App* AddBenchServe(CLI::App* bench, BenchServeFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "serve", "Put load on an OpenAI-compatible server and print latencies and throughput");

  app->add_option("--base-url", f->base_url, "The server: http://HOST:PORT, with or without /v1")
      ->capture_default_str()
      ->group("Server");
  app->add_option("--model", f->model, "Model to ask for (default: the first of /v1/models)")
      ->group("Server");
  app->add_option("--endpoint", f->endpoint, "completions or chat")
      ->capture_default_str()
      ->group("Server");
  app->add_option("--api-key", f->api_key, "Sent as a bearer token")
      ->envname("ROPEWAY_API_KEY")
      ->group("Server");
  app->add_flag("--insecure", f->insecure, "https: take any certificate")->group("Server");

  app->add_option("--users", f->users,
                  "Closed loop: so many users, each asks again when its answer is complete "
                  "(default: 1)")
      ->group("Load");
  app->add_option("--request-rate", f->request_rate,
                  "Open loop: requests per second on average, at random (Poisson) times")
      ->group("Load");
  app->add_option("--max-concurrency", f->max_concurrency,
                  "Never more requests in flight than this; the others wait for their turn")
      ->group("Load");
  app->add_option("--num-prompts", f->num_prompts, "Requests of one run")
      ->capture_default_str()
      ->group("Load");
  app->add_option("--runs", f->runs, "How often to repeat it, with other random prompts")
      ->capture_default_str()
      ->group("Load");
  app->add_option("--warmup", f->warmup, "Requests before the first run, in no figure")
      ->capture_default_str()
      ->group("Load");
  app->add_option("--timeout", f->timeout, "Seconds for one request, to the end of its answer")
      ->capture_default_str()
      ->group("Load");

  app->add_option("--input-tokens", f->input_tokens, "Length of the random prompts")
      ->capture_default_str()
      ->group("Prompts");
  app->add_option("--output-tokens", f->output_tokens, "Tokens to generate for each")
      ->capture_default_str()
      ->group("Prompts");
  app->add_option(
         "--dataset", f->dataset,
         R"(Texts in place of random prompts: lines of {"prompt": ..., "max_tokens": ...})")
      ->group("Prompts");
  app->add_option("--trace", f->trace,
                  "Lengths, and where it has them arrival times, from a CSV or JSON lines trace")
      ->group("Prompts");
  app->add_option("--trace-speed", f->trace_speed,
                  "Play the trace's arrivals so many times as fast")
      ->capture_default_str()
      ->group("Prompts");
  app->add_option("--max-request-tokens", f->max_request_tokens,
                  "Leave out entries of the trace with more tokens, in and out together (default: "
                  "the server's max_model_len)")
      ->group("Prompts");
  app->add_option("--prompt-format", f->prompt_format,
                  "Random prompts as token ids or as text; auto: ids where the server takes them")
      ->capture_default_str()
      ->group("Prompts");
  app->add_option("--ignore-eos", f->ignore_eos,
                  "on: generate all tokens asked for; off: end where the model ends; auto: on "
                  "unless there is a data set")
      ->capture_default_str()
      ->group("Prompts");
  app->add_option("--priority", f->priority,
                  "The requests' class: high, medium or low (default: none is asked for)")
      ->group("Prompts");
  app->add_option("--seed", f->seed, "Of prompts, arrival times and sampling")
      ->capture_default_str()
      ->group("Prompts");
  app->add_option("--temperature", f->temperature, "0 takes the most probable token")
      ->capture_default_str()
      ->group("Prompts");
  app->add_flag("--stream,!--no-stream", f->stream,
                "Ask for streams (the default), which alone show TTFT, ITL and TPOT")
      ->group("Prompts");

  app->add_option("--goodput", f->goodput,
                  "Count the requests within these limits, such as ttft:500ms tpot:50ms e2e:10s")
      ->group("Report");
  app->add_option("--csv", f->csv, "Write one line per request to this file")->group("Report");
  app->add_option("--json", f->json, "Write the summary to this file")->group("Report");
  app->add_flag("--progress,!--no-progress", f->progress, "Show progress on stderr (the default)")
      ->group("Report");
  app->footer(
      "Example:\n  ropeway bench serve --base-url http://127.0.0.1:8080 --users 16 --num-prompts "
      "64");
  return app;
}

}  // namespace ropeway
