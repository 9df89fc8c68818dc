#include "cli/top_render.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ropeway::cli {
namespace {

using Lines = std::vector<TopLine>;

constexpr int kLabel = 8;  // Columns of the words before bars and percentiles.
constexpr int kLeastBar = 8;
constexpr int kMostBar = 48;
constexpr int kTimesWidth = 45;    // Of the table of percentiles.
constexpr int kClassesWidth = 33;  // Of the table of classes.
constexpr int kGap = 2;            // Between tables beside each other.
constexpr int kWide = 100;         // From here on tables of requests have more columns.
constexpr int kNarrow = 75;        // Below it they have fewer.
constexpr size_t kTableLines = 5;  // Of tables beside each other, with their titles.
constexpr size_t kLeastRows = 4;   // For requests, before other parts give way.
constexpr size_t kMostEndedOnce = 10;
constexpr size_t kMostBackends = 6;

Tone StateTone(const std::string& state) {
  if (state == "running" || state == "up") return Tone::kGood;
  const bool passes = state == "waiting" || state == "encoding" || state == "returning" ||
                      state == "busy" || state == "draining";
  return passes ? Tone::kWarning : Tone::kBad;
}

Tone ClassTone(const std::string& priority) {
  if (priority == "high") return Tone::kTitle;
  return priority == "low" ? Tone::kDim : Tone::kNone;
}

std::string Named(const std::string& name) { return name.empty() ? "-" : name; }

// Lays out one screen.
class Layout {
 public:
  Layout(const TopModel& model, const TopView& view, int width)
      : model_(model), view_(view), width_(width) {}

  TopScreen Draw(int height) const {
    Lines lines = Top(0);
    const size_t most = height > 0 ? static_cast<size_t>(height) : SIZE_MAX;
    const size_t below = view_.keys ? 1 : 0;
    for (int level = 1; level <= 3 && lines.size() + below + kLeastRows > most; ++level) {
      lines = Top(level);
    }
    TopScreen screen;
    const size_t rest = most - std::min(most, lines.size() + below);
    AddLists(rest, height == 0, &lines, &screen.most_scroll);
    while (height > 0 && lines.size() + below < most) lines.push_back(Line());
    if (view_.keys) lines.push_back(Keys());
    for (const TopLine& line : lines) {
      if (screen.lines.size() < most) screen.lines.push_back(line.text());
    }
    return screen;
  }

 private:
  TopLine Line() const { return {width_, view_.paint}; }

  // All above the requests. The higher the level, the more is left out.
  Lines Top(int level) const {
    Lines lines = {Header()};
    if (level >= 3) return lines;
    AddMeters(&lines);
    if (level < 2) AddTables(&lines);
    if (level < 1 && !ShowsTenantsBeside()) AddTenantsLine(&lines);
    if (level < 2 && model_.gateway()) AddBackends(&lines);
    return lines;
  }

  TopLine Header() const {
    std::string models;
    for (const std::string& name : model_.models) models += (models.empty() ? "" : ", ") + name;
    const std::string left =
        fmt::format(" ropeway {}  {}  {}  {}", model_.version, model_.kind, models, view_.server);
    std::string right = view_.lost;
    if (right.empty()) right = "connected " + SecondsText(view_.connected);
    if (view_.paused) right = "PAUSED  " + right;
    right += ' ';
    const int most = std::max(width_ * 2 / 3, 0);
    const int at_right = std::min(DisplayWidth(right), most);
    TopLine line = Line();
    const Tone tone = view_.paint == Paint::kPlain ? Tone::kNone : Tone::kBar;
    line.Add(Fit(left, width_ - at_right - 1) + " ", tone);
    line.Add(Fit(right, at_right), view_.lost.empty() ? tone : Tone::kBad);
    return line;
  }

  void AddMeters(Lines* lines) const {
    const int bar = std::clamp(width_ - kLabel - 46, kLeastBar, kMostBar);
    int64_t running = 0;
    int64_t waiting = 0;
    for (const TopClass& one : model_.classes) {
      running += one.running;
      waiting += one.waiting;
    }
    TopLine slots = Label("Slots");
    if (model_.slots > 0) {
      AddBar({{static_cast<double>(running)}}, static_cast<double>(model_.slots), bar, view_.paint,
             &slots);
      slots.Add(fmt::format(" {}/{} running", CountText(running), CountText(model_.slots)));
    } else {
      slots.Add(CountText(running) + " running");
    }
    slots.Add(fmt::format("  {} waiting", CountText(waiting)),
              waiting > 0 ? Tone::kWarning : Tone::kNone);
    if (!model_.gateway()) slots.Add("  busy " + PercentText(model_.busy));
    lines->push_back(slots);
    if (!model_.gateway()) lines->push_back(Blocks(bar));
    TopLine rates = Label("Tokens");
    rates.Add(fmt::format("prompt {}  output {}", RateText(model_.prompt_rate),
                          RateText(model_.output_rate)));
    rates.Add(fmt::format("  late {}", CountText(window().late)),
              window().late > 0 ? Tone::kBad : Tone::kNone);
    if (!model_.strategy.empty()) rates.Add("  strategy " + model_.strategy, Tone::kDim);
    lines->push_back(rates);
  }

