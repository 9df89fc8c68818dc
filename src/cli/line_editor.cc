#include "cli/line_editor.h"

#include <fmt/format.h>
#include <histedit.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/output.h"
#include "base/system.h"

namespace ropeway::cli {
namespace {

constexpr size_t kMaxMessages = 1000;
constexpr size_t kMaxHistoryBytes = size_t{128} << 10;
constexpr size_t kMaxMessageBytes = size_t{8} << 10;
constexpr size_t kMaxPaste = size_t{1} << 20;  // Characters.
constexpr size_t kPasteChunk = 4096;           // Bytes: as many as a terminal has at once.
constexpr size_t kMaxCells = size_t{1} << 20;
// A terminal that is told the first sends the second and the third around what is pasted.
constexpr char kPasteOn[] = "\033[?2004h";
constexpr char kPasteOff[] = "\033[?2004l";
constexpr char kPasteKey[] = "\\033[200~";
constexpr std::wstring_view kPasteEnd = L"\033[201~";

// A message on a line of its own.
std::string Escaped(const std::string& message) {
  std::string line;
  for (const char c : message) {
    if (c == '\\' || c == '\n') line += '\\';
    line += c == '\n' ? 'n' : c;
  }
  return line + "\n";
}

std::string Plain(std::string_view line) {
  std::string message;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escaped = line[i] == '\\' && i + 1 < line.size();
    if (escaped) ++i;
    message += escaped && line[i] == 'n' ? '\n' : line[i];
  }
  return message;
}

// Libedit takes memory for each cell of the terminal, however many it says that it has.
bool HasUsableSize() {
  winsize size = {};
  return ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 ||
         size_t{size.ws_row} * size.ws_col <= kMaxCells;
}

bool MovesItsCursor() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && kind != nullptr &&
         *kind != '\0' && std::string_view(kind) != "dumb" && HasUsableSize();
}

// The row of the cursor, counted from the one in which the line begins.
int CursorRow(const std::string& prompt, const LineInfoW& line, int columns) {
  int row = 0;
  int column = static_cast<int>(prompt.size());
  for (const wchar_t* at = line.buffer; at != line.cursor; ++at) {
    column += *at == L'\n' ? columns : std::max(1, wcwidth(*at));
    if (column < columns) continue;
    ++row;
    column = 0;
  }
  return row;
}

// What is pasted; `cut`: beyond the bound it is left out.
std::wstring ReadPaste(EditLine* editor, bool* cut) {
  std::wstring text;
  wchar_t c = 0;
  while (!text.ends_with(kPasteEnd) && el_wgetc(editor, &c) == 1) {
    text += c;
    // What is beyond the bound moves on before the last characters, in which the end may be.
    if (text.size() <= kMaxPaste + kPasteEnd.size()) continue;
    text.erase(kMaxPaste, 1);
    *cut = true;
  }
  if (text.ends_with(kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
  std::wstring shown;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == L'\r' && i + 1 < text.size() && text[i + 1] == L'\n') continue;
    const wchar_t one = text[i] == L'\r' ? L'\n' : text[i];
    const bool control = one < L' ' || (one >= 0x7F && one < 0xA0);
    if (!control || one == L'\n' || one == L'\t') shown += one;
  }
  return shown;
}

}  // namespace

std::vector<std::string> ChatHistory::Load() const {
  std::vector<std::string> messages;
  if (path_.empty()) return messages;
  const StatusOr<std::string> text = base::ReadRegularFile(path_, 2 * kMaxHistoryBytes);
  if (!text.ok()) return messages;
  std::string_view rest = *text;
  for (size_t end = 0; (end = rest.find('\n')) != std::string_view::npos;) {
    messages.push_back(Plain(rest.substr(0, end)));
    rest.remove_prefix(end + 1);
  }
  return messages;
}

void ChatHistory::Add(const std::string& message) const {
  if (path_.empty() || message.size() > kMaxMessageBytes) return;
  std::vector<std::string> messages = Load();
  if (!messages.empty() && messages.back() == message) return;
  messages.push_back(message);
  std::string text;
  size_t first = messages.size();
  for (size_t bytes = 0; first > 0 && messages.size() - first < kMaxMessages; --first) {
    bytes += Escaped(messages[first - 1]).size();
    if (bytes > kMaxHistoryBytes) break;
  }
  for (size_t i = first; i < messages.size(); ++i) text += Escaped(messages[i]);
  if (base::MakePrivateDirectory(std::filesystem::path(path_).parent_path())) return;
  // Whole or not at all, whatever happens meanwhile.
  const std::string fresh = fmt::format("{}.{}", path_, getpid());
  std::FILE* const file = base::OpenPrivateFile(fresh);
  if (file == nullptr) return;
  bool good = fchmod(fileno(file), S_IRUSR | S_IWUSR) == 0;
  good = std::fwrite(text.data(), 1, text.size(), file) == text.size() && good;
  good = std::fclose(file) == 0 && good;
  if (!good || std::rename(fresh.c_str(), path_.c_str()) != 0) unlink(fresh.c_str());
}

