#include "grammar/range_ebnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace ropeway::grammar {

namespace {

using Json = nlohmann::ordered_json;
using Node = Ebnf::Node;
__extension__ using Wide = __int128;  // 38 digits: 18 before the point and 17 behind it.

constexpr int kWholeDigits = 18;  // Where there is no bound.
constexpr int kDecimals = 17;
// Decimal numbers of so many digits are distinct as doubles.
constexpr int kDistinctDigits = 15;

Wide PowerOfTen(int exponent) {
  Wide power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

// A bound as the schema has it.
struct Bound {
  const char* keyword;
  bool exclusive;
  bool negative = false;
  std::string whole = {};     // Digits before the point: at least one.
  std::string fraction = {};  // Digits behind it; may be empty.
};

std::optional<Bound> ReadBound(const Place& place, const char* keyword, bool exclusive, Type type) {
  const Json* const value = Find(*place.schema, keyword);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    Reject(place.path,
           fmt::format("the keyword '{}' must be a number{}", keyword,
                       value->is_boolean() ? "; draft 4 alone has true and false" : ""));
  }
  constexpr double kExact =
      9007199254740992;  // 2^53: doubles above it stand for several whole numbers.
  const bool is_exact_integer = type == Type::kInteger && value->is_number_integer();
  if (!is_exact_integer && !(std::abs(value->get<double>()) < kExact)) {
    Reject(place.path, fmt::format("the keyword '{}' must be below 2^53{}, got {}", keyword,
                                   type == Type::kInteger ? ", or a whole number of 64 bits" : "",
                                   value->dump()));
  }
  // The shortest text that reads as this double: it has up to 324 zeros behind the point.
  char buffer[512];
  std::string text = value->dump();
  if (value->is_number_float()) {
    const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value->get<double>(),
                                   std::chars_format::fixed);
    text.assign(buffer, end.ptr);
  }
  Bound bound{.keyword = keyword, .exclusive = exclusive};
  bound.negative = text[0] == '-';
  if (bound.negative) text.erase(0, 1);
  const size_t point = std::min(text.find('.'), text.size());
  bound.whole = text.substr(0, point);
  bound.fraction = text.substr(std::min(point + 1, text.size()));
  return bound;
}

// A bound in units of the last decimal. It is inclusive.
struct Limit {
  Wide value;
  const char* keyword;
};

// The least value of `decimals` decimals that the lower bound allows.
Limit RoundUp(const Bound& bound, int decimals) {
  const auto kept = static_cast<size_t>(decimals);
  std::string digits = bound.whole + bound.fraction.substr(0, kept);
  if (bound.fraction.size() < kept) digits.append(kept - bound.fraction.size(), '0');
  Wide value = 0;
  for (const char digit : digits) value = 10 * value + (digit - '0');
  if (bound.negative) value = -value;
  const bool more = bound.fraction.find_first_not_of('0', kept) != std::string::npos;
  if (more ? !bound.negative : bound.exclusive) ++value;
  return {value, bound.keyword};
}

// The most that the upper bound allows.
Limit RoundDown(Bound bound, int decimals) {
  bound.negative = !bound.negative;
  return {-RoundUp(bound, decimals).value, bound.keyword};
}

// Numbers without a sign that have so many digits before the point, from `low` to `high`.
class DigitRange {
 public:
  DigitRange(Ebnf* ebnf, int whole, int decimals, Wide low, Wide high)
      : ebnf_(ebnf),
        whole_(static_cast<size_t>(whole)),
        end_(static_cast<size_t>(whole + decimals)),
        low_(Digits(low)),
        high_(Digits(high)) {}

  Node Write() { return From(0, true, true); }

  // What may follow the digits before the point.
  static Node FreeFraction(Ebnf* ebnf, int decimals) {
    if (decimals == 0) return ebnf->Literal("");
    return ebnf->Optional(
        ebnf->Sequence({ebnf->Literal("."), ebnf->Repeat(ebnf->Class("[0-9]"), 1, decimals)}));
  }

 private:
  std::string Digits(Wide value) const {
    std::string digits(end_, '0');
    for (size_t i = end_; i-- > 0; value /= 10) digits[i] = static_cast<char>('0' + value % 10);
    return digits;
  }

  // What may follow `at` digits. `at_low`: they are those of low_; `at_high`: of high_.
  Node From(size_t at, bool at_low, bool at_high) {
    const auto has = [at](const std::string& digits, char not_only) {
      return digits.find_first_not_of(not_only, at) != std::string::npos;
    };
    at_low = at_low && has(low_, '0');
    at_high = at_high && has(high_, '9');
    const int left = static_cast<int>(end_ - at);
    if (at < whole_) {
      if (at_low || at_high) return Next(at, at_low, at_high);
      const int before_point = static_cast<int>(whole_ - at);
      return ebnf_->Sequence({ebnf_->Repeat(ebnf_->Class("[0-9]"), before_point, before_point),
                              FreeFraction(ebnf_, left - before_point)});
    }
    if (left == 0) return ebnf_->Literal("");
    const Node point = ebnf_->Literal(at == whole_ ? "." : "");
    const bool only_zeros = at_high && !has(high_, '0');
    if (!at_low && (!at_high || only_zeros)) {
      const Node digit = ebnf_->Class(only_zeros ? "[0]" : "[0-9]");
      if (at > whole_) return ebnf_->Repeat(digit, 0, left);
      return ebnf_->Optional(ebnf_->Sequence({point, ebnf_->Repeat(digit, 1, left)}));
    }
    const Node more = ebnf_->Sequence({point, Next(at, at_low, at_high)});
    return at_low ? more : ebnf_->Optional(more);
  }