  TopLine Blocks(int bar) const {
    TopLine line = Label("Blocks");
    const auto held = static_cast<double>(model_.held_blocks);
    const auto cached = static_cast<double>(model_.cached_blocks);
    AddBar({{held, Tone::kHeld, '#'}, {cached, Tone::kCached, '+'}},
           held + cached + static_cast<double>(model_.free_blocks), bar, view_.paint, &line);
    line.Add(fmt::format(" {} held", CountText(model_.held_blocks)), Tone::kHeld);
    line.Add(fmt::format("  {} cached", CountText(model_.cached_blocks)), Tone::kCached);
    line.Add(fmt::format("  {} free  {} disk", CountText(model_.free_blocks),
                         CountText(model_.disk_blocks)));
    return line;
  }

  // Percentiles, and beside them the classes and the tenants where there is room.
  void AddTables(Lines* lines) const {
    const Lines times = Times();
    const Lines classes = ShowsClassesBeside() ? Classes() : Lines{};
    const Lines tenants = ShowsTenantsBeside() ? Tenants() : Lines{};
    for (size_t i = 0; i < times.size(); ++i) {
      TopLine line = Line();
      line.Add(times[i]);
      if (i < classes.size()) line.Pad(kTimesWidth + kGap).Add(classes[i]);
      if (i < tenants.size()) line.Pad(TenantsColumn()).Add(tenants[i]);
      lines->push_back(line);
    }
    if (!ShowsClassesBeside()) AddClassesLine(lines);
  }

  bool ShowsClassesBeside() const { return width_ >= kTimesWidth + kGap + kClassesWidth; }
  bool ShowsTenantsBeside() const { return width_ >= TenantsColumn() + 30; }
  static int TenantsColumn() { return kTimesWidth + 2 * kGap + kClassesWidth; }

  Lines Times() const {
    const std::vector<TopColumn> columns = {{view_.hour ? "hour" : "minute", kLabel - 1, false},
                                            {"p50", 8},
                                            {"p95", 8},
                                            {"p99", 8},
                                            {"count", 8}};
    Lines lines = {TitleRow(columns, kTimesWidth, view_.paint)};
    const TopWindow& all = window();
    const auto add = [&](const char* name, const TopTimes& times) {
      const auto cell = [&](double ms) {
        return TopCell{times.count > 0 ? MillisecondsText(ms) : "-"};
      };
      lines.push_back(TableRow(
          columns,
          {{name}, cell(times.p50), cell(times.p95), cell(times.p99), {CountText(times.count)}},
          kTimesWidth, view_.paint));
    };
    add("TTFT", all.ttft);
    add("ITL", all.itl);
    add("e2e", all.e2e);
    if (!model_.gateway()) add("step", all.step);
    return lines;
  }

  Lines Classes() const {
    const std::vector<TopColumn> columns = {
        {"class", 6, false}, {"waiting", 8}, {"running", 8}, {"wait", 8}};
    Lines lines = {TitleRow(columns, kClassesWidth, view_.paint)};
    for (size_t i = 0; i < kTopClasses.size(); ++i) {
      const TopClass& one = model_.classes[i];
      lines.push_back(TableRow(columns,
                               {{kTopClasses[i], ClassTone(kTopClasses[i])},
                                {CountText(one.waiting)},
                                {CountText(one.running)},
                                {SecondsText(one.wait)}},
                               kClassesWidth, view_.paint));
    }
    if (!model_.blocked_by.empty()) {
      lines.emplace_back(kClassesWidth, view_.paint);
      lines.back().Add(Fit("waits for " + model_.blocked_by, kClassesWidth), Tone::kWarning);
    }
    return lines;
  }

  Lines Tenants() const {
    const int width = width_ - TenantsColumn();
    const std::vector<TopColumn> columns = {{"tenant", 0, false}, {"waiting", 8}, {"running", 8}};
    Lines lines = {TitleRow(columns, width, view_.paint)};
    for (const TopTenant& tenant : model_.tenants) {
      if (lines.size() == kTableLines) break;
      lines.push_back(TableRow(
          columns, {{Named(tenant.name)}, {CountText(tenant.waiting)}, {CountText(tenant.running)}},
          width, view_.paint));
    }
    return lines;
  }

