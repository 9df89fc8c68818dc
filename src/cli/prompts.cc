#include "cli/prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "api/json.h"
#include "api/parameter_json.h"
#include "base/clock.h"
#include "base/output.h"
#include "base/words.h"
#include "cli/terminal.h"

namespace ropeway::cli {
namespace {

using Json = nlohmann::json;
constexpr size_t kMaxLine = 1 << 20;
constexpr size_t kMaxPrompts = 1000000;
constexpr int kMaxDepth = 8;             // How deep JSON may be nested; the fields need 2.
constexpr size_t kMaxOutstanding = 500;  // Below the length of the engine's queue.
constexpr std::chrono::milliseconds kPoll(5);
constexpr std::chrono::milliseconds kProgress(200);

// nullopt for text that is not JSON, or nested too deep.
std::optional<Json> ParseJson(const std::string& line) {
  const auto bounded = [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; };
  Json json = Json::parse(line, bounded, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

StatusOr<PromptLine> FromObject(const Json& object, const RunFlags& flags) {
  PromptLine line;
  line.request = MakeRequest(flags);
  RunFlags own = flags;
  for (const auto& [name, value] : object.items()) {
    const core::Parameter* row = core::FindParameter(name);
    Status status;
    if (name == "prompt") {
      status = api::Store(api::ReadString(value, name), &line.text);
    } else if (name == "system") {
      status = api::Store(api::ReadString(value, name), &own.system);
    } else if (row != nullptr) {
      status = api::ReadParameter(*row, value, name, &line.request);
    } else {
      status = api::UnknownField(api::ShownName(name));
    }
    if (!status.ok()) return status;
  }
  if (!object.contains("prompt")) return InvalidArgument("the field 'prompt' is missing");
  SetPrompt(own, true, line.text, &line.request);
  return line;
}

// A request that ended, with its index in the file.
struct Answered {
  size_t index = 0;
  Result result;
};

const char* ReasonOf(const Result& result) {
  return FinishReasonName(result.status.ok() ? result.finish.reason : FinishReason::kFailed);
}

// Names of the phases of PhaseTimes, and the times in seconds.
constexpr std::array kPhases = {"queue", "formation", "prefill", "decode", "output"};

std::array<double, kPhases.size()> PhasesOf(const Result& result) {
  const PhaseTimes& times = result.finish.times;
  std::array<double, kPhases.size()> seconds{};
  size_t i = 0;
  for (const auto time :
       {times.queue, times.formation, times.prefill, times.decode, times.output}) {
    seconds[i++] = base::ToSeconds(time);
  }
  return seconds;
}

// The file of --output: JSON lines, or CSV.
class AnswerFile {
 public:
  // Returns false if the file cannot be opened. Without a name nothing is written.
  bool Open(const std::string& name) {
    if (name.empty()) return true;
    csv_ = name.ends_with(".csv");
    file_.open(name);
    if (csv_) {
      file_ << "index,batch_num,finish_reason,prompt_tokens,completion_tokens,";
      for (const char* phase : kPhases) file_ << phase << "_time,";
      file_ << "seed,prompt,text,error\r\n";
    }
    return file_.good();
  }

  bool good() const { return file_.good(); }

  void Write(const Answered& answered, const std::string& prompt) {
    if (!file_.is_open()) return;
    csv_ ? WriteCsv(answered, prompt) : WriteJson(answered, prompt);
  }

 private:
  void WriteCsv(const Answered& answered, const std::string& prompt) {
    const Result& result = answered.result;
    const Finish& finish = result.finish;
    file_ << answered.index + 1 << ',';
    if (finish.batch_num != 0) file_ << finish.batch_num;
    file_ << fmt::format(",{},{},{},{:.6f},{},", ReasonOf(result), finish.usage.prompt_tokens,
                         finish.usage.completion_tokens, fmt::join(PhasesOf(result), ","),
                         finish.seed)
          << base::CsvField(prompt) << ',' << base::CsvField(result.text) << ','
          << base::CsvField(result.status.message()) << "\r\n"
          << std::flush;
  }

  void WriteJson(const Answered& answered, const std::string& prompt) {
    const Result& result = answered.result;
    const Finish& finish = result.finish;
    nlohmann::ordered_json line = {{"index", answered.index + 1},
                                   {"batch_num", finish.batch_num},
                                   {"batch", finish.batch_num},
                                   {"prompt", prompt},
                                   {"text", result.text},
                                   {"finish_reason", ReasonOf(result)},
                                   {"prompt_tokens", finish.usage.prompt_tokens},
                                   {"completion_tokens", finish.usage.completion_tokens},
                                   {"seed", finish.seed},
                                   {"error", result.status.message()}};
    if (finish.batch_num == 0) line["batch_num"] = line["batch"] = nullptr;
    if (result.status.ok()) line["error"] = nullptr;
    const auto phases = PhasesOf(result);
    for (size_t i = 0; i < kPhases.size(); ++i)
      line[fmt::format("{}_time", kPhases[i])] = phases[i];
    file_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }

  std::ofstream file_;
  bool csv_ = false;
};

// One run over all prompts; used by one thread.
class PromptsRun {
 public:
  PromptsRun(std::vector<PromptLine> prompts, bool stats, Engine* engine, AnswerFile* file)
      : prompts_(std::move(prompts)), stats_(stats), engine_(engine), file_(file), start_(Now()) {}

  int Run() {
    while (ended_ < prompts_.size() && output_.ok()) {
      SubmitSome();
      if (!Collect()) std::this_thread::sleep_for(kPoll);
      PrintComplete(false);
      ShowProgress();
    }
    // The output is lost: all requests must end before their callbacks' owner does.
    if (ended_ < next_) (void)engine_->Drain(std::chrono::nanoseconds(0));
    PrintComplete(true);
    ClearProgress();
    if (output_.ok()) output_.Write(Summary());
    const int code = output_.End();
    if (code == 0 && !file_->good())
      return base::Fail("--output: cannot write all answers to the file");
    return failed_ > 0 ? 1 : code;
  }

 private:
  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

  void SubmitSome() {
    while (next_ < prompts_.size() && next_ - ended_ < kMaxOutstanding) {
      const size_t index = next_;
      StatusOr<RequestHandle> handle =
          engine_->Submit(prompts_[index].request, [this](RequestId id, const Delta& delta) {
            tracker_.OnDelta(id, delta.batch_num);
            return true;
          });
      if (!handle.ok() && handle.status().code() == StatusCode::kResourceExhausted &&
          next_ > ended_) {
        return;  // Again when another one has ended.
      }
      ++next_;
      if (handle.ok()) {
        index_of_[handle->id()] = index;
        continue;
      }
      Result rejected;
      rejected.status = handle.status();
      ++ended_;
      rejected_.push_back({index, std::move(rejected)});
    }
    if (next_ == prompts_.size()) engine_->Flush();  // No batch waits for more.
  }

  // False if no request has ended.
  bool Collect() {
    std::vector<Result> results = engine_->PollFinished();
    for (Result& result : results) {
      const RequestId id = result.id;
      const uint64_t batch = result.finish.batch_num;
      prompt_tokens_ += result.finish.usage.prompt_tokens;
      output_tokens_ += result.finish.usage.completion_tokens;
      answered_[id] = {index_of_.at(id), std::move(result)};
      index_of_.erase(id);
      ++ended_;
      tracker_.OnEnd(id, batch);
    }
    return !results.empty();
  }

  void PrintComplete(bool all) {
    for (const auto& [number, ids] : tracker_.TakeComplete(all)) {
      std::vector<Answered> batch;
      for (const RequestId id : ids) {
        batch.push_back(std::move(answered_.at(id)));
        answered_.erase(id);
      }
      Print(number, std::move(batch));
    }
    if (!rejected_.empty()) Print(0, std::exchange(rejected_, {}));
  }

  // `number` is 0 for requests that never started.
  void Print(uint64_t number, std::vector<Answered> batch) {
    ClearProgress();
    std::sort(batch.begin(), batch.end(),
              [](const Answered& a, const Answered& b) { return a.index < b.index; });
    if (number != 0) batches_.insert(number);
    const std::string heading = number != 0 ? fmt::format("Batch {}", number) : "Without a batch";
    output_.Write(heading + ": " + base::Counted(batch.size(), "request") + "\n\n");
    for (const Answered& answered : batch) {
      const Result& result = answered.result;
      const std::string& prompt = prompts_[answered.index].text;
      std::string text = fmt::format("[{}] {}\n", answered.index + 1, prompt);
      text += result.text;
      if (!result.text.empty() && result.text.back() != '\n') text += '\n';
      if (!result.status.ok()) {
        ++failed_;
        text += fmt::format("(failed: {})\n", result.status.message());
      }
      if (stats_) text += StatsLine(result);
      output_.Write((terminal_ ? ForTerminal(text) : text) + "\n");
      file_->Write(answered, prompt);
    }
  }

  static std::string StatsLine(const Result& result) {
    const Usage& usage = result.finish.usage;
    return fmt::format("({}, {}{})\n", base::Counted(usage.prompt_tokens, "prompt token"),
                       base::Counted(usage.completion_tokens, "token"),
                       PhasesText(result.finish.times));
  }

  std::string Summary() const {
    const double seconds = base::ToSeconds(Now() - start_);
    return fmt::format(
        "{} in {} batch{}, {} failed: {} prompt tokens, {} output tokens in {:.1f} s "
        "({:.1f} tokens/s)\n",
        base::Counted(prompts_.size(), "request"), batches_.size(),
        batches_.size() == 1 ? "" : "es", failed_, prompt_tokens_, output_tokens_, seconds,
        seconds > 0 ? static_cast<double>(output_tokens_) / seconds : 0.0);
  }

  void ShowProgress() {
    if (!progress_ || Now() - last_progress_ < kProgress) return;
    last_progress_ = Now();
    progress_shown_ = true;
    base::Note(fmt::format("\r\033[K{} of {} requests have ended", ended_, prompts_.size()));
  }

  void ClearProgress() {
    if (std::exchange(progress_shown_, false)) base::Note("\r\033[K");
  }

  const std::vector<PromptLine> prompts_;
  const bool stats_;
  Engine* const engine_;
  AnswerFile* const file_;
  const std::chrono::steady_clock::time_point start_;
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  const bool progress_ = isatty(STDERR_FILENO) != 0;

  BatchTracker tracker_;
  base::Output output_;
  std::map<RequestId, size_t> index_of_;    // The prompt of each running request.
  std::map<RequestId, Answered> answered_;  // Ended, in batches that are not complete.
  std::vector<Answered> rejected_;
  size_t next_ = 0;  // Prompts before it are submitted.
  size_t ended_ = 0;
  std::set<uint64_t> batches_;
  size_t failed_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t output_tokens_ = 0;
  std::chrono::steady_clock::time_point last_progress_{};
  bool progress_shown_ = false;
};

}  // namespace

StatusOr<std::vector<PromptLine>> ReadPrompts(std::istream& input, const std::string& name,
                                              const RunFlags& flags) {
  std::vector<PromptLine> prompts;
  std::optional<bool> json_lines;  // Decided by the first line.
  std::string text;
  for (size_t number = 1; std::getline(input, text); ++number) {
    const auto at = [&](const std::string& problem) {
      return InvalidArgument(fmt::format("{}:{}: {}", name, number, problem));
    };
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty()) continue;
    if (text.size() > kMaxLine)
      return at(fmt::format("a prompt must have at most {} bytes", kMaxLine));
    if (prompts.size() == kMaxPrompts)
      return at(fmt::format("the file must have at most {} prompts", kMaxPrompts));
    const std::optional<Json> json =
        json_lines.value_or(text.front() == '{') ? ParseJson(text) : std::nullopt;
    const bool object = json && json->is_object();
    if (!json_lines) json_lines = object;
    if (!*json_lines) {
      PromptLine line = {text, MakeRequest(flags)};
      SetPrompt(flags, true, text, &line.request);
      prompts.push_back(std::move(line));
      continue;
    }
    if (!object) return at("expected a JSON object, as in the first line");
    StatusOr<PromptLine> line = FromObject(*json, flags);
    if (!line.ok()) return at(line.status().message());
    prompts.push_back(*std::move(line));
  }
  if (input.bad()) return InvalidArgument(fmt::format("cannot read '{}'", name));
  if (prompts.empty()) return InvalidArgument(fmt::format("'{}' contains no prompts", name));
  return prompts;
}

void BatchTracker::OnDelta(RequestId id, uint64_t batch) {
  const std::lock_guard lock(mu_);
  newest_ = std::max(newest_, batch);
  running_[batch].insert(id);
}

void BatchTracker::OnEnd(RequestId id, uint64_t batch) {
  const std::lock_guard lock(mu_);
  const auto running = running_.find(batch);
  if (running != running_.end() && running->second.erase(id) > 0 && running->second.empty()) {
    running_.erase(running);
  }
  ended_[batch].insert(id);
}

std::map<uint64_t, std::set<RequestId>> BatchTracker::TakeComplete(bool all) {
  const std::lock_guard lock(mu_);
  std::map<uint64_t, std::set<RequestId>> complete;
  for (auto batch = ended_.begin(); batch != ended_.end();) {
    const uint64_t number = batch->first;
    const bool open = number != 0 && (number >= newest_ || running_.count(number) > 0);
    if (all || !open)
      complete.insert(ended_.extract(batch++));
    else
      ++batch;
  }
  return complete;
}

int RunPrompts(const RunFlags& flags, Engine* engine) {
  std::ifstream input(flags.prompts_file);
  if (!input) return base::Fail(fmt::format("--prompts: cannot read '{}'", flags.prompts_file));
  StatusOr<std::vector<PromptLine>> prompts = ReadPrompts(input, flags.prompts_file, flags);
  if (!prompts.ok()) return base::Fail("--prompts: " + prompts.status().message());
  AnswerFile file;
  if (!file.Open(flags.output_file)) {
    return base::Fail(fmt::format("--output: cannot write '{}'", flags.output_file));
  }
  return PromptsRun(*std::move(prompts), flags.stats, engine, &file).Run();
}

}  // namespace ropeway::cli
