#include "cli/perplexity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/output.h"
#include "base/system.h"
#include "engine/model_vocabulary.h"
#include "model/open_model.h"
#include "ropeway/engine.h"

namespace ropeway::cli {
namespace {

constexpr size_t kMaxFile = size_t{64} << 20;
constexpr size_t kMaxWindowsInFlight = 64;  // Windows whose log-probs are in memory.

// `prefix`: the ids that a window's prompt begins with (BOS, where the model wants one).
struct Tokens {
  std::vector<TokenId> prefix;
  std::vector<TokenId> text;
};

StatusOr<Tokens> Tokenize(const std::string& model, const std::string& text) {
  auto file = model::OpenModel(model);
  if (!file.ok()) return file.status();
  auto tokenizer = engine::LoadTokenizer(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  Tokens tokens;
  // A special token's name in the text is text, not that token.
  tokens.text = (*tokenizer)->Encode(text, {.add_special = false, .parse_special = false});
  const auto empty = (*tokenizer)->Encode("", {.add_special = true, .parse_special = false});
  if (!empty.empty() && (*tokenizer)->bos() == empty.front()) tokens.prefix = {empty.front()};
  return tokens;
}

// Submits windows and takes their log-probs in order; used by one thread.
class Scorer {
 public:
  Scorer(const Tokens* tokens, std::vector<Window> windows, Engine* engine)
      : tokens_(tokens), windows_(std::move(windows)), engine_(engine) {}

  Status Run() {
    for (size_t done = 0; done < windows_.size(); ++done) {
      while (next_ < windows_.size() && running_.size() < kMaxWindowsInFlight) {
        StatusOr<RequestHandle> handle = engine_->Submit(MakeRequest(windows_[next_]));
        if (!handle.ok()) return handle.status();
        running_.push_back(*std::move(handle));
        ++next_;
      }
      const StatusOr<Result> result = running_.front().Wait();
      running_.pop_front();
      if (!result.ok()) return result.status();
      if (!result->status.ok()) return result->status;
      if (Status status = Take(windows_[done], *result); !status.ok()) return status;
      ShowProgress(done + 1);
    }
    return {};
  }

  const Perplexity& perplexity() const { return perplexity_; }
  size_t computed() const { return computed_; }

 private:
  Request MakeRequest(const Window& window) const {
    Request request;
    std::vector<TokenId> ids = tokens_->prefix;
    ids.insert(ids.end(), tokens_->text.begin() + static_cast<ptrdiff_t>(window.begin),
               tokens_->text.begin() + static_cast<ptrdiff_t>(window.end));
    request.prompt = std::move(ids);
    request.max_tokens = 0;
    request.prompt_logprobs = 0;
    return request;
  }

  Status Take(const Window& window, const Result& result) {
    const size_t prefix = tokens_->prefix.size();
    const size_t expected = prefix + window.end - window.begin;
    if (result.prompt_tokens.size() != expected) {
      return {StatusCode::kInternal, fmt::format("got {} log-probs for a window of {} tokens",
                                                 result.prompt_tokens.size(), expected)};
    }
    for (size_t i = window.scored; i < window.end; ++i) {
      perplexity_.Add(result.prompt_tokens[prefix + i - window.begin].logprob);
    }
    computed_ += expected;
    return {};
  }

  // On a terminal one line that is overwritten; otherwise a line for each tenth.
  void ShowProgress(size_t done) {
    const size_t all = windows_.size();
    if (!terminal_ && done * 10 / all == (done - 1) * 10 / all) return;
    base::Note(fmt::format("{}window {} of {}: perplexity {:.4f} +/- {:.4f}{}",
                           terminal_ ? "\r" : "", done, all, perplexity_.value(),
                           perplexity_.standard_error(), terminal_ && done < all ? "" : "\n"));
  }

  const Tokens* const tokens_;
  const std::vector<Window> windows_;
  Engine* const engine_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::deque<RequestHandle> running_;
  size_t next_ = 0;
  Perplexity perplexity_;
  size_t computed_ = 0;
};

int Measure(const PerplexityFlags& flags) {
  const auto context = static_cast<size_t>(flags.context);
  const size_t stride = flags.stride == 0 ? context / 2 : static_cast<size_t>(flags.stride);
  if (stride >= context) return base::Fail("--stride must be below --ctx");
  const StatusOr<EngineOptions> options = ResolveEngine(flags.engine);
  if (!options.ok()) return base::Fail(options.status());
  const std::optional<std::string> text = base::ReadFile(flags.file, kMaxFile);
  if (!text) return base::Fail(fmt::format("--file: cannot read '{}'", flags.file));
  if (text->size() > kMaxFile) {
    return base::Fail(fmt::format("--file: '{}' has more than {} bytes", flags.file, kMaxFile));
  }
  const StatusOr<Tokens> tokens = Tokenize(options->model.path, *text);
  if (!tokens.ok()) return base::Fail(tokens.status());
  auto engine = Engine::Create(*options);
  if (!engine.ok()) return base::Fail(engine.status());
  if (context + tokens->prefix.size() > static_cast<size_t>((*engine)->max_model_len())) {
    return base::Fail(
        fmt::format("--ctx must be at most {}, the limit of the model and the KV cache",
                    (*engine)->max_model_len() - tokens->prefix.size()));
  }
  std::vector<Window> windows = MakeWindows(tokens->text.size(), context, stride);
  if (windows.empty()) return base::Fail("--file: the text has fewer than 2 tokens");

  const size_t count = windows.size();
  const auto start = std::chrono::steady_clock::now();
  Scorer scorer(&*tokens, std::move(windows), engine->get());
  if (Status status = scorer.Run(); !status.ok()) return base::Fail(status);
  const double seconds = base::ToSeconds(std::chrono::steady_clock::now() - start);
  base::Output output;
  output.Write(fmt::format(
      "perplexity {:.4f} +/- {:.4f}\n{} tokens scored, in {} windows of at most {} tokens, stride "
      "{}\n{} tokens computed in {:.1f} s ({:.1f} tokens/s)\n",
      scorer.perplexity().value(), scorer.perplexity().standard_error(),
      scorer.perplexity().count(), count, context, stride, scorer.computed(), seconds,
      static_cast<double>(scorer.computed()) / seconds));
  return output.End();
}

}  // namespace

std::vector<Window> MakeWindows(size_t tokens, size_t context, size_t stride) {
  std::vector<Window> windows;
  if (tokens < 2) return windows;
  size_t scored = 1;
  for (size_t begin = 0; scored < tokens; begin += stride) {
    const size_t end = std::min(begin + context, tokens);
    windows.push_back({begin, end, scored});
    scored = end;
  }
  return windows;
}

void Perplexity::Add(double logprob) {
  ++count_;
  const double delta = logprob - mean_;
  mean_ += delta / static_cast<double>(count_);
  squares_ += delta * (logprob - mean_);
}

double Perplexity::value() const { return std::exp(-mean_); }

double Perplexity::standard_error() const {
  if (count_ < 2) return 0.0;
  const auto n = static_cast<double>(count_);
  return value() * std::sqrt(squares_ / (n - 1) / n);
}

flags::Command PerplexityCommand(PerplexityFlags* flags) {
  const flags::FlagTable text = {
      {"Text",
       {{"--file,-f", flags::TextValue(&flags->file, "FILE").Required(), "File with the text"},
        {"--ctx", flags::IntValue(&flags->context, 2, 1 << 24),
         "Tokens per window, which the model sees at once"},
        {"--stride", flags::IntValue(&flags->stride, 1, 1 << 24).Default("half of --ctx"),
         "Tokens between the starts of two windows, below --ctx. A token is scored in the first "
         "window that contains it, so after the first window each scored token has at least ctx - "
         "stride tokens before it"}}}};
  return {
      "perplexity", "Measure the perplexity of a model on a text",
      flags::Join({text, EngineTable(&flags->engine)}),
      "Perplexity is exp(-mean of ln p) over all scored tokens: all tokens of the text but the\n"
      "first. The error is perplexity * (standard deviation of ln p) / sqrt(tokens).\n\n"
      "Example:\n  ropeway perplexity --file README.md --ctx 256",
      [flags] { return Measure(*flags); }};
}

}  // namespace ropeway::cli
