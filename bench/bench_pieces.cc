#include "bench/bench_pieces.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "bench/figure_report.h"
#include "bench/metrics_page.h"
#include "bench/verdict.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "core/batch.h"
#include "engine/machine.h"
#include "model/gguf.h"
#include "model/model_tensors.h"

namespace ropeway {
namespace {

constexpr double kStartPatience = 120;  // Seconds.

// The words of a command line without the folders, which are of one machine only.
std::string CommandText(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    text += word.starts_with('/') ? std::filesystem::path(word).filename().string() : word;
  }
  return text;
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  return fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

// The first line with a version that `program --version` prints; "" where there is none.
std::string VersionOf(const std::string& program) {
  std::string quoted = "'";
  for (const char c : program) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  std::FILE* const pipe = popen((quoted + "' --version 2>&1").c_str(), "re");
  if (pipe == nullptr) return "";
  std::string found;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    const std::string text(line.data());
    if (found.empty() && text.find("version") != std::string::npos) found = text;
  }
  pclose(pipe);
  while (!found.empty() && found.back() == '\n') found.pop_back();
  return found;
}

// `ropeway`, beside this program.
std::string RopewayProgram() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  return (own.parent_path() / "ropeway").string();
}

}  // namespace

void AddBenchPieceFlags(CLI::App* app, BenchPieceFlags* flags) {
  AddText(app, "--base-url", &flags->base_url, "URL",
          "Ask this server, http://HOST:PORT, in place of servers that are started and stopped")
      ->group("Servers");
  AddText(app, "--model,-m", &flags->model, kFilePlaceholder,
          "GGUF file, or the name of a model that was fetched")
      ->group("Servers");
  AddInt(app, "--threads,-t", &flags->threads, 1, 1024, "Compute threads of each server")
      ->default_str("the physical cores")
      ->group("Servers");
  AddText(app, "--llama-server", &flags->llama_server, kFilePlaceholder,
          "llama-server's program, to be measured as well")
      ->group("Servers");
  AddText(app, "--disk-path", &flags->disk_path, "FOLDER", "Where the disk tiers lie meanwhile")
      ->default_str("the system's folder for temporary files")
      ->group("Servers");
  AddNumber(app, "--timeout", &flags->timeout, 0.001, 86400, "Seconds for one answer")
      ->group("Servers");
  AddInt(app, "--seed", &flags->seed, 0, INT64_MAX, "Of texts, lengths and pauses")->group("Load");
  AddTexts(app, "--contestant", &flags->contestants, "NAME",
           "Measure only this one, by its name in the report; may be repeated")
      ->group("Report");
  AddInt(app, "--rounds", &flags->rounds, 0, 100,
         "How often everything is measured; medians count. 0: only the report, of --csv")
      ->group("Report");
  AddText(app, "--csv", &flags->csv, kFilePlaceholder,
          "Write one line for each figure to this file")
      ->group("Report");
  app->add_flag("--append", flags->append, "Go on with the figures that --csv holds")
      ->group("Report");
}

Status BenchPieces::Open() {
  if (flags_.rounds == 0 && flags_.csv.empty()) {
    return InvalidArgument("--rounds 0 needs --csv: a file of figures to report", "rounds");
  }
  if (flags_.append && flags_.csv.empty()) {
    return InvalidArgument("--append needs --csv: a file of figures to go on with", "append");
  }
  std::error_code error;
  if (flags_.rounds == 0 || (flags_.append && std::filesystem::exists(flags_.csv, error))) {
    auto figures = Figures::ReadCsv(flags_.csv);
    if (!figures.ok()) return figures.status();
    figures_ = *std::move(figures);
  }
  if (flags_.rounds == 0) return {};
  threads_ = flags_.threads > 0 ? flags_.threads : PhysicalCores();
  const Figure about{.part = kAboutPart, .contestant = "", .x = "", .metric = "", .value = ""};
  figures_.Add(about, "date", Today());
  figures_.Add(about, "machine", fmt::format("{}, {} CPUs", CpuName(), MachineCpus()));
  if (!flags_.base_url.empty()) return CheckWritable();
  const StatusOr<std::string> path = ResolveModel(flags_.model);
  if (!path.ok()) return path.status();
  model_path_ = *path;
  auto file = GgufFile::Open(model_path_);
  if (!file.ok()) return file.status();
  const StatusOr<ModelConfig> config = ReadModelConfig(**file);
  if (!config.ok()) return config.status();
  kv_bytes_per_token_ = static_cast<int64_t>(config->kv_block_bytes(KvType::kF16)) / kBlockTokens;
  figures_.Add(about, "version", "ropeway " ROPEWAY_VERSION);
  if (!flags_.llama_server.empty()) {
    figures_.Add(about, "version", "llama-server: " + VersionOf(flags_.llama_server));
  }
  return CheckWritable();
}