struct LineEditor::Terminal {
  Terminal() : editor(el_init("ropeway", stdin, stderr, stderr)), history(history_init()) {
    HistEvent event;
    ::history(history, &event, H_SETSIZE, static_cast<int>(kMaxMessages));
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, &Terminal::Prompt);
    el_set(editor, EL_GETCFN, &Terminal::ReadCharacter);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, ::history, history);
    el_set(editor, EL_ADDFN, "ropeway-paste", "Insert what is pasted", &Paste);
    el_set(editor, EL_BIND, kPasteKey, "ropeway-paste", nullptr);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Terminal() {
    el_end(editor);
    history_end(history);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static Terminal* Of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<Terminal*>(self);
  }
  static char* Prompt(EditLine* editor) { return Of(editor)->prompt.data(); }
  // In place of libedit's own, which may miss a signal. 1: `*character` is there; -1: the line
  // ends. Bytes that are no character are left out.
  static int ReadCharacter(EditLine* editor, wchar_t* character) {
    Terminal* const self = Of(editor);
    std::string bytes;
    while (self->ReadByte(&bytes)) {
      for (; !bytes.empty(); bytes.erase(0, 1)) {
        mbstate_t state = {};
        const size_t length = mbrtowc(character, bytes.data(), bytes.size(), &state);
        if (length == static_cast<size_t>(-2)) break;  // The rest is to come.
        if (length != static_cast<size_t>(-1)) return 1;
      }
    }
    return -1;
  }

  // What is pasted becomes a part of the line, its ends of lines too.
  static unsigned char Paste(EditLine* editor, int) {
    bool cut = false;
    Of(editor)->pasting = true;
    const std::wstring text = ReadPaste(editor, &cut);
    Of(editor)->pasting = false;
    // Before the line grows by rows.
    if (cut) {
      Of(editor)->ShowAnew(
          fmt::format("(the paste is cut: it has more than {} characters)\n", kMaxPaste));
    }
    return el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  // Shows the line that is edited below a note. Some terminals break what they show anew when
  // their width changes, others do not: the cursor goes up by the rows that are there in both.
  void ShowAnew(const std::string& note) {
    const int before = std::exchange(columns, ColumnsOf(STDERR_FILENO));
    int rows = 0;
    if (const LineInfoW* const line = el_wline(editor); columns > 0 && before > 0) {
      rows = std::min(CursorRow(prompt, *line, before), CursorRow(prompt, *line, columns));
    }
    const std::string up = rows > 0 ? fmt::format("\033[{}A", rows) : "";
    std::fputs((up + "\r\033[J" + note).c_str(), stderr);
    el_resize(editor);
    el_set(editor, EL_REFRESH);
  }

  // False: the line ends, and whatever else asks for more of it, as a search does, ends too.
  bool ReadByte(std::string* bytes) {
    if (taken == input.size()) ReadInput();
    if (end) return false;
    *bytes += input[taken++];
    return true;
  }
  void ReadInput() {
    input.clear();
    taken = 0;
    while (!end && !WaitForInput(STDIN_FILENO)) {
      if (CaughtSignals::Take(SIGWINCH)) {
        if (HasUsableSize()) ShowAnew("");
      } else {
        // SIGTERM and SIGHUP take effect when Read has restored the terminal.
        end =
            CaughtSignals::Take(SIGINT) ? LineReader::Event::kInterrupted : LineReader::Event::kEnd;
      }
    }
    if (end) return;
    // What is typed ahead may be for the program after this one.
    input.resize(pasting ? kPasteChunk : 1);
    const ssize_t count = read(STDIN_FILENO, input.data(), input.size());
    input.resize(count > 0 ? static_cast<size_t>(count) : 0);
    if (input.empty()) end = LineReader::Event::kEnd;
  }
  void Remember(const std::string& message) {
    HistEvent event;
    ::history(history, &event, H_ENTER, message.c_str());
  }

  EditLine* const editor;
  History* const history;
  std::string prompt;
  int columns = ColumnsOf(STDERR_FILENO);
  std::string input;                     // Bytes that were read.
  size_t taken = 0;                      // How many bytes of `input` are used.
  bool pasting = false;                  // Many more will come.
  std::optional<LineReader::Event> end;  // How the line ended, except for what is typed.
};

LineEditor::LineEditor(const std::string& history) : history_(history), plain_(STDIN_FILENO) {
  if (!MovesItsCursor()) return;
  terminal_ = std::make_unique<Terminal>();
  for (const std::string& message : history_.Load()) terminal_->Remember(message);
}

LineEditor::~LineEditor() = default;

LineReader::Event LineEditor::Read(const std::string& prompt, std::string* line) {
  if (terminal_ == nullptr || !HasUsableSize()) {
    base::Note(prompt);
    return plain_.Read(line);
  }
  terminal_->prompt = prompt;
  terminal_->end.reset();
  // SIGTERM and SIGHUP end the program once the terminal is as it was.
  const CaughtSignals caught({SIGWINCH, SIGTERM, SIGHUP});
  base::Note(kPasteOn);
  // Before the prompt is there, so that what is typed at once is not shown twice.
  el_set(terminal_->editor, EL_PREP_TERM, 1);
  int count = 0;
  const char* const text = el_gets(terminal_->editor, &count);
  base::Note(kPasteOff);
  if (terminal_->end) return *terminal_->end;
  if (text == nullptr || count <= 0) return LineReader::Event::kEnd;
  *line = text;
  if (line->ends_with('\n')) line->pop_back();
  return LineReader::Event::kLine;
}

void LineEditor::Remember(const std::string& message) {
  if (terminal_ != nullptr) terminal_->Remember(message);
  history_.Add(message);
}

}  // namespace ropeway::cli
