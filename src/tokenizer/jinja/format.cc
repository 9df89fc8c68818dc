#include <locale.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>

#include "base/words.h"
#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/text.h"

namespace ropeway::tokenizer::jinja {
namespace {

constexpr int kMaxWidth = 1000;
constexpr int kMaxPrecision = 100;

struct Conversion {
  bool left = false;
  bool zero = false;
  bool plus = false;
  bool space = false;
  int width = 0;
  int precision = -1;
  char kind = 's';
};

class PercentFormat {
 public:
  PercentFormat(const Str& format, const Value& values, Context& context)
      : whole_(format), format_(format.text), values_(values), context_(context), text_(&context) {}

  Str Run() {
    context_.Charge(format_.size());
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      text_.AddPart(whole_, format_.substr(at_, percent - at_));
      at_ = percent;
      if (at_ == format_.size()) break;
      ++at_;
      const std::optional<Value> named = TakeName();
      const Conversion conversion = TakeConversion();
      if (conversion.kind == '%') {
        text_.Add("%", AnyQuoted(whole_, format_.substr(percent, 1)));
      } else {
        Append(conversion, named ? *named : Next());
      }
    }
    const size_t count = values_.is_tuple() ? values_.list().size() : 1;
    if (next_ < count && !values_.is_dict()) Reject("% does not use all arguments");
    return text_.Take();
  }

 private:
  // "(name)" of "%(name)s".
  std::optional<Value> TakeName() {
    if (at_ >= format_.size() || format_[at_] != '(') return std::nullopt;
    const size_t end = format_.find(')', at_);
    if (end == format_.npos || !values_.is_dict()) Reject("%(...) needs a dictionary");
    context_.Charge(values_.dict().size());
    const Value* value = values_.Find(format_.substr(at_ + 1, end - at_ - 1));
    if (value == nullptr) Reject("%(...) names a key that is not in the dictionary");
    at_ = end + 1;
    return *value;
  }

  int TakeNumber(int limit) {
    int number = 0;
    for (; at_ < format_.size() && IsDigit(format_[at_]); ++at_) {
      number = number * 10 + (format_[at_] - '0');
      if (number > limit) Reject("the width or precision of % is too large");
    }
    return number;
  }

  Conversion TakeConversion() {
    Conversion result;
    for (; at_ < format_.size(); ++at_) {
      const char c = format_[at_];
      if (c == '-') {
        result.left = true;
      } else if (c == '0') {
        result.zero = true;
      } else if (c == '+') {
        result.plus = true;
      } else if (c == ' ') {
        result.space = true;
      } else {
        break;
      }
    }
    result.width = TakeNumber(kMaxWidth);
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      result.precision = TakeNumber(kMaxPrecision);
    }
    if (at_ >= format_.size()) Reject("the format ends in the middle of a % conversion");
    result.kind = format_[at_++];
    return result;
  }

  Value Next() {
    const bool is_tuple = values_.is_tuple();
    if (next_ >= (is_tuple ? values_.list().size() : 1)) Reject("not enough arguments for %");
    return is_tuple ? values_.list()[next_++] : (++next_, values_);
  }