Status BenchPieces::CheckWritable() {
  read_ = figures_.all().size();
  if (flags_.csv.empty()) return {};
  std::error_code ignored;
  const bool existed = std::filesystem::exists(flags_.csv, ignored);
  if (!std::ofstream(flags_.csv, std::ios::binary | std::ios::app).is_open()) return Unwritable();
  if (!existed) std::filesystem::remove(flags_.csv, ignored);
  return {};
}

StatusOr<TestedServer> BenchPieces::StartRopeway(const std::vector<std::string>& extra,
                                                 const std::string& key) const {
  const uint16_t port = FreePort();
  std::vector<std::string> command = {
      RopewayProgram(),         "serve",  "--model",           model_path_, "--threads",
      std::to_string(threads_), "--port", std::to_string(port)};
  command.insert(command.end(), extra.begin(), extra.end());
  return Start(command, port, key);
}

StatusOr<TestedServer> BenchPieces::StartLlama(int places, int place_tokens) const {
  const uint16_t port = FreePort();
  return Start({flags_.llama_server, "-m", model_path_, "-np", std::to_string(places), "-c",
                std::to_string(places * place_tokens), "-t", std::to_string(threads_), "--port",
                std::to_string(port)},
               port);
}

StatusOr<TestedServer> BenchPieces::Reach() const {
  TestedServer server;
  auto url = ParseBaseUrl(flags_.base_url, "--base-url");
  if (!url.ok()) return url.status();
  server.url = *url;
  return Connect(std::move(server));
}

StatusOr<TestedServer> BenchPieces::Start(const std::vector<std::string>& command, uint16_t port,
                                          const std::string& key) const {
  auto child = ChildServer::Start(command, port, kStartPatience);
  if (!child.ok()) return child.status();
  TestedServer server;
  server.command = CommandText(command);
  server.url = (*child)->url();
  server.child = *std::move(child);
  server.key = key;
  return Connect(std::move(server));
}

StatusOr<TestedServer> BenchPieces::Connect(TestedServer server) const {
  BenchServeFlags load;
  load.base_url = server.url.Text();
  load.prompt_format = "text";
  load.timeout = flags_.timeout;
  auto options = CheckFlags(load);
  if (!options.ok()) return options.status();
  auto client = HttpClient::Open(server.url, server.key, /*insecure=*/false);
  if (!client.ok()) return client.status();
  server.client = *std::move(client);
  auto facts = ProbeServer(*server.client, *options);
  if (!facts.ok()) return facts.status();
  server.facts = *std::move(facts);
  return server;
}

bool BenchPieces::Wants(const std::string& contestant) {
  there_.insert(contestant);
  const std::vector<std::string>& wanted = flags_.contestants;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), contestant) != wanted.end();
}

Status BenchPieces::Measure(const std::string& part, const std::string& contestant,
                            const std::function<Status(const Figure& where)>& measure) {
  if (!Wants(contestant)) return {};
  const Figure where{.part = part,
                     .contestant = contestant,
                     .round = figures_.Rounds(part, contestant) + 1,
                     .x = "",
                     .metric = "",
                     .value = ""};
  Note(fmt::format("{}, {}, round {} ...\n", part, contestant, where.round));
  const OthersWatch others;
  if (Status status = measure(where); !status.ok()) return status;
  figures_.Add(where, "others_cpu_share", others.Share());
  return Save();
}

Status BenchPieces::CheckContestants() const {
  for (const std::string& name : flags_.contestants) {
    if (flags_.rounds == 0 || there_.contains(name)) continue;
    return InvalidArgument(
        fmt::format("--contestant: expected one of {}, not '{}'", fmt::join(there_, ", "), name),
        "contestant");
  }
  return {};
}

Status BenchPieces::Save() const {
  if (flags_.csv.empty() || figures_.all().size() == read_) return {};
  std::ofstream file(flags_.csv, std::ios::binary | std::ios::trunc);
  file << figures_.Csv() << std::flush;
  return file.good() ? Status() : Unwritable();
}

