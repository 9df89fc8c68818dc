#include "bench/bench_determinism_command.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/sameness_report.h"
#include "bench/sameness_server.h"
#include "cli/engine_flags.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "bench/determinism_engine.h"
#include "engine/machine.h"
#include "engine/model_vocabulary.h"
#include "model/gguf.h"

namespace ropeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxPromptTokens = 1024;

std::string Header() {
  return fmt::format(
      "{:>5} {:<10} {:>7} {:>11} {:>5} {:>6} {:>6} {:>5} {:>6} {:>7} {:>5} {:>6} {:>9} {:>7} "
      "{:>15} {:>8}\n",
      "round", "kernels", "threads", "tokens/step", "chunk", "places", "blocks", "cache", "asks",
      "company", "left", "steps", "rows/step", "chunked", "preempted", "distinct");
}

std::string Row(int number, const DeterminismRound& r) {
  const RoundSettings& s = r.settings;
  const double rows = r.steps == 0 ? 0 : static_cast<double>(r.rows) / static_cast<double>(r.steps);
  const std::string chunk = s.max_prefill_chunk == 0 ? "-" : fmt::format("{}", s.max_prefill_chunk);
  const std::string preempted = fmt::format("{} ({} times)", r.preempted, r.preemptions);
  return fmt::format(
      "{:>5} {:<10} {:>7} {:>11} {:>5} {:>6} {:>6} {:>5} {:>6} {:>7} {:>5} {:>6} {:>9.1f} {:>7} "
      "{:>15} {:>8}\n",
      number, s.kernels->name, s.threads, s.max_num_batched_tokens, chunk, s.max_num_seqs,
      s.num_blocks, s.prefix_caching ? "on" : "off", r.asks, r.company, r.left, r.steps, rows,
      r.chunked, preempted, r.distinct);
}

Json RoundJson(const DeterminismRound& r) {
  const RoundSettings& s = r.settings;
  return {{"kernels", s.kernels->name},
          {"threads", s.threads},
          {"max_num_batched_tokens", s.max_num_batched_tokens},
          {"max_prefill_chunk", s.max_prefill_chunk},
          {"max_num_seqs", s.max_num_seqs},
          {"num_blocks", s.num_blocks},
          {"prefix_caching", s.prefix_caching},
          {"asks", r.asks},
          {"company", r.company},
          {"left", r.left},
          {"steps", r.steps},
          {"rows", r.rows},
          {"most_rows", r.most_rows},
          {"chunked", r.chunked},
          {"most_chunks", r.most_chunks},
          {"preempted", r.preempted},
          {"preemptions", r.preemptions},
          {"distinct", r.distinct}};
}

// All rounds together.
struct Totals {
  int company = 0;
  int chunked = 0;
  int most_chunks = 0;
  int preempted = 0;
  int preemptions = 0;
  Json rounds = Json::array();

  void Add(const DeterminismRound& r) {
    company += r.company;
    chunked += r.chunked;
    most_chunks = std::max(most_chunks, r.most_chunks);
    preempted += r.preempted;
    preemptions += r.preemptions;
    rounds.push_back(RoundJson(r));
  }

  std::string Text() const {
    std::string text = fmt::format(
        "{} asks were computed in several pieces (at most {}), {} were preempted ({} times), among "
        "{} other requests\n",
        chunked, most_chunks, preempted, preemptions, company);
    if (chunked == 0 || preempted == 0) {
      text += "note: without chunks and preemptions of the asks this proves little: ask more\n";
    }
    return text;
  }
};

struct Loaded {
  std::string name;
  std::shared_ptr<const Model> model;
  std::vector<TokenId> prompt;
};

