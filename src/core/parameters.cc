#include "core/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ropeway::core {
namespace {

using P = SamplingParams;
using D = SamplingDefaults;

constexpr double kInt32 = std::numeric_limits<int32_t>::max();
constexpr double kNeverOff = std::numeric_limits<double>::quiet_NaN();
constexpr uint32_t kWithTopK = kVllm | kSglang | kLmStudio | kLlamaCpp | kOllama | kRopeway;
constexpr uint32_t kAll = kOpenAi | kWithTopK;

constexpr Parameter kParameters[] = {
    {.name = "max_tokens",
     .member = &Request::max_tokens,
     .high = kInt32,
     .no_limit = -1,  // As llama.cpp has it: until the context ends.
     .known = kAll,
     .known_as = kOllama,
     .aliases = {"num_predict", "n_predict", "max_completion_tokens", "max_output_tokens"},
     .help = "Maximum number of tokens to generate",
     .letter = "-n"},
    {.name = "temperature",
     .member = &P::temperature,
     .high = 2,
     .off = kNeverOff,
     .given = P::kTemperature,
     .of_model = &D::temperature,
     .gguf = "temp",
     .known = kAll,
     .help =
         "Sampling temperature; 0 always takes the most probable token, higher values vary more"},
    {.name = "top_k",
     .member = &P::top_k,
     .low = -1,
     .high = kInt32,
     .given = P::kTopK,
     .of_model = &D::top_k,
     .gguf = "top_k",
     .known = kWithTopK,
     .help = "Choose among the k most probable tokens; 0: all"},
    {.name = "top_p",
     .member = &P::top_p,
     .high = 1,
     .above_low = true,
     .off = 1,
     .given = P::kTopP,
     .of_model = &D::top_p,
     .gguf = "top_p",
     .known = kAll,
     .help = "Choose among the most probable tokens that together reach this probability"},
    {.name = "min_p",
     .member = &P::min_p,
     .high = 1,
     .given = P::kMinP,
     .of_model = &D::min_p,
     .gguf = "min_p",
     .known = kWithTopK & ~uint32_t{kLmStudio},
     .help = "Leave out tokens below this fraction of the highest token probability"},
    {.name = "typical_p",
     .member = &P::typical_p,
     .high = 1,
     .above_low = true,
     .off = 1,
     .given = P::kTypicalP,
     .known = kLlamaCpp | kOllama | kRopeway,
     .aliases = {"typ_p"},
     .help = "Locally typical sampling: keep tokens up to this total probability"},
    {.name = "presence_penalty",
     .member = &P::presence_penalty,
     .low = -2,
     .high = 2,
     .given = P::kPresencePenalty,
     .known = kAll,
     .help = "Make tokens that were already generated less probable"},
    {.name = "frequency_penalty",
     .member = &P::frequency_penalty,
     .low = -2,
     .high = 2,
     .given = P::kFrequencyPenalty,
     .known = kAll,
     .help = "Make tokens less probable for each time that they were already generated"},
    {.name = "repetition_penalty",
     .member = &P::repetition_penalty,
     .high = 10,
     .above_low = true,
     .off = 1,
     .given = P::kRepetitionPenalty,
     .of_model = &D::repetition_penalty,
     .gguf = "penalty_repeat",
     .known = kWithTopK,
     .known_as = kLmStudio | kLlamaCpp | kOllama,
     .aliases = {"repeat_penalty"},
     .help =
         "If above 1, make tokens that were already generated or are in the prompt less probable"},
    {.name = "logit_bias",
     .member = &P::logit_bias,
     .low = -100,
     .high = 100,
     .most = 1024,
     .known = kAll & ~uint32_t{kOllama}},
    {.name = "seed",
     .member = &P::seed,
     .given = P::kSeed,
     .known = kAll & ~uint32_t{kRopeway},
     .help = "Random seed; the same seed and prompt give the same answer"},
    {.name = "min_tokens",
     .member = &P::min_tokens,
     .high = kInt32,
     .known = kVllm | kSglang | kRopeway},
    {.name = "stop",
     .member = &Request::stop,
     .low = 1,
     .high = 1024,
     .most = 16,
     .known = kAll,
     .help = "End the answer before this text"},
    {.name = "stop_token_ids",
     .member = &Request::stop_token_ids,
     .high = kInt32,
     .most = 128,
     .known = kVllm | kSglang | kRopeway},
    {.name = "ignore_eos",
     .member = &Request::ignore_eos,
     .known = kVllm | kSglang | kLlamaCpp | kRopeway,
     .help = "Continue where the model would end its answer"},
    {.name = "cache_salt", .member = &Request::cache_salt, .low = 1, .high = 256, .known = kVllm},
};

template <typename Member>
bool Holds(const Parameter& row) {
  return std::holds_alternative<Member>(row.member);
}

// Checks of one row's value, by its type.
struct ValueCheck {
  Status operator()(const std::vector<LogitBias>& biases) const {
    if (Status status = Count(biases.size()); !status.ok()) return status;
    std::vector<TokenId> ids;
    ids.reserve(biases.size());
    for (const LogitBias& bias : biases) {
      ids.push_back(bias.id);
      if (!Within(row, bias.bias)) return Wrong(fmt::format(" of token {}", bias.id), bias.bias);
    }
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    if (twice == ids.end()) return {};
    return InvalidArgument(fmt::format("{} names token {} twice", row.name, *twice), row.name);
  }
  Status operator()(const std::vector<std::string>& texts) const {
    if (Status status = Count(texts.size()); !status.ok()) return status;
    for (const std::string& text : texts) {
      if (Status status = Bytes("a string in ", text); !status.ok()) return status;
    }
    return {};
  }
  Status operator()(const std::vector<TokenId>& ids) const { return Count(ids.size()); }
  Status operator()(const std::string& text) const {
    return text.empty() ? Status() : Bytes("", text);
  }
  Status operator()(const std::optional<uint64_t>&) const { return {}; }
  Status operator()(const std::optional<int32_t>& value) const {
    return value ? (*this)(*value) : Status();
  }
  Status operator()(bool) const { return {}; }
  template <typename Number>
  Status operator()(Number value) const {
    return Within(row, value) ? Status() : Wrong("", value);
  }