Status BenchPieces::Unwritable() const {
  return InvalidArgument(fmt::format("--csv: cannot write '{}'", flags_.csv), "csv");
}

BenchPieces::DiskFolder::DiskFolder(const std::string& parent) {
  std::error_code error;
  const std::filesystem::path folder =
      parent.empty() ? std::filesystem::temp_directory_path(error) : std::filesystem::path(parent);
  path_ = (folder / "ropeway-bench-disk-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) path_.clear();
}

BenchPieces::DiskFolder::~DiskFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Timing::Timing(const Figure& where)
    : name_(fmt::format("{}, {}, round {}", where.part, where.contestant, where.round)) {
  Note(name_ + ": timing begins\n");
}

Timing::~Timing() { Note(name_ + ": timing is over\n"); }

CacheWatch::CacheWatch(const BaseUrl& url) : url_(url), before_(FetchMetrics(url)) {}

void CacheWatch::AddFigures(const Figure& where, Figures* figures) const {
  const std::string after = FetchMetrics(url_);
  const auto grown = [&](const char* metric) {
    return MetricSum(after, metric, "").value_or(0) - MetricSum(before_, metric, "").value_or(0);
  };
  const double asked = grown("ropeway_prefix_cache_queries_total");
  if (asked <= 0) return;
  const double hits = grown("ropeway_prefix_cache_hits_total");
  const double disk = std::min(hits, grown("ropeway_kv_disk_fetched_blocks_total") * kBlockTokens);
  figures->Add(where, "cached_share", hits / asked);
  figures->Add(where, "pool_share", (hits - disk) / asked);
  figures->Add(where, "disk_share", disk / asked);
  constexpr double kMib = 1 << 20;
  figures->Add(where, "disk_read_mib", grown("ropeway_kv_disk_read_bytes_total") / kMib);
  figures->Add(where, "disk_written_mib", grown("ropeway_kv_disk_written_bytes_total") / kMib);
  figures->Add(where, "disk_lost_blocks", grown("ropeway_kv_disk_lost_blocks_total"));
}

SchedulerWatch::SchedulerWatch(const TestedServer* server)
    : server_(server), begin_(clock_.Now()), before_(Page()) {}

std::string SchedulerWatch::Page() const { return FetchMetrics(server_->url, server_->key); }

void SchedulerWatch::AddFigures(const Figure& where, Figures* figures) const {
  const double seconds = ToSeconds(clock_.Now() - begin_);
  const std::string after = Page();
  const auto grown = [&](const char* metric, const char* label) -> std::optional<double> {
    const auto now = MetricSum(after, metric, label);
    if (!now) return std::nullopt;
    return *now - MetricSum(before_, metric, label).value_or(0);
  };
  const auto add = [&](const char* name, std::optional<double> value) {
    if (value) figures->Add(where, name, *value);
  };
  add("place_share", Ratio(grown("ropeway_place_seconds_total", "state=\"used\""),
                           grown("ropeway_place_seconds_total", "state=\"all\"")));
  add("busy_share", Ratio(grown("ropeway_busy_seconds_total", ""), seconds));
  add("preemptions", grown("ropeway_num_preemptions_total", ""));
  add("recomputed_tokens", grown("ropeway_recomputed_tokens_total", ""));
  add("mean_step_s", Ratio(grown("ropeway_step_time_seconds_sum", ""),
                           grown("ropeway_step_time_seconds_count", "")));
  const std::string kernels = MetricLabel(after, "ropeway_engine_info", "kernels");
  if (!kernels.empty()) figures->Add(where, "kernels", kernels);
  add("rows_per_step",
      Ratio(grown("ropeway_step_rows_sum", ""), grown("ropeway_step_rows_count", "")));
}

StatusOr<std::vector<int>> ParseCounts(const std::string& flag, const std::string& text, int most) {
  std::vector<int> counts;
  std::string_view rest = text;
  for (;;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > most ||
        (!counts.empty() && value <= counts.back())) {
      return InvalidArgument(
          fmt::format("--{}: expected rising whole numbers from 1 to {}, with commas between, not "
                      "'{}'",
                      flag, most, text),
          flag);
    }
    counts.push_back(value);
    if (word.size() == rest.size()) return counts;
    rest.remove_prefix(word.size() + 1);
  }
}

}  // namespace ropeway