StatusOr<Loaded> Load(const BenchDeterminismFlags& flags) {
  const StatusOr<std::string> path =
      ResolveModel(flags.model.empty() ? kDefaultModel : flags.model);
  if (!path.ok()) return path.status();
  auto file = GgufFile::Open(*path);
  if (!file.ok()) return file.status();
  auto tokenizer = LoadTokenizer(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  Loaded loaded;
  loaded.name = path->substr(path->rfind('/') + 1);
  loaded.prompt = (*tokenizer)->Encode(flags.prompt, {});
  if (loaded.prompt.empty() || loaded.prompt.size() > kMaxPromptTokens) {
    return InvalidArgument(fmt::format("--prompt must have 1 to {} tokens, but has {}",
                                       kMaxPromptTokens, loaded.prompt.size()));
  }
  auto model = Model::Load(**file, PhysicalCores());
  if (!model.ok()) return model.status();
  loaded.model = *std::move(model);
  return loaded;
}

int Finish(const AnswerTally& tally, const std::string& closing, Json json,
           const BenchDeterminismFlags& flags, Output* output) {
  output->Write(closing + TallyText(tally));
  if (!flags.json.empty()) {
    json["prompt"] = flags.prompt;
    json["output_tokens"] = flags.output_tokens;
    json["seed"] = flags.seed;
    json.update(TallyJson(tally));
    std::ofstream file(flags.json);
    file << json.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
    if (!file.good()) return Fail(fmt::format("--json: cannot write '{}'", flags.json));
  }
  const int code = output->End();
  return AllTheSame(tally) ? code : 1;
}

int AskEngine(const BenchDeterminismFlags& flags) {
  const std::vector<const Kernels*> tables = TablesToAsk();
  const char* error = "";
  if (ChooseKernels(&error) == nullptr) return Fail(error);
  const StatusOr<Loaded> loaded = Load(flags);
  if (!loaded.ok()) return Fail(loaded.status());
  DeterminismEngineOptions options;
  options.prompt = loaded->prompt;
  options.asks = flags.asks;
  options.output_tokens = flags.output_tokens;
  options.rounds = std::min(flags.rounds, flags.asks);
  options.company = flags.company;
  options.kv_type = *KvTypeByName(flags.kv_cache_dtype.c_str());
  options.seed = flags.seed;
  if (DeterminismEngine::LongestRequest(options) > loaded->model->max_positions()) {
    return Fail(
        fmt::format("--output-tokens: the model holds {} tokens, but the requests are of up "
                    "to {}",
                    loaded->model->max_positions(), DeterminismEngine::LongestRequest(options)));
  }
  DeterminismEngine engine(loaded->model, options, tables);
  Output output;
  output.Write(
      fmt::format("{}, in this process: {} prompt tokens, {} output tokens, {} KV cache, "
                  "seed {}\n{}",
                  loaded->name, options.prompt.size(), flags.output_tokens, flags.kv_cache_dtype,
                  flags.seed, Header()));
  Totals totals;
  int number = 0;
  const Status status = engine.Run([&](const DeterminismRound& round) {
    totals.Add(round);
    output.Write(Row(++number, round));
  });
  if (!status.ok()) return Fail(status);
  Json json = {{"contestant", "ropeway, in process"}, {"model", loaded->name}};
  json["kv_cache_dtype"] = flags.kv_cache_dtype;
  json["company"] = totals.company;
  json["chunked"] = totals.chunked;
  json["preempted"] = totals.preempted;
  json["preemptions"] = totals.preemptions;
  json["rounds"] = totals.rounds;
  return Finish(engine.tally(), totals.Text(), std::move(json), flags, &output);
}

int AskServerAt(const BenchDeterminismFlags& flags) {
  SamenessServerOptions options;
  options.base_url = flags.base_url;
  options.model = flags.model;
  options.api_key = flags.api_key;
  options.insecure = flags.insecure;
  options.prompt = flags.prompt;
  options.asks = flags.asks;
  options.output_tokens = flags.output_tokens;
  options.concurrency = flags.concurrency;
  options.company = flags.company;
  options.seed = flags.seed;
  options.max_seconds = std::chrono::duration<double>(flags.max_time).count();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  auto result = AskServer(options, [&](int answered) {
    if (terminal) Note(fmt::format("\r\033[K{} of {} answers", answered, flags.asks));
  });
  if (terminal) Note("\r\033[K");
  if (!result.ok()) return Fail(result.status());
  Output output;
  const std::string closing = fmt::format(
      "{}, model {}: {} output tokens{}, {} in flight at most, seed {}\n{} other requests, of "
      "which {} left early\n",
      flags.base_url, result->model, flags.output_tokens,
      result->ignore_eos ? "" : " (or up to an end token)", flags.concurrency, flags.seed,
      result->company, result->left);
  Json json = {{"contestant", flags.base_url}, {"model", result->model}};
  json["concurrency"] = flags.concurrency;
  json["company"] = result->company;
  json["left"] = result->left;
  return Finish(result->tally, closing, std::move(json), flags, &output);
}

}  // namespace

