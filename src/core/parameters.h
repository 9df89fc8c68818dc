// The parameters of a request as rows of one table. All that reads, checks, passes on, defaults or
// documents a parameter goes over the rows, so that a new one is a row and what computes it.
#ifndef ROPEWAY_CORE_PARAMETERS_H_
#define ROPEWAY_CORE_PARAMETERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "ropeway/options.h"
#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::core {

// Kinds of servers, by the parameters that they know: bits of Parameter::known.
enum ServerKind : uint32_t {
  kOpenAi = 1U << 0U,
  kVllm = 1U << 1U,
  kSglang = 1U << 2U,
  kLmStudio = 1U << 3U,
  kLlamaCpp = 1U << 4U,
  kOllama = 1U << 5U,
  kRopeway = 1U << 6U,
};

// Where a request keeps a parameter.
using ParameterMember =
    std::variant<float SamplingParams::*, int32_t SamplingParams::*,
                 std::optional<uint64_t> SamplingParams::*,
                 std::vector<LogitBias> SamplingParams::*, std::optional<int32_t> Request::*,
                 std::vector<std::string> Request::*, std::vector<TokenId> Request::*,
                 bool Request::*, std::string Request::*>;

// Where SamplingDefaults keep it; none: no model comes with a value of it.
using DefaultMember = std::variant<std::monostate, std::optional<float> SamplingDefaults::*,
                                   std::optional<int32_t> SamplingDefaults::*>;

struct Parameter {
  const char* name;
  ParameterMember member;
  // A number's or a list's numbers lie in [low, high], a text's bytes too.
  double low = 0;
  double high = 0;
  bool above_low = false;  // Without `low` itself.
  size_t most = 0;         // Entries of a list.
  int no_limit = 0;        // The number by which a body says that there is none; 0: no number does.
  // The number that changes nothing: above this for top_k. NaN: there is none.
  double off = 0;
  // Its bit of SamplingParams::given; 0: it counts as given where it is not off or empty.
  uint32_t given = 0;
  DefaultMember of_model = {};
  // Its key in GGUF files, behind "general.sampling."; null: none.
  const char* gguf = nullptr;
  // Kinds of servers that take it, by `name` except those in `known_as`, by aliases[0]. Another
  // Ropeway's seed and salt depend on rights, and are written by its wire format.
  uint32_t known = 0;
  uint32_t known_as = 0;
  // What requests may call it besides; null: no more.
  std::array<const char*, 4> aliases = {};
  const char* help = nullptr;    // Its flag's help, which `run` has; null: no flag.
  const char* letter = nullptr;  // Another name of that: "-n".
};

// All of them, in the order in which they are shown.
std::span<const Parameter> Parameters();
// The row of this name; null: none.
const Parameter* FindParameter(std::string_view name);

// What such a server calls it; null: it does not take it.
const char* NameAt(const Parameter& row, ServerKind kind);

// What a number has to be: "a number above 0 and at most 1", "an integer from 0 to 20".
std::string Expected(const Parameter& row);
// Whether a number is in the row's range; not-a-number never is.
bool Within(const Parameter& row, double value);

// kInvalidArgument with the parameter's name for a value out of its range, or too many of them.
Status CheckParameter(const Parameter& row, const Request& request);

// Whether the request's sender gave it, and whether it changes anything: a sender may give what is
// off.
bool IsGiven(const Parameter& row, const Request& request);
bool Changes(const Parameter& row, const Request& request);

// Calls `visit` with the request's value. T: Request, or a const one.
template <typename T, typename Visit>
decltype(auto) VisitValue(const Parameter& row, T& request, Visit&& visit) {
  return std::visit(
      [&](auto member) -> decltype(auto) {
        if constexpr (std::is_invocable_v<decltype(member), Request&>) {
          return visit(request.*member);
        } else {
          return visit(request.sampling.*member);
        }
      },
      row.member);
}

// Calls `visit` with the members of SamplingDefaults and of SamplingParams that keep it, in this
// order, where a model may come with it.
template <typename Visit>
void VisitDefault(const Parameter& row, Visit&& visit) {
  const auto with = [&]<typename T>(std::optional<T> SamplingDefaults::*of_model) {
    visit(of_model, std::get<T SamplingParams::*>(row.member));
  };
  if (const auto* real = std::get_if<1>(&row.of_model)) with(*real);
  if (const auto* whole = std::get_if<2>(&row.of_model)) with(*whole);
}

// Whether a model may come with a value of it.
inline bool HasDefault(const Parameter& row) { return row.of_model.index() != 0; }
// Sets such a value.
void SetDefault(const Parameter& row, double value, SamplingDefaults* defaults);

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_PARAMETERS_H_