  void AddTenantsLine(Lines* lines) const {
    // Where the server has no keys, all requests are of one tenant without a name.
    if (model_.tenants.empty() || model_.tenants[0].name.empty()) return;
    TopLine line = Label("Tenants");
    for (const TopTenant& tenant : model_.tenants) {
      const std::string text =
          fmt::format("{} {}", Fit(tenant.name, std::min(DisplayWidth(tenant.name), 20)),
                      Counts(tenant.running, tenant.waiting));
      if (line.used() + DisplayWidth(text) + kGap > width_) break;
      line.Add(text + "  ");
    }
    lines->push_back(line);
  }

  void AddClassesLine(Lines* lines) const {
    TopLine line = Label("Queue");
    for (size_t i = 0; i < kTopClasses.size(); ++i) {
      const TopClass& one = model_.classes[i];
      line.Add(fmt::format("{} {}  ", kTopClasses[i], Counts(one.running, one.waiting)));
    }
    if (!model_.blocked_by.empty()) line.Add("waits for " + model_.blocked_by, Tone::kWarning);
    lines->push_back(line);
  }

  static std::string Counts(int64_t running, int64_t waiting) {
    std::string text = CountText(running);
    if (waiting > 0) text += fmt::format(" (+{} waiting)", CountText(waiting));
    return text;
  }

  void AddBackends(Lines* lines) const {
    std::vector<TopColumn> columns = {
        {"BACKEND", 0, false}, {"STATE", 10, false}, {"PLACES", 9}, {"P50", 8}, {"P99", 8},
        {"SENT", 8},           {"RETRIES", 7},       {"FAILED", 7}};
    if (width_ >= kWide) columns.push_back({"RESUMED", 7});
    lines->push_back(TitleRow(columns, width_, view_.paint));
    for (size_t i = 0; i < std::min(model_.backends.size(), kMostBackends); ++i) {
      const TopBackend& one = model_.backends[i];
      const auto known = [](double ms) { return ms > 0 ? MillisecondsText(ms) : "-"; };
      lines->push_back(
          TableRow(columns,
                   {{one.name},
                    {one.state, StateTone(one.state)},
                    {fmt::format("{}/{}", CountText(one.in_flight), CountText(one.limit))},
                    {known(one.p50)},
                    {known(one.p99)},
                    {CountText(one.sent)},
                    {CountText(one.retries)},
                    {CountText(one.failures), one.failures > 0 ? Tone::kWarning : Tone::kNone},
                    {CountText(one.resumptions)}},
                   width_, view_.paint));
    }
  }

  // The requests and below them those that ended, in at most `rest` lines.
  void AddLists(size_t rest, bool once, Lines* lines, size_t* most_scroll) const {
    const size_t need =
        1 + std::max<size_t>(model_.requests.size(), 1) + (model_.requests_left_out > 0 ? 1 : 0);
    size_t ended = model_.ended.empty() ? 0 : model_.ended.size() + 1;
    if (once) ended = std::min(ended, kMostEndedOnce + 1);
    size_t shown = std::min(need, rest);
    if (need + ended > rest) {
      const size_t left = rest - shown;
      ended = std::min(ended, std::max(rest / 3, left));
      if (ended < 2) ended = 0;
      shown = std::min(need, rest - ended);
    }
    AddRequests(shown, lines, most_scroll);
    AddEnded(ended, lines);
  }

  // `most` lines, with the title.
  void AddRequests(size_t most, Lines* lines, size_t* most_scroll) const {
    if (most == 0) return;
    const std::vector<TopColumn> columns = RequestColumns();
    lines->push_back(TitleRow(columns, width_, view_.paint));
    size_t rows = most - 1;
    if (model_.requests.empty() && rows > 0) {
      lines->push_back(Line().Add("no requests", Tone::kDim));
      return;
    }
    const bool more = model_.requests_left_out > 0 && rows > 1;
    if (more) --rows;
    const size_t count = model_.requests.size();
    *most_scroll = count - std::min(count, rows);
    const size_t first = std::min(view_.scroll, *most_scroll);
    for (size_t i = first; i < std::min(count, first + rows); ++i) {
      lines->push_back(TableRow(columns, RequestCells(model_.requests[i]), width_, view_.paint));
    }
    if (more) {
      lines->push_back(Line().Add(
          fmt::format("and {} more requests", CountText(model_.requests_left_out)), Tone::kDim));
    }
  }

  bool wide() const { return width_ >= kWide; }
  bool narrow() const { return width_ < kNarrow; }