  // One digit more, and what may follow it.
  Node Next(size_t at, bool at_low, bool at_high) {
    char first = at_low ? low_[at] : '0';
    char last = at_high ? high_[at] : '9';
    std::vector<Node> ways;
    if (at_low && at_high && first == last) {
      ways.push_back(ebnf_->Sequence({Digit(first, first), From(at + 1, true, true)}));
    } else {
      if (at_low) ways.push_back(ebnf_->Sequence({Digit(first, first), From(at + 1, true, false)}));
      if (at_high) ways.push_back(ebnf_->Sequence({Digit(last, last), From(at + 1, false, true)}));
      first = static_cast<char>(first + (at_low ? 1 : 0));
      last = static_cast<char>(last - (at_high ? 1 : 0));
      if (first <= last)
        ways.push_back(ebnf_->Sequence({Digit(first, last), From(at + 1, false, false)}));
    }
    return ebnf_->Shared(ebnf_->Choice(ways));
  }

  Node Digit(char first, char last) {
    if (first == last) return ebnf_->Literal(std::string(1, first));
    return ebnf_->Class(fmt::format("[{}-{}]", first, last));
  }

  Ebnf* const ebnf_;
  const size_t whole_;
  const size_t end_;
  const std::string low_;
  const std::string high_;
};

// Numbers without a sign, in units of the last decimal. REQUIRES: 0 <= low <= high.
Node Magnitudes(Ebnf* ebnf, int decimals, Wide low, Wide high) {
  std::vector<Node> ways;
  int first_free = 0;  // Numbers of so many digits before the point are all allowed...
  int last_free = 0;   // ... up to those of so many.
  for (int whole = 1; whole == 1 || PowerOfTen(whole - 1 + decimals) <= high; ++whole) {
    const Wide start = whole == 1 ? 0 : PowerOfTen(whole - 1 + decimals);
    const Wide end = PowerOfTen(whole + decimals) - 1;
    if (end < low) continue;
    if (whole > 1 && low <= start && end <= high) {
      if (first_free == 0) first_free = whole;
      last_free = whole;
      continue;
    }
    ways.push_back(
        DigitRange(ebnf, whole, decimals, std::max(low, start), std::min(high, end)).Write());
  }
  if (first_free > 0) {
    ways.push_back(ebnf->Sequence(
        {ebnf->Class("[1-9]"), ebnf->Repeat(ebnf->Class("[0-9]"), first_free - 1, last_free - 1),
         DigitRange::FreeFraction(ebnf, decimals)}));
  }
  return ebnf->Shared(ebnf->Choice(ways));
}

}  // namespace

std::optional<Node> NumericRange(const Place& place, Type type, Ebnf* ebnf) {
  const std::optional<Bound> lower[] = {ReadBound(place, "minimum", false, type),
                                        ReadBound(place, "exclusiveMinimum", true, type)};
  const std::optional<Bound> upper[] = {ReadBound(place, "maximum", false, type),
                                        ReadBound(place, "exclusiveMaximum", true, type)};
  int decimals = type == Type::kInteger ? 0 : kDecimals;
  int whole = kWholeDigits;
  for (const std::optional<Bound>& bound : {lower[0], lower[1], upper[0], upper[1]}) {
    if (!bound) continue;
    const int digits = static_cast<int>(bound->whole.size());
    whole = std::max(whole, digits + 1);
    if (bound->exclusive) decimals = std::min(decimals, std::max(kDistinctDigits - digits, 0));
  }
  std::optional<Limit> low;
  std::optional<Limit> high;
  for (const std::optional<Bound>& bound : lower) {
    if (!bound) continue;
    const Limit limit = RoundUp(*bound, decimals);
    if (!low || limit.value > low->value) low = limit;
  }
  for (const std::optional<Bound>& bound : upper) {
    if (!bound) continue;
    const Limit limit = RoundDown(*bound, decimals);
    if (!high || limit.value < high->value) high = limit;
  }
  if (!low && !high) return std::nullopt;
  if (low && high && low->value > high->value) {
    Reject(place.path, fmt::format("the keywords '{}' and '{}' leave no {} between them",
                                   low->keyword, high->keyword,
                                   type == Type::kInteger
                                       ? "integer"
                                       : fmt::format("number of at most {} decimals", decimals)));
  }
  const Wide most = PowerOfTen(whole + decimals) - 1;
  const Wide from = low ? low->value : -most;
  const Wide to = high ? high->value : most;
  std::vector<Node> ways;
  if (to >= 0) ways.push_back(Magnitudes(ebnf, decimals, std::max<Wide>(from, 0), to));
  if (from < 0) {
    ways.push_back(ebnf->Sequence(
        {ebnf->Literal("-"), Magnitudes(ebnf, decimals, std::max<Wide>(-to, 0), -from)}));
  }
  return ebnf->Shared(ebnf->Choice(ways));
}

}  // namespace ropeway::grammar