CLI::App* AddBenchDeterminism(CLI::App* bench, BenchDeterminismFlags* f) {
  CLI::App* app = bench->add_subcommand(
      "determinism", "Ask one prompt many times amid other requests and count the answers");
  AddText(app, "--model,-m", &f->model, kFilePlaceholder,
          "GGUF file, or the name of a model that was fetched; with --base-url the name to ask for")
      ->default_str(fmt::format("{}, or the server's first", kDefaultModel))
      ->group("Who");
  AddText(app, "--base-url", &f->base_url, "URL",
          "An OpenAI-compatible server, http://HOST:PORT; without one, the engine in this process")
      ->group("Who");
  AddText(app, "--api-key", &f->api_key, "KEY", "Sent to the server as a bearer token")
      ->envname("ROPEWAY_API_KEY")
      ->group("Who");
  app->add_flag("--insecure", f->insecure, "https: take any certificate")->group("Who");

  AddText(app, "--prompt", &f->prompt, "TEXT", "What is asked, as it is: no chat template")
      ->capture_default_str()
      ->group("What");
  AddInt(app, "--asks", &f->asks, 1, 1'000'000, "How often it is asked")->group("What");
  AddInt(app, "--output-tokens", &f->output_tokens, 1, 4096, "Tokens of each answer")
      ->group("What");

  AddNumber(app, "--company", &f->company, 0, 100, "Other requests for each ask, on average")
      ->group("Around it");
  AddInt(app, "--rounds", &f->rounds, 1, 1000,
         "In this process: so many engines one after the other, each with other threads, steps, "
         "chunks and memory")
      ->group("Around it");
  AddChoice(app, "--kv-cache-dtype", &f->kv_cache_dtype, {"f16", "q8_0"},
            "In this process: how the KV cache keeps numbers, f16 or q8_0")
      ->group("Around it");
  AddInt(app, "--concurrency", &f->concurrency, 1, 256,
         "With --base-url: requests in flight, at most")
      ->group("Around it");
  AddDuration(app, "--max-time", &f->max_time,
              "With --base-url: ask no more after so long, even if asks are left; 0: no limit")
      ->group("Around it");
  AddInt(app, "--seed", &f->seed, 0, INT64_MAX, "Of all that is random")->group("Around it");
  AddText(app, "--json", &f->json, kFilePlaceholder, "Write the counts to this file")
      ->group("Report");
  app->footer(
      "The answers are of temperature 0. The exit code is 0 if they are all the same.\n\n"
      "Example:\n  ropeway-bench determinism --asks 20 --rounds 4 --output-tokens 16");
  return app;
}

int RunBenchDeterminism(const BenchDeterminismFlags& flags) {
  spdlog::set_level(spdlog::level::warn);
  if (flags.base_url.empty() && flags.insecure) return Fail("--insecure needs --base-url");
  if (!flags.json.empty() && !std::ofstream(flags.json, std::ios::app).good()) {
    return Fail(fmt::format("--json: cannot write '{}'", flags.json));
  }
  return flags.base_url.empty() ? AskEngine(flags) : AskServerAt(flags);
}

}  // namespace ropeway
