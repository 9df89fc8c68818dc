#include "cli/top_screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cli/terminal.h"

namespace ropeway::cli {
namespace {

// The other screen, without a cursor and without lines that go on in the next one; and back.
constexpr std::string_view kEnterScreen = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr std::string_view kLeaveScreen = "\033[0m\033[?7h\033[?25h\033[?1049l";

constexpr std::array<std::pair<std::string_view, TopKey>, 25> kKeys = {{
    {"q", TopKey::kQuit},         {"Q", TopKey::kQuit},       {"m", TopKey::kMinute},
    {"h", TopKey::kHour},         {"p", TopKey::kPause},      {" ", TopKey::kPause},
    {"k", TopKey::kUp},           {"\033[A", TopKey::kUp},    {"\033OA", TopKey::kUp},
    {"j", TopKey::kDown},         {"\033[B", TopKey::kDown},  {"\033OB", TopKey::kDown},
    {"\033[5~", TopKey::kPageUp}, {"\002", TopKey::kPageUp},  {"\033[6~", TopKey::kPageDown},
    {"\006", TopKey::kPageDown},  {"g", TopKey::kHome},       {"\033[H", TopKey::kHome},
    {"\033OH", TopKey::kHome},    {"\033[1~", TopKey::kHome}, {"G", TopKey::kEnd},
    {"\033[F", TopKey::kEnd},     {"\033OF", TopKey::kEnd},   {"\033[4~", TopKey::kEnd},
    {"\004", TopKey::kQuit},
}};

// The length of what one key sent; 0: its rest has not come.
size_t LengthOfKey(std::string_view typed) {
  if (typed[0] != '\033') return 1;
  if (typed.size() < 2) return 0;
  if (typed[1] == 'O') return typed.size() < 3 ? 0 : 3;
  if (typed[1] != '[') return 1;  // Escape alone, and another key after it.
  for (size_t i = 2; i < typed.size(); ++i) {
    if (typed[i] >= 0x40 && typed[i] <= 0x7E) return i + 1;
  }
  return typed.size() > 32 ? typed.size() : 0;
}

bool WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

std::vector<TopKey> TakeKeys(std::string* typed) {
  std::vector<TopKey> keys;
  std::string_view rest = *typed;
  while (!rest.empty()) {
    const size_t length = LengthOfKey(rest);
    if (length == 0) break;
    for (const auto& [text, key] : kKeys) {
      if (rest.substr(0, length) == text) keys.push_back(key);
    }
    rest.remove_prefix(length);
  }
  typed->erase(0, typed->size() - rest.size());
  return keys;
}

bool HasTopTerminal() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && kind != nullptr &&
         *kind != '\0' && std::string_view(kind) != "dumb";
}

TopTerminal::TopTerminal() { Enter(); }

void TopTerminal::Enter() {
  shown_.clear();
  if (!entered_) tcgetattr(STDIN_FILENO, &before_);
  entered_ = true;
  termios modes = before_;
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
  WriteAll(kEnterScreen);
}

void TopTerminal::Leave() {
  if (!std::exchange(entered_, false)) return;
  WriteAll(kLeaveScreen);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

bool TopTerminal::Draw(const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i < shown_.size() && shown_[i] == lines[i]) continue;
    // Behind a line of all columns the cursor stands on the last one, so the row is erased before.
    text += fmt::format("\033[{};1H\033[2K{}", i + 1, lines[i]);
  }
  if (lines.size() < shown_.size()) text += fmt::format("\033[{};1H\033[J", lines.size() + 1);
  if (shown_.empty()) text.insert(0, "\033[2J");
  shown_ = lines;
  return WriteAll(text);
}

bool TopTerminal::Read(std::string* typed) {
  std::array<char, 256> bytes;
  const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count > 0) typed->append(bytes.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace ropeway::cli
