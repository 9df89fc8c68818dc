// The lines of `ropeway top`: texts cut by the columns that they take, and in colours.
#ifndef ROPEWAY_CLI_TOP_TEXT_H_
#define ROPEWAY_CLI_TOP_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropeway::cli {

// How a screen may look: plain text, bold and dim text alone, or colours too.
enum class Paint { kPlain, kBold, kColors };

enum class Tone { kNone, kTitle, kDim, kBar, kGood, kWarning, kBad, kHeld, kCached };

// The columns that a text takes. REQUIRES: SetCharacterLocale was called.
int DisplayWidth(std::string_view text);

// `text` cut or filled with spaces to exactly this number of columns; what is cut ends in "…".
// `right`: it stands at the right. Of characters that take no column, more than two on one place
// are left out.
std::string Fit(std::string_view text, int columns, bool right = false);

// Numbers as the screen shows them.
std::string CountText(int64_t count);     // "1,234", "12.3M"
std::string RateText(double rate);        // "856/s"
std::string MillisecondsText(double ms);  // "4.2 ms", "120 ms", "1.24 s", "2m05s"
std::string SecondsText(double seconds);  // "0.5 s", "12 s", "2m05s", "3h12m"
std::string PercentText(double share);    // "87 %"

// One line of the screen, at most `width` columns of it.
class TopLine {
 public:
  TopLine(int width, Paint paint) : width_(width), paint_(paint) {}

  // Appends the text, or as much of it as fits.
  TopLine& Add(std::string_view text, Tone tone = Tone::kNone);
  // Appends the other line where all of it fits.
  TopLine& Add(const TopLine& other);
  // Fills it with spaces to this column.
  TopLine& Pad(int column, Tone tone = Tone::kNone);

  int used() const { return used_; }
  const std::string& text() const { return text_; }

 private:
  int width_;
  Paint paint_;
  int used_ = 0;
  std::string text_;
};

// A bar of `columns` for the parts of a total, in brackets. Each part has its tone and its
// character for plain text. What is not 0 gets a column where there is room. A total of 0 is an
// empty bar.
struct BarPart {
  double amount = 0;
  Tone tone = Tone::kGood;
  char plain = '#';
};
void AddBar(const std::vector<BarPart>& parts, double total, int columns, Paint paint,
            TopLine* line);

// A table's column. One column of width 0 takes what the others leave.
struct TopColumn {
  std::string_view title;
  int width = 0;
  bool right = true;
};
struct TopCell {
  std::string text;
  Tone tone = Tone::kNone;
};
TopLine TitleRow(const std::vector<TopColumn>& columns, int width, Paint paint);
TopLine TableRow(const std::vector<TopColumn>& columns, const std::vector<TopCell>& cells,
                 int width, Paint paint);

}  // namespace ropeway::cli

#endif  // ROPEWAY_CLI_TOP_TEXT_H_
