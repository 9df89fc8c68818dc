#include "cli/top_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cwchar>

#include "base/utf8.h"

namespace ropeway::cli {
namespace {

constexpr std::string_view kCutMark = "\xE2\x80\xA6";  // "…"
constexpr int kMostCombined = 2;                       // Characters without a column on one place.
constexpr int kLeastFlexible = 6;

// The columns of the character; 1 where they are not known.
int WidthOf(const base::Utf8Step& step) {
  if (step.kind != base::Utf8Kind::kValid) return 1;
  return std::abs(wcwidth(static_cast<wchar_t>(step.code_point)));
}

// The beginning of `text` that takes at most `columns`, and the columns that it takes.
std::pair<std::string, int> Beginning(std::string_view text, int columns) {
  std::string begun;
  int used = 0;
  int combined = 0;
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    const std::string_view one = text.substr(at, step.length);
    at += step.length;
    const int width = WidthOf(step);
    combined = width == 0 ? combined + 1 : 0;
    if (combined > kMostCombined || (width == 0 && used == 0)) continue;
    if (used + width > columns) break;
    begun += step.kind == base::Utf8Kind::kValid ? one : base::kReplacementCharacter;
    used += width;
  }
  return {std::move(begun), used};
}

std::string_view CodeOf(Tone tone, Paint paint) {
  if (paint == Paint::kPlain) return "";
  const bool colors = paint == Paint::kColors;
  switch (tone) {
    case Tone::kNone:
      return "";
    case Tone::kTitle:
      return "\033[1m";
    case Tone::kDim:
      return colors ? "\033[90m" : "\033[2m";
    case Tone::kBar:
      return "\033[7m";
    case Tone::kGood:
      return colors ? "\033[32m" : "";
    case Tone::kWarning:
      return colors ? "\033[33m" : "";
    case Tone::kBad:
      return colors ? "\033[31m" : "\033[1m";
    case Tone::kHeld:
      return colors ? "\033[34m" : "";
    case Tone::kCached:
      return colors ? "\033[36m" : "";
  }
  return "";
}

std::string Grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

int FlexibleWidth(const std::vector<TopColumn>& columns, int width) {
  int fixed = static_cast<int>(columns.size()) - 1;  // A space between two.
  for (const TopColumn& column : columns) fixed += column.width;
  return std::max(width - fixed, kLeastFlexible);
}

}  // namespace

int DisplayWidth(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    const base::Utf8Step step = base::StepUtf8(text, at);
    at += step.length;
    width += WidthOf(step);
  }
  return width;
}

std::string Fit(std::string_view text, int columns, bool right) {
  if (columns <= 0) return "";
  const bool fits = DisplayWidth(text) <= columns;
  auto [shown, used] = Beginning(text, fits ? columns : columns - 1);
  if (!fits) {
    shown += kCutMark;
    ++used;
  }
  const std::string fill(static_cast<size_t>(columns - used), ' ');
  return right ? fill + shown : shown + fill;
}

std::string CountText(int64_t count) {
  if (count < 1'000'000) return Grouped(count);
  const double number = static_cast<double>(count);
  return number < 1e9 ? fmt::format("{:.1f}M", number / 1e6) : fmt::format("{:.1f}G", number / 1e9);
}

std::string RateText(double rate) {
  return rate > 0 && rate < 9.95 ? fmt::format("{:.1f}/s", rate)
                                 : CountText(std::llround(rate)) + "/s";
}

std::string MillisecondsText(double ms) {
  if (ms < 9.95) return fmt::format("{:.1f} ms", ms);
  if (ms < 999.5) return fmt::format("{:.0f} ms", ms);
  if (ms < 9995) return fmt::format("{:.2f} s", ms / 1e3);
  return SecondsText(ms / 1e3);
}

std::string SecondsText(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", std::min<int64_t>(whole / 86'400, 9999), whole / 3600 % 24);
}

std::string PercentText(double share) { return fmt::format("{:.0f} %", share * 100); }

TopLine& TopLine::Add(std::string_view text, Tone tone) {
  auto [shown, used] = Beginning(text, width_ - used_);
  if (shown.empty()) return *this;
  const std::string_view code = CodeOf(tone, paint_);
  text_ += code;
  text_ += shown;
  if (!code.empty()) text_ += "\033[0m";
  used_ += used;
  return *this;
}

TopLine& TopLine::Add(const TopLine& other) {
  if (used_ + other.used_ > width_) return *this;
  text_ += other.text_;
  used_ += other.used_;
  return *this;
}

TopLine& TopLine::Pad(int column, Tone tone) {
  if (column > used_) Add(std::string(static_cast<size_t>(column - used_), ' '), tone);
  return *this;
}

void AddBar(const std::vector<BarPart>& parts, double total, int columns, Paint paint,
            TopLine* line) {
  const int inner = columns - 2;
  if (inner < 1) return;
  line->Add("[");
  int left = inner;
  for (const BarPart& part : parts) {
    if (total <= 0 || part.amount <= 0) continue;
    const auto exact = static_cast<int>(std::lround(std::min(part.amount / total, 1.0) * inner));
    const int count = std::min(std::max(exact, 1), left);
    left -= count;
    std::string text;
    for (int i = 0; i < count; ++i) {
      if (paint == Paint::kPlain) {
        text += part.plain;
      } else {
        text += part.tone == Tone::kCached ? "\xE2\x96\x92" : "\xE2\x96\x88";  // ▒ and █
      }
    }
    line->Add(text, part.tone);
  }
  std::string rest;
  for (int i = 0; i < left; ++i) rest += paint == Paint::kPlain ? "." : "\xE2\x96\x91";  // ░
  line->Add(rest, Tone::kDim);
  line->Add("]");
}

TopLine TitleRow(const std::vector<TopColumn>& columns, int width, Paint paint) {
  const int flexible = FlexibleWidth(columns, width);
  std::string text;
  for (const TopColumn& column : columns) {
    if (!text.empty()) text += ' ';
    text += Fit(column.title, column.width > 0 ? column.width : flexible, column.right);
  }
  TopLine line(width, paint);
  line.Add(text, Tone::kTitle);
  return line;
}

TopLine TableRow(const std::vector<TopColumn>& columns, const std::vector<TopCell>& cells,
                 int width, Paint paint) {
  const int flexible = FlexibleWidth(columns, width);
  TopLine line(width, paint);
  for (size_t i = 0; i < columns.size() && i < cells.size(); ++i) {
    if (i > 0) line.Add(" ");
    const int columns_of_it = columns[i].width > 0 ? columns[i].width : flexible;
    line.Add(Fit(cells[i].text, columns_of_it, columns[i].right), cells[i].tone);
  }
  return line;
}

}  // namespace ropeway::cli
