#include "tokenizer/jinja/strftime.h"

#include <array>
#include <stdexcept>

namespace ropeway::jinja {
namespace {

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

std::string Padded(int number, size_t width, char fill = '0') {
  const std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), fill) + digits : digits;
}

int Hour12(const std::tm& time) { return time.tm_hour % 12 == 0 ? 12 : time.tm_hour % 12; }

std::string Conversion(char kind, const std::tm& time) {
  std::string day = kDays[static_cast<size_t>(time.tm_wday)];
  std::string month = kMonths[static_cast<size_t>(time.tm_mon)];
  switch (kind) {
    case '%':
      return "%";
    case 'A':
      return day;
    case 'a':
      return day.substr(0, 3);
    case 'B':
      return month;
    case 'b':
    case 'h':
      return month.substr(0, 3);
    case 'c':
      return Strftime("%a %b %e %H:%M:%S %Y", time);
    case 'D':
    case 'x':
      return Strftime("%m/%d/%y", time);
    case 'd':
      return Padded(time.tm_mday, 2);
    case 'e':
      return Padded(time.tm_mday, 2, ' ');
    case 'F':
      return Strftime("%Y-%m-%d", time);
    case 'H':
      return Padded(time.tm_hour, 2);
    case 'I':
      return Padded(Hour12(time), 2);
    case 'j':
      return Padded(time.tm_yday + 1, 3);
    case 'M':
      return Padded(time.tm_min, 2);
    case 'm':
      return Padded(time.tm_mon + 1, 2);
    case 'p':
      return time.tm_hour < 12 ? "AM" : "PM";
    case 'R':
      return Strftime("%H:%M", time);
    case 'S':
      return Padded(time.tm_sec, 2);
    case 'T':
    case 'X':
      return Strftime("%H:%M:%S", time);
    case 'u':
      return std::to_string(time.tm_wday == 0 ? 7 : time.tm_wday);
    case 'w':
      return std::to_string(time.tm_wday);
    case 'Y':
      return std::to_string(time.tm_year + 1900);
    case 'y':
      return Padded(time.tm_year % 100, 2);
    default:
      throw std::invalid_argument(std::string("strftime_now with %") + kind + " is not supported");
  }
}

// glibc's: "%-d" is without padding.
std::string WithoutPadding(const std::string& text) {
  const size_t first = text.find_first_not_of("0 ");
  return first == text.npos ? text.substr(text.size() - 1) : text.substr(first);
}

}  // namespace

std::string Strftime(std::string_view format, const std::tm& time) {
  std::string text;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      text += format[at];
      continue;
    }
    const bool bare = format.substr(at + 1).starts_with('-');
    at += bare ? 2 : 1;
    if (at >= format.size()) throw std::invalid_argument("strftime_now: the format ends within %");
    const std::string part = Conversion(format[at], time);
    text += bare ? WithoutPadding(part) : part;
  }
  return text;
}

}  // namespace ropeway::jinja