  std::vector<TopColumn> RequestColumns() const {
    std::vector<TopColumn> columns = {{"REQUEST", 8}, {"TENANT", 0, false}};
    if (!narrow()) columns.push_back({"CLASS", 6, false});
    columns.push_back({"STATE", 9, false});
    if (!model_.gateway() && wide()) columns.push_back({"", 12, false});
    columns.push_back({"PROMPT", model_.gateway() ? 8 : 13});
    if (!model_.gateway()) columns.push_back({"OUTPUT", 7});
    columns.push_back({"AGE", 7});
    if (!narrow()) columns.push_back({"POS", 5});
    if (model_.gateway()) columns.push_back({"BACKEND", wide() ? 32 : 20, false});
    return columns;
  }

  std::vector<TopCell> RequestCells(const TopRequest& request) const {
    std::vector<TopCell> cells = {{std::to_string(request.id)}, {Named(request.tenant)}};
    if (!narrow()) cells.push_back({request.priority, ClassTone(request.priority)});
    cells.push_back({request.state, StateTone(request.state)});
    if (!model_.gateway() && wide()) cells.push_back({PromptBar(request)});
    const std::string prompt = request.prompt > 0 ? CountText(request.prompt) : "-";
    const bool computing = request.computed && *request.computed < request.prompt;
    cells.push_back({computing ? fmt::format("{}/{}", *request.computed, request.prompt) : prompt});
    if (!model_.gateway()) cells.push_back({request.output ? CountText(*request.output) : "-"});
    cells.push_back({SecondsText(request.age)});
    if (!narrow()) cells.push_back({request.position ? CountText(*request.position) : "-"});
    if (model_.gateway()) cells.push_back({Named(request.backend)});
    return cells;
  }

  // How much of the prompt is computed, until all of it is.
  std::string PromptBar(const TopRequest& request) const {
    if (!request.computed || *request.computed >= request.prompt) return "";
    TopLine line(12, Paint::kPlain);
    AddBar({{static_cast<double>(*request.computed)}}, static_cast<double>(request.prompt), 12,
           Paint::kPlain, &line);
    return line.text();
  }

  void AddEnded(size_t most, Lines* lines) const {
    if (most == 0) return;
    std::vector<TopColumn> columns = {{"ENDED", 8}, {"TENANT", 0, false}};
    if (wide()) columns.push_back({"CLASS", 6, false});
    columns.insert(columns.end(), {{"REASON", 9, false}, {"PROMPT", 7}});
    if (!narrow()) columns.push_back({"CACHED", 7});
    columns.push_back({"OUTPUT", 7});
    if (!narrow()) columns.push_back({"QUEUE", 7});
    columns.insert(columns.end(), {{"PREFILL", 7}, {"DECODE", 7}});
    if (wide()) columns.push_back({"PREEMPTED", 9});
    lines->push_back(TitleRow(columns, width_, view_.paint));
    for (size_t i = 0; i + 1 < most && i < model_.ended.size(); ++i) {
      const TopEnded& one = model_.ended[i];
      std::vector<TopCell> cells = {{std::to_string(one.id)}, {Named(one.tenant)}};
      if (wide()) cells.push_back({one.priority, ClassTone(one.priority)});
      const bool failed = one.reason == "failed";
      cells.insert(cells.end(),
                   {{one.reason, failed ? Tone::kBad : Tone::kNone}, {CountText(one.prompt)}});
      if (!narrow()) cells.push_back({CountText(one.cached)});
      cells.push_back({CountText(one.output)});
      if (!narrow()) cells.push_back({MillisecondsText(one.queue_ms)});
      cells.insert(cells.end(),
                   {{MillisecondsText(one.prefill_ms)}, {MillisecondsText(one.decode_ms)}});
      if (wide()) cells.push_back({CountText(one.preemptions)});
      lines->push_back(TableRow(columns, cells, width_, view_.paint));
    }
  }

  TopLine Keys() const {
    TopLine line = Line();
    const auto key = [&line](const char* letter, const char* what) {
      line.Add(letter, Tone::kTitle).Add(fmt::format(" {}  ", what), Tone::kDim);
    };
    key("q", "quit");
    key("m", "minute");
    key("h", "hour");
    key("p", view_.paused ? "go on" : "pause");
    key("j/k", "scroll");
    if (view_.scroll > 0) line.Add(fmt::format("from row {}", view_.scroll + 1), Tone::kDim);
    return line;
  }

  TopLine Label(const char* text) const {
    TopLine line = Line();
    line.Add(Fit(text, kLabel), Tone::kTitle);
    return line;
  }

  const TopWindow& window() const { return view_.hour ? model_.hour : model_.minute; }

  const TopModel& model_;
  const TopView& view_;
  const int width_;
};

}  // namespace

TopScreen Render(const TopModel& model, const TopView& view, int width, int height) {
  return Layout(model, view, std::max(width, 1)).Draw(height);
}

}  // namespace ropeway::cli