  Status Count(size_t count) const {
    if (count <= row.most) return {};
    return InvalidArgument(
        fmt::format("{} may hold at most {} entries, not {}", row.name, row.most, count), row.name);
  }
  Status Bytes(const char* of, const std::string& text) const {
    if (Within(row, static_cast<double>(text.size()))) return {};
    return InvalidArgument(fmt::format("{}{} must have {} to {} bytes, not {}", of, row.name,
                                       row.low, row.high, text.size()),
                           row.name);
  }
  template <typename Number>
  Status Wrong(const std::string& of, Number value) const {
    return InvalidArgument(
        fmt::format("{}{} must be {}, not {}", row.name, of, Expected(row), value), row.name);
  }

  const Parameter& row;
};

}  // namespace

std::span<const Parameter> Parameters() { return kParameters; }

const Parameter* FindParameter(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kParameters), std::end(kParameters),
                                         [name](const Parameter& row) { return row.name == name; });
  return found == std::end(kParameters) ? nullptr : found;
}

const char* NameAt(const Parameter& row, ServerKind kind) {
  if ((row.known & kind) == 0) return nullptr;
  return (row.known_as & kind) != 0 ? row.aliases[0] : row.name;
}

std::string Expected(const Parameter& row) {
  if (Holds<float P::*>(row) || Holds<std::vector<LogitBias> P::*>(row)) {
    return fmt::format("a number {} {} and at most {}", row.above_low ? "above" : "of at least",
                       row.low, row.high);
  }
  return fmt::format("an integer from {} to {:.0f}", row.low, row.high);
}

bool Within(const Parameter& row, double value) {
  // A double above 0 may be none as a float.
  if (Holds<float P::*>(row)) value = static_cast<float>(value);
  return value <= row.high && (row.above_low ? value > row.low : value >= row.low);
}

Status CheckParameter(const Parameter& row, const Request& request) {
  return VisitValue(row, request, ValueCheck{row});
}

bool IsGiven(const Parameter& row, const Request& request) {
  if (row.given == 0) return Changes(row, request);
  // A seed may be absent where all are said to be given.
  return (request.sampling.given & row.given) != 0 &&
         (!Holds<std::optional<uint64_t> P::*>(row) || Changes(row, request));
}

bool Changes(const Parameter& row, const Request& request) {
  const auto changes = [&row]<typename T>(const T& value) -> bool {
    if constexpr (std::is_same_v<T, float>) {
      return value != row.off;
    } else if constexpr (std::is_same_v<T, int32_t>) {
      return value > row.off;
    } else if constexpr (std::is_same_v<T, bool>) {
      return value;
    } else if constexpr (requires { value.has_value(); }) {
      return value.has_value();
    } else {
      return !value.empty();
    }
  };
  const bool given = row.given == 0 || (request.sampling.given & row.given) != 0;
  return given && VisitValue(row, request, changes);
}

void SetDefault(const Parameter& row, double value, SamplingDefaults* defaults) {
  VisitDefault(row, [&]<typename T>(auto of_model, T SamplingParams::*) {
    defaults->*of_model = static_cast<T>(value);
  });
}

}  // namespace ropeway::core

namespace ropeway {

SamplingDefaults SamplingDefaults::Or(const SamplingDefaults& other) const {
  SamplingDefaults both = *this;
  for (const core::Parameter& row : core::Parameters()) {
    core::VisitDefault(row, [&](auto of_model, auto) {
      if (!(both.*of_model)) both.*of_model = other.*of_model;
    });
  }
  return both;
}

void SamplingDefaults::ApplyTo(SamplingParams* params) const {
  for (const core::Parameter& row : core::Parameters()) {
    core::VisitDefault(row, [&](auto of_model, auto member) {
      params->*member = (this->*of_model).value_or(params->*member);
    });
  }
}

}  // namespace ropeway
