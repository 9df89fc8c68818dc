#include "cli/top.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/output.h"
#include "cli/terminal.h"
#include "cli/top_feed.h"
#include "cli/top_render.h"
#include "cli/top_screen.h"

namespace ropeway::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPeriod{100};        // From one screen to the next, at least.
constexpr milliseconds kTick{1000};         // And at most: times go on.
constexpr milliseconds kStepPatience{600};  // For the tokens of requests, in a screen that stays.
constexpr int kPlainColumns = 120;

double SecondsSince(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

milliseconds Until(steady_clock::time_point moment) {
  const auto left = std::chrono::ceil<milliseconds>(moment - steady_clock::now());
  return std::max(left, milliseconds(0));
}

Paint PaintOf(bool terminal) {
  if (!terminal) return Paint::kPlain;
  const char* const without = std::getenv("NO_COLOR");
  return without != nullptr && *without != '\0' ? Paint::kBold : Paint::kColors;
}

StatusOr<net::BaseUrl> UrlOf(const TopFlags& flags) {
  StatusOr<net::BaseUrl> url = net::ParseBaseUrl(flags.url, "--url");
  if (url.ok() && url->path.ends_with("/v1")) url->path.resize(url->path.size() - 3);
  return url;
}

// Waits for the first frame. With `once` also for a step, from which come the tokens of requests.
Status WaitForFrame(const TopFeed& feed, bool once) {
  auto deadline = steady_clock::time_point::max();
  while (true) {
    feed.Rest();
    const TopNews news = feed.News();
    if (!news.failure.ok()) return news.failure;
    if (!news.lost.empty()) return {};
    if (news.model.frames() > 0) {
      const bool runs = std::any_of(news.model.requests.begin(), news.model.requests.end(),
                                    [](const auto& one) { return one.state == "running"; });
      if (!once || !runs || news.model.gateway() || news.model.knows_steps()) return {};
      deadline = std::min(deadline, steady_clock::now() + kStepPatience);
      if (steady_clock::now() >= deadline) return {};
    }
    pollfd ready = {feed.descriptor(), POLLIN, 0};
    poll(&ready, 1, static_cast<int>(std::min(Until(deadline), kTick).count()));
  }
}

// The screen and what its keys change.
class TopProgram {
 public:
  TopProgram(const TopFlags& flags, std::string server, TopFeed* feed) : feed_(*feed) {
    view_.server = std::move(server);
    view_.hour = flags.window == "hour";
  }

  int PrintOnce() {
    news_ = feed_.News();
    view_.paint = Paint::kPlain;
    view_.keys = false;
    view_.connected = SecondsSince(news_.since);
    view_.lost = news_.lost;
    const int columns = ColumnsOf(STDOUT_FILENO);
    base::Output output;
    for (std::string line :
         Render(news_.model, view_, columns > 0 ? columns : kPlainColumns, 0).lines) {
      line.resize(line.find_last_not_of(' ') + 1);
      output.Write(line + "\n");
    }
    return output.End();
  }

  int Run() {
    view_.paint = PaintOf(true);
    Status failure;
    {
      // Before the terminal, so that a signal takes effect when it is as it was.
      const CaughtSignals caught({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT});
      TopTerminal terminal;
      failure = Loop(&terminal);
    }
    return failure.ok() ? 0 : base::Fail(failure);
  }

 private:
  // Until a key, a signal or an error ends it.
  Status Loop(TopTerminal* terminal) {
    auto drawn = steady_clock::time_point::min();
    while (true) {
      feed_.Rest();
      TopNews news = feed_.News();
      if (!news.failure.ok()) return news.failure;
      if (!view_.paused && news.model.frames() > 0) news_ = news;
      view_.lost = LostText(news);
      view_.connected = SecondsSince(news.since);
      drawn = steady_clock::now();
      if (!Draw(terminal)) return {};
      if (!WaitForChange(terminal, drawn)) return {};
    }
  }

  // Waits until the next screen is due. False: the program ends.
  bool WaitForChange(TopTerminal* terminal, steady_clock::time_point drawn) {
    bool changed = false;
    while (true) {
      const milliseconds patience = Until(drawn + (changed ? kPeriod : kTick));
      if (patience == milliseconds(0)) return true;
      const int news = changed ? -1 : feed_.descriptor();  // poll(2) skips what is below 0.
      const bool quiet = WaitForInput({STDIN_FILENO, news}, patience);
      if (!quiet && !HandleSignal(terminal)) return false;
      if (IsReadableWithin(STDIN_FILENO, milliseconds(0))) {
        if (!TopTerminal::Read(&typed_)) return false;
        for (const TopKey key : TakeKeys(&typed_)) {
          if (key == TopKey::kQuit) return false;
          Press(key);
        }
        changed = true;
      }
      if (!quiet || (news >= 0 && IsReadableWithin(news, milliseconds(0)))) changed = true;
    }
  }

  // False: the program ends. Other signals than Ctrl-C do what they do without it, once the
  // terminal is as it was.
  static bool HandleSignal(TopTerminal* terminal) {
    if (CaughtSignals::Take(SIGINT)) return false;
    if (CaughtSignals::Take(SIGTSTP)) {
      terminal->Leave();
      raise(SIGSTOP);
      CaughtSignals::Take(SIGCONT);
      terminal->Enter();
      return true;
    }
    if (CaughtSignals::Take(SIGCONT)) {  // The shell may have changed the terminal.
      terminal->Enter();
      return true;
    }
    if (!CaughtSignals::Take(SIGWINCH)) return false;
    terminal->Forget();
    return true;
  }

  bool Draw(TopTerminal* terminal) {
    const int columns = ColumnsOf(STDOUT_FILENO);
    const int rows = RowsOf(STDOUT_FILENO);
    const TopScreen screen =
        Render(news_.model, view_, columns > 0 ? columns : 80, rows > 0 ? rows : 24);
    most_scroll_ = screen.most_scroll;
    view_.scroll = std::min(view_.scroll, most_scroll_);
    page_ = static_cast<size_t>(std::max(rows / 2, 1));
    return terminal->Draw(screen.lines);
  }

  void Press(TopKey key) {
    const size_t scroll = view_.scroll;
    switch (key) {
      case TopKey::kMinute:
      case TopKey::kHour:
        view_.hour = key == TopKey::kHour;
        break;
      case TopKey::kPause:
        view_.paused = !view_.paused;
        break;
      case TopKey::kUp:
        view_.scroll -= std::min<size_t>(scroll, 1);
        break;
      case TopKey::kPageUp:
        view_.scroll -= std::min(scroll, page_);
        break;
      case TopKey::kDown:
        view_.scroll = std::min(scroll + 1, most_scroll_);
        break;
      case TopKey::kPageDown:
        view_.scroll = std::min(scroll + page_, most_scroll_);
        break;
      case TopKey::kHome:
        view_.scroll = 0;
        break;
      case TopKey::kEnd:
        view_.scroll = most_scroll_;
        break;
      case TopKey::kQuit:
        break;
    }
  }

  static std::string LostText(const TopNews& news) {
    return news.lost.empty() ? "" : "CONNECTION LOST, trying again: " + news.lost;
  }

  TopFeed& feed_;
  TopNews news_;
  TopView view_;
  std::string typed_;
  size_t most_scroll_ = 0;
  size_t page_ = 1;
};

int RunTop(const TopFlags& flags) {
  if (flags.admin_key.find_first_of("\r\n") != std::string::npos) {
    return base::Fail("--admin-key must be one line.");
  }
  const StatusOr<net::BaseUrl> url = UrlOf(flags);
  if (!url.ok()) return base::Fail(url.status());
  SetCharacterLocale();
  const bool once = flags.once || !HasTopTerminal();
  const auto feed = TopFeed::Open({*url, flags.admin_key, flags.insecure});
  if (!feed.ok()) return base::Fail(feed.status());
  if (const Status status = WaitForFrame(**feed, once); !status.ok()) return base::Fail(status);
  TopProgram program(flags, url->Text(), feed->get());
  return once ? program.PrintOnce() : program.Run();
}

}  // namespace

flags::Command TopCommand(TopFlags* f) {
  flags::Command command;
  command.name = "top";
  command.description = "Show what a server does, in the terminal";
  command.flags = {
      {"Server",
       {{"--url", flags::TextValue(&f->url, "URL"),
         "The server or gateway: http://HOST:PORT, with or without /v1"},
        {"--admin-key",
         flags::TextValue(&f->admin_key, "KEY").NotEmpty().Environment("ROPEWAY_ADMIN_KEY"),
         "The server's admin key, where it has keys"},
        {"--insecure", flags::SwitchValue(&f->insecure), "Accept any certificate (https)"}}},
      {"Output",
       {{"--window", flags::ChoiceValue(&f->window, {"minute", "hour"}),
         "Percentiles of the last minute or hour; the keys m and h change it"},
        {"--once", flags::SwitchValue(&f->once),
         "Print one screen as plain text and end, as without a terminal"}}}};
  command.footer =
      "Keys: q quits, m and h choose the last minute or hour, p pauses, j and k scroll.\n"
      "NO_COLOR=1 leaves out the colours.\n\n"
      "Example:\n  ropeway top --once";
  command.run = [f] { return RunTop(*f); };
  return command;
}

}  // namespace ropeway::cli
