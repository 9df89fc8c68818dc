#include "cli/prompts_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "cli/batch_tracker.h"
#include "cli/output.h"
#include "cli/prompts_file.h"
#include "cli/terminal.h"

namespace ropeway {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr size_t kMaxOutstanding = 500;  // Below what the engine queues.
constexpr std::chrono::milliseconds kPoll(5);
constexpr std::chrono::milliseconds kProgress(200);

// One run over all prompts; used by one thread.
class PromptsRun {
 public:
  PromptsRun(std::vector<PromptLine> prompts, Engine* engine, std::ofstream* file)
      : prompts_(std::move(prompts)), engine_(engine), file_(file), start_(Now()) {}

  int Run() {
    while (ended_ < prompts_.size() && output_.ok()) {
      SubmitSome();
      if (!Collect()) std::this_thread::sleep_for(kPoll);
      PrintEnded();
      ShowProgress();
    }
    // Nobody reads any more: what runs must have ended before its callbacks' owner does.
    if (ended_ < next_) (void)engine_->Drain(std::chrono::nanoseconds(0));
    tracker_.Close();
    PrintEnded();
    ClearProgress();
    if (output_.ok()) output_.Write(Summary());
    const int code = output_.End();
    if (code == 0 && !file_->good()) return Fail("the file of --output could not be written");
    return failed_ > 0 ? 1 : code;
  }

 private:
  struct Ended {
    size_t index = 0;
    Result result;
  };

  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

  void SubmitSome() {
    while (next_ < prompts_.size() && next_ - ended_ < kMaxOutstanding) {
      const size_t index = next_;
      StatusOr<RequestHandle> handle =
          engine_->Submit(prompts_[index].request, [this](RequestId id, const Delta& delta) {
            if (!delta.tokens.empty()) tracker_.OnToken(id);
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
      Result refused;
      refused.status = handle.status();
      ++ended_;
      refused_.push_back({index, std::move(refused)});
    }
    if (next_ == prompts_.size()) engine_->Flush();  // No batch waits for more.
  }

  // False where nothing has ended.
  bool Collect() {
    std::vector<Result> results = engine_->PollFinished();
    for (Result& result : results) {
      const RequestId id = result.id;
      const uint64_t step = result.tokens.empty() ? 0 : result.finish.first_token_step;
      prompt_tokens_ += result.finish.usage.prompt_tokens;
      output_tokens_ += result.finish.usage.completion_tokens;
      ended_results_[id] = {index_of_.at(id), std::move(result)};
      index_of_.erase(id);
      ++ended_;
      tracker_.OnEnd(id, step);
    }
    return !results.empty();
  }

  void PrintEnded() {
    for (const auto& [step, ids] : tracker_.TakeEnded()) {
      std::vector<Ended> batch;
      for (const RequestId id : ids) {
        batch.push_back(std::move(ended_results_.at(id)));
        ended_results_.erase(id);
      }
      Print(step != 0, std::move(batch));
    }
    if (!refused_.empty()) Print(false, std::exchange(refused_, {}));
  }

  // `started`: its requests got a token.
  void Print(bool started, std::vector<Ended> batch) {
    ClearProgress();
    std::sort(batch.begin(), batch.end(),
              [](const Ended& a, const Ended& b) { return a.index < b.index; });
    const size_t number = started ? ++batches_ : 0;
    const char* plural = batch.size() == 1 ? "" : "s";
    output_.Write(started ? fmt::format("Batch {}: {} request{}\n\n", number, batch.size(), plural)
                          : fmt::format("Without a batch: {} request{}\n\n", batch.size(), plural));
    for (const Ended& ended : batch) {
      const Result& result = ended.result;
      std::string text = fmt::format("[{}] {}\n", ended.index + 1, prompts_[ended.index].text);
      text += result.text;
      if (!result.text.empty() && result.text.back() != '\n') text += '\n';
      if (!result.status.ok()) {
        ++failed_;
        text += fmt::format("(failed: {})\n", result.status.message());
      }
      output_.Write((terminal_ ? ForTerminal(text) : text) + "\n");
      if (file_->is_open()) WriteLine(ended, number);
    }
  }

  void WriteLine(const Ended& ended, size_t batch) {
    const Result& result = ended.result;
    nlohmann::ordered_json line = {
        {"index", ended.index + 1},
        {"batch", batch},
        {"prompt", prompts_[ended.index].text},
        {"text", result.text},
        {"finish_reason",
         FinishReasonName(result.status.ok() ? result.finish.reason : FinishReason::kFailed)},
        {"prompt_tokens", result.finish.usage.prompt_tokens},
        {"completion_tokens", result.finish.usage.completion_tokens},
        {"seed", result.finish.seed},
        {"error", result.status.message()}};
    if (batch == 0) line["batch"] = nullptr;
    if (result.status.ok()) line["error"] = nullptr;
    *file_ << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }

  std::string Summary() const {
    const double seconds = Seconds(Now() - start_).count();
    return fmt::format(
        "{} requests in {} batch{}, {} failed: {} prompt tokens, {} output tokens in {:.1f} s "
        "({:.1f} tokens/s)\n",
        prompts_.size(), batches_, batches_ == 1 ? "" : "es", failed_, prompt_tokens_,
        output_tokens_, seconds, seconds > 0 ? static_cast<double>(output_tokens_) / seconds : 0.0);
  }

  void ShowProgress() {
    if (!progress_ || Now() - last_progress_ < kProgress) return;
    last_progress_ = Now();
    progress_shown_ = true;
    Note(fmt::format("\r\033[K{} of {} requests have ended", ended_, prompts_.size()));
  }

  void ClearProgress() {
    if (std::exchange(progress_shown_, false)) Note("\r\033[K");
  }

  const std::vector<PromptLine> prompts_;
  Engine* const engine_;
  std::ofstream* const file_;
  const std::chrono::steady_clock::time_point start_;
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  const bool progress_ = isatty(STDERR_FILENO) != 0;

  BatchTracker tracker_;
  Output output_;
  std::map<RequestId, size_t> index_of_;      // Of those that run.
  std::map<RequestId, Ended> ended_results_;  // Of those whose batch has not ended.
  std::vector<Ended> refused_;
  size_t next_ = 0;  // Prompts before it are submitted.
  size_t ended_ = 0;
  size_t batches_ = 0;
  size_t failed_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t output_tokens_ = 0;
  std::chrono::steady_clock::time_point last_progress_{};
  bool progress_shown_ = false;
};

}  // namespace

int RunPrompts(const RunFlags& flags, Engine* engine) {
  std::ifstream input(flags.prompts_file);
  if (!input) return Fail(fmt::format("--prompts: cannot read '{}'", flags.prompts_file));
  StatusOr<std::vector<PromptLine>> prompts = ReadPrompts(input, flags.prompts_file, flags);
  if (!prompts.ok()) return Fail("--prompts: " + prompts.status().message());
  std::ofstream file;
  if (!flags.output_file.empty()) {
    file.open(flags.output_file);
    if (!file) return Fail(fmt::format("--output: cannot write '{}'", flags.output_file));
  }
  return PromptsRun(*std::move(prompts), engine, &file).Run();
}

}  // namespace ropeway