  std::string Digits(const Conversion& conversion, const Value& value) const {
    if (!value.is_number()) RejectValue(std::string("%") + conversion.kind, value);
    std::array<char, 512> buffer{};
    if (conversion.kind == 'f') {
      const int precision = conversion.precision < 0 ? 6 : conversion.precision;
      const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.number(),
                                     std::chars_format::fixed, precision);
      return {buffer.data(), end.ptr};
    }
    if (conversion.precision >= 0) Reject("a precision of %d is not supported");
    int64_t integer = 0;
    if (value.is_integral()) {
      integer = value.integer();
    } else if (conversion.kind == 'd' && std::abs(value.number()) < 9e18) {
      integer = static_cast<int64_t>(value.number());
    } else {
      RejectValue(std::string("%") + conversion.kind, value);
    }
    const int base = conversion.kind == 'd' ? 10 : 16;
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), integer, base);
    std::string text(buffer.data(), end.ptr);
    if (conversion.kind == 'X') {
      std::transform(text.begin(), text.end(), text.begin(),
                     [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c; });
    }
    return text;
  }

  std::string NumberText(const Conversion& conversion, const Value& value) const {
    std::string digits = Digits(conversion, value);
    std::string sign;
    if (digits.starts_with('-')) {
      sign = "-";
      digits.erase(0, 1);
    } else if (conversion.plus || conversion.space) {
      sign = conversion.plus ? "+" : " ";
    }
    const size_t width = static_cast<size_t>(conversion.width);
    if (conversion.zero && !conversion.left && sign.size() + digits.size() < width) {
      digits.insert(0, width - sign.size() - digits.size(), '0');
    }
    return sign + digits;
  }

  void Append(Conversion conversion, const Value& value) {
    if (conversion.kind == 'i' || conversion.kind == 'u') conversion.kind = 'd';
    if (conversion.kind == 'F') conversion.kind = 'f';
    Str text;
    if (conversion.kind == 's' || conversion.kind == 'r') {
      text = conversion.kind == 's' ? ToText(value, context_) : ToRepr(value, context_);
      if (conversion.precision >= 0) text = Shortened(text, conversion.precision);
    } else if (std::string_view("dfxX").find(conversion.kind) != std::string_view::npos) {
      text.text = NumberText(conversion, value);
    } else {
      Reject(std::string("%") + conversion.kind + " is not supported");
    }
    const size_t width = static_cast<size_t>(conversion.width);
    const size_t size = CountCharacters(text.text);
    const std::string padding(size < width ? width - size : 0, ' ');
    context_.Charge(text.text.size() + padding.size());
    if (!conversion.left) text_.Add(padding);
    text_.Add(text);
    if (conversion.left) text_.Add(padding);
  }

  static Str Shortened(const Str& text, int length) {
    const std::vector<std::string_view> characters = Characters(text.text);
    const size_t count = std::min(characters.size(), static_cast<size_t>(length));
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += characters[i].size();
    return PartOf(text, std::string_view(text.text).substr(0, bytes));
  }

  const Str& whole_;
  const std::string_view format_;  // Its text.
  const Value& values_;
  Context& context_;
  StrBuilder text_;
  size_t at_ = 0;
  size_t next_ = 0;
};

// The argument for {name}; `next` counts the fields without a name.
const Value& FieldOf(std::string_view name, const Arguments& arguments, size_t& next) {
  if (name.empty() || IsDigit(name[0])) {
    size_t index = next++;
    if (!name.empty()) {
      const std::optional<size_t> number = base::ParseNumber<size_t>(name);
      if (!number) Reject("{" + std::string(name) + "} in a format is not supported");
      index = *number;
    }
    if (index >= arguments.rest().size()) Reject("not enough arguments for the format");
    return arguments.rest()[index];
  }
  for (const auto& [known, value] : arguments.named()) {
    if (known == name) return value;
  }
  Reject("{" + std::string(name) + "} in a format is not supported, or has no argument");
}

// The conversions of ISO C's strftime, without time zones and weeks.
constexpr std::string_view kTimeFields = "%AaBbhcDxdeFHIjMmpRSTXuwYy";

}  // namespace

Str FormatPercent(const Str& format, const Value& values, Context& context) {
  return PercentFormat(format, values, context).Run();
}

Str FormatBraces(const Str& whole, const Arguments& arguments, Context& context) {
  const std::string_view format = whole.text;
  context.Charge(format.size());
  StrBuilder text(&context);
  size_t next = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      text.AddPart(whole, format.substr(at, 1));
    } else if (at + 1 < format.size() && format[at + 1] == c) {
      text.AddPart(whole, format.substr(at, 1));
      ++at;
    } else {
      const size_t end = c == '{' ? format.find('}', at) : format.npos;
      if (end == format.npos) Reject("the format has an unmatched brace");
      const std::string_view name = format.substr(at + 1, end - at - 1);
      text.Add(ToText(FieldOf(name, arguments, next), context));
      at = end;
    }
  }
  return text.Take();
}

std::string Strftime(std::string_view format, const std::tm& time) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string text;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      text += format[at];
      continue;
    }
    std::string field = "%";
    if (format.substr(at + 1).starts_with('-')) field += format[++at];  // glibc: without padding.
    if (++at >= format.size())
      Reject("strftime_now: the format ends in the middle of a % conversion");
    if (kTimeFields.find(format[at]) == kTimeFields.npos) {
      Reject(std::string("strftime_now with %") + format[at] + " is not supported");
    }
    field += format[at];
    std::array<char, 64> buffer{};
    text.append(buffer.data(),
                strftime_l(buffer.data(), buffer.size(), field.c_str(), &time, c_locale));
  }
  return text;
}

}  // namespace ropeway::tokenizer::jinja
