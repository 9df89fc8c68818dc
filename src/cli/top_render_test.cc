#include "cli/top_render.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace ropeway::cli {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

// A server in the middle of its work: three slots, a request that was preempted, and others that
// wait.
TopModel BusyModel() {
  TopModel model;
  EXPECT_TRUE(model
                  .Take("hello", R"({"version":"0.1.0","kind":"engine","models":["SmolLM2-135M"],
                                     "slots":3,"strategy":"continuous"})")
                  .ok());
  EXPECT_TRUE(
      model
          .Take("frame",
                R"({"at":1.0,"steps":[{"step":7,"rows":[[1,1,1100,1],[2,0,0,512],[4,1,20,1]]}],
      "requests":[
        {"id":1,"tenant":"acme","class":"high","state":"running","age":12.3,"position":null,"prompt":1000},
        {"id":2,"tenant":"Bücher 图书馆","class":"medium","state":"running","age":0.51,"position":null,"prompt":2048},
        {"id":4,"tenant":"acme","class":"low","state":"preempted","age":100,"position":null,"prompt":15},
        {"id":5,"tenant":"acme","class":"low","state":"waiting","age":7,"position":0,"prompt":30},
        {"id":6,"tenant":"a name that is much longer than its column can ever be","class":"low",
         "state":"waiting","age":7,"position":1,"prompt":1234567},
        {"id":7,"tenant":"acme","class":"low","state":"encoding","age":0.02,"position":null,"prompt":0}],
      "requests_left_out":0,
      "ended":[{"number":1,"id":3,"tenant":"acme","class":"high","reason":"stop","prompt":900,
                "cached":640,"output":64,"preemptions":0,"queue_ms":1.5,"prefill_ms":210.2,
                "decode_ms":1240,"at":0.5},
               {"number":2,"id":0,"tenant":"zoo","class":"low","reason":"failed","prompt":9,
                "cached":0,"output":0,"preemptions":2,"queue_ms":61000,"prefill_ms":0,
                "decode_ms":0,"at":0.9}],
      "queue":{"blocked_by":"max_num_seqs","classes":{
        "high":{"waiting":0,"running":1,"wait":0.00},"medium":{"waiting":0,"running":1,"wait":1.25},
        "low":{"waiting":4,"running":0,"wait":75}},
        "tenants":[{"name":"acme","waiting":3,"running":1},{"name":"Bücher 图书馆","waiting":0,"running":1}],
        "tenants_left_out":0},
      "blocks":{"free":600,"held":120,"cached":304,"disk":12},
      "rates":{"prompt":1234.5,"output":7.25,"busy":0.873},
      "minute":{"ttft_ms":{"count":34,"p50":120.4,"p95":340,"p99":1203},
                "itl_ms":{"count":12345,"p50":12.1,"p95":18.0,"p99":25.2},
                "e2e_ms":{"count":34,"p50":2100,"p95":12000,"p99":130000},
                "step_ms":{"count":412,"p50":9.9,"p95":14,"p99":21},"late":2},
      "hour":{"ttft_ms":{"count":1000,"p50":77,"p95":88,"p99":99},"itl_ms":{"count":0},
              "e2e_ms":{"count":0},"step_ms":{"count":0},"late":0}})")
          .ok());
  return model;
}

TopView Plain() {
  SetCharacterLocale();
  return {.server = "http://127.0.0.1:8080", .connected = 65, .paint = Paint::kPlain};
}

std::string Whole(const std::vector<std::string>& lines) {
  std::string text = "\n";
  for (std::string line : lines) {
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// A line without what sets colours.
std::string Bare(const std::string& line) {
  std::string bare;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033') {
      i = line.find('m', i);
    } else {
      bare += line[i];
    }
  }
  return bare;
}

TEST(TopRender, AScreenOf80Columns) {
  EXPECT_EQ(Whole(Render(BusyModel(), Plain(), 80, 24).lines), R"(
 ropeway 0.1.0  engine  SmolLM2-135M  http://127.0.0.1:8080     connected 1m05s
Slots   [################........] 2/3 running  4 waiting  busy 87 %
Blocks  [###+++++++..............] 120 held  304 cached  600 free  12 disk
Tokens  prompt 1,235/s  output 7.2/s  late 2  strategy continuous
minute       p50      p95      p99    count    class   waiting  running     wait
TTFT      120 ms   340 ms   1.20 s       34    high          0        1    0.0 s
ITL        12 ms    18 ms    25 ms   12,345    medium        0        1    1.2 s
e2e       2.10 s     12 s    2m10s       34    low           4        0    1m15s
step      9.9 ms    14 ms    21 ms      412    waits for max_num_seqs
Tenants acme 1 (+3 waiting)  Bücher 图书馆 1
 REQUEST TENANT             CLASS  STATE            PROMPT  OUTPUT     AGE   POS
       1 acme               high   running           1,000     102    12 s     -
       2 Bücher 图书馆      medium running        512/2048       0   0.5 s     -
       4 acme               low    preempted            15       7   1m40s     -
       5 acme               low    waiting              30       -   7.0 s     0
       6 a name that is mu… low    waiting            1.2M       -   7.0 s     1
       7 acme               low    encoding              -       -   0.0 s     -
   ENDED TENANT        REASON     PROMPT  CACHED  OUTPUT   QUEUE PREFILL  DECODE
       0 zoo           failed          9       0       0   1m01s  0.0 ms  0.0 ms
       3 acme          stop          900     640      64  1.5 ms  210 ms  1.24 s



q quit  m minute  h hour  p pause  j/k scroll
)");
}

TEST(TopRender, AScreenOf120Columns) {
  EXPECT_EQ(Whole(Render(BusyModel(), Plain(), 120, 40).lines), R"(
 ropeway 0.1.0  engine  SmolLM2-135M  http://127.0.0.1:8080                                             connected 1m05s
Slots   [###############################...............] 2/3 running  4 waiting  busy 87 %
Blocks  [#####++++++++++++++...........................] 120 held  304 cached  600 free  12 disk
Tokens  prompt 1,235/s  output 7.2/s  late 2  strategy continuous
minute       p50      p95      p99    count    class   waiting  running     wait  tenant                waiting  running
TTFT      120 ms   340 ms   1.20 s       34    high          0        1    0.0 s  acme                        3        1
ITL        12 ms    18 ms    25 ms   12,345    medium        0        1    1.2 s  Bücher 图书馆               0        1
e2e       2.10 s     12 s    2m10s       34    low           4        0    1m15s
step      9.9 ms    14 ms    21 ms      412    waits for max_num_seqs
 REQUEST TENANT                                        CLASS  STATE                         PROMPT  OUTPUT     AGE   POS
       1 acme                                          high   running                        1,000     102    12 s     -
       2 Bücher 图书馆                                 medium running   [###.......]      512/2048       0   0.5 s     -
       4 acme                                          low    preempted                         15       7   1m40s     -
       5 acme                                          low    waiting                           30       -   7.0 s     0
       6 a name that is much longer than its column c… low    waiting                         1.2M       -   7.0 s     1
       7 acme                                          low    encoding                           -       -   0.0 s     -
   ENDED TENANT                               CLASS  REASON     PROMPT  CACHED  OUTPUT   QUEUE PREFILL  DECODE PREEMPTED
       0 zoo                                  low    failed          9       0       0   1m01s  0.0 ms  0.0 ms         2
       3 acme                                 high   stop          900     640      64  1.5 ms  210 ms  1.24 s         0




















q quit  m minute  h hour  p pause  j/k scroll
)");
}

TEST(TopRender, AGateway) {
  TopModel model;
  ASSERT_TRUE(model
                  .Take("hello", R"({"version":"0.1.0","kind":"gateway","models":["m1","m2"],
                                     "slots":0,"strategy":""})")
                  .ok());
  ASSERT_TRUE(model
                  .Take("frame", R"({"steps":[],"requests":[
      {"id":8,"tenant":"acme","class":"high","state":"running","age":1,"position":null,"prompt":100,
       "backend":"10.0.0.1:8081"},
      {"id":9,"tenant":"acme","class":"high","state":"waiting","age":1,"position":0,"prompt":100}],
      "ended":[],"queue":{"blocked_by":null,"classes":{"high":{"waiting":1,"running":1,"wait":0}},
      "tenants":[{"name":"acme","waiting":1,"running":1}]},
      "minute":{"ttft_ms":{"count":1,"p50":1,"p95":1,"p99":1}},
      "backends":[
        {"model":"m1","name":"10.0.0.1:8081","state":"up","in_flight":1,"concurrency":{"limit":8},
         "latency_ms":{"p50":120,"p99":1500},"sent":1000,"retries":3,"resumptions":1,"failures":{}},
        {"model":"m1","name":"10.0.0.2:8081","state":"ejected","in_flight":0,
         "concurrency":{"limit":8},"latency_ms":{"p50":null,"p99":null},"sent":4,"retries":0,
         "resumptions":0,"failures":{"unreachable":4}}]})")
                  .ok());
  EXPECT_EQ(Whole(Render(model, Plain(), 80, 18).lines), R"(
 ropeway 0.1.0  gateway  m1, m2  http://127.0.0.1:8080          connected 1m05s
Slots   1 running  1 waiting
Tokens  prompt 0/s  output 0/s  late 0
minute       p50      p95      p99    count    class   waiting  running     wait
TTFT      1.0 ms   1.0 ms   1.0 ms        1    high          1        1    0.0 s
ITL            -        -        -        0    medium        0        0    0.0 s
e2e            -        -        -        0    low           0        0    0.0 s
Tenants acme 1 (+1 waiting)
BACKEND          STATE         PLACES      P50      P99     SENT RETRIES  FAILED
10.0.0.1:8081    up               1/8   120 ms   1.50 s    1,000       3       0
10.0.0.2:8081    ejected          0/8        -        -        4       0       4
 REQUEST TENANT     CLASS  STATE       PROMPT     AGE   POS BACKEND
       8 acme       high   running        100   1.0 s     - 10.0.0.1:8081
       9 acme       high   waiting        100   1.0 s     0 -



q quit  m minute  h hour  p pause  j/k scroll
)");
}

TEST(TopRender, TheHourAndAConnectionThatIsLost) {
  TopView view = Plain();
  view.hour = true;
  view.lost = "CONNECTION LOST, trying again: refused";
  view.paused = true;
  const std::string text = Whole(Render(BusyModel(), view, 100, 24).lines);
  EXPECT_THAT(text, HasSubstr("PAUSED  CONNECTION LOST, trying again: refused"));
  EXPECT_THAT(text, HasSubstr("hour "));
  EXPECT_THAT(text, HasSubstr("TTFT       77 ms    88 ms    99 ms    1,000"));
  EXPECT_THAT(text, HasSubstr("ITL            -        -        -        0"));
  EXPECT_THAT(text, HasSubstr("p go on"));
  EXPECT_THAT(text, Not(HasSubstr("connected")));
}

TEST(TopRender, ANarrowScreenHasFewerColumns) {
  const std::string text = Whole(Render(BusyModel(), Plain(), 60, 24).lines);
  EXPECT_THAT(text, HasSubstr("\n REQUEST TENANT      STATE            PROMPT  OUTPUT     AGE\n"));
  EXPECT_THAT(text, HasSubstr("\n       2 Bücher 图…  running        512/2048       0   0.5 s\n"));
  EXPECT_THAT(text, HasSubstr("\nQueue   high 1  medium 1  low 0 (+4 waiting)"));
  EXPECT_THAT(text, HasSubstr("stop"));
  EXPECT_THAT(text, HasSubstr("1.24 s\n"));
}

TEST(TopRender, NoSizeAndNoPaintBreaksIt) {
  TopModel model = BusyModel();
  for (const Paint paint : {Paint::kPlain, Paint::kBold, Paint::kColors}) {
    for (int width = 1; width <= 130; ++width) {
      for (const int height : {1, 2, 3, 5, 8, 12, 17, 24, 50}) {
        TopView view = Plain();
        view.paint = paint;
        const TopScreen screen = Render(model, view, width, height);
        ASSERT_EQ(screen.lines.size(), static_cast<size_t>(height)) << width;
        for (const std::string& line : screen.lines) {
          ASSERT_LE(DisplayWidth(Bare(line)), width) << width << "x" << height << ": " << line;
          if (paint == Paint::kPlain) {
            ASSERT_EQ(line.find('\033'), std::string::npos);
          }
        }
      }
    }
  }
}

TEST(TopRender, BoldAloneHasNoColours) {
  TopView view = Plain();
  view.paint = Paint::kBold;
  const std::string text = Whole(Render(BusyModel(), view, 120, 40).lines);
  EXPECT_THAT(text, HasSubstr("\033[1m"));
  EXPECT_THAT(text, Not(testing::ContainsRegex("\033\\[[39]")));
  view.paint = Paint::kColors;
  EXPECT_THAT(Whole(Render(BusyModel(), view, 120, 40).lines), HasSubstr("\033[32mrunning"));
}

TEST(TopRender, NamesDoNotActOnTheTerminal) {
  TopModel model;
  const std::string evil = R"(\u001b]0;title\u0007\u001b[2J\r\n\u009b31m\u202e\u2028)";
  ASSERT_TRUE(model
                  .Take("hello", fmt::format(R"({{"version":"{0}","kind":"gateway","models":["{0}"],
                                                 "slots":1,"strategy":"{0}"}})",
                                             evil))
                  .ok());
  ASSERT_TRUE(model
                  .Take("frame", fmt::format(R"({{"requests":[{{"id":1,"tenant":"{0}","class":"{0}",
      "state":"{0}","prompt":1,"backend":"{0}"}}],"ended":[{{"number":1,"id":2,"tenant":"{0}",
      "class":"{0}","reason":"{0}"}}],"queue":{{"blocked_by":"{0}","tenants":[{{"name":"{0}"}}]}},
      "backends":[{{"name":"{0}","model":"{0}","state":"{0}"}}]}})",
                                             evil))
                  .ok());
  for (const int width : {80, 120}) {
    const std::vector<std::string> lines = Render(model, Plain(), width, 24).lines;
    EXPECT_THAT(Whole(lines), HasSubstr("title"));
    EXPECT_THAT(lines, Each(Not(testing::ContainsRegex("[\001-\037\177]"))));
    EXPECT_THAT(lines, Each(Not(HasSubstr("\xC2\x9B"))));
    EXPECT_THAT(lines, Each(Not(HasSubstr("\xE2\x80\xAE"))));
    EXPECT_THAT(lines, Each(Not(HasSubstr("\xE2\x80\xA8"))));
  }
}

TEST(TopRender, ScrollingMovesTheRequestsAlone) {
  TopModel model = BusyModel();
  TopView view = Plain();
  const TopScreen all = Render(model, view, 80, 24);
  EXPECT_EQ(all.most_scroll, 0U);
  const TopScreen low = Render(model, view, 80, 18);
  ASSERT_GT(low.most_scroll, 0U);
  view.scroll = 1;
  const TopScreen next = Render(model, view, 80, 18);
  size_t title = 0;
  while (low.lines[title].find("REQUEST") == std::string::npos) ++title;
  EXPECT_EQ(next.lines[title], low.lines[title]);
  EXPECT_EQ(next.lines[title + 1], low.lines[title + 2]);
  EXPECT_THAT(next.lines.back(), HasSubstr("from row 2"));
  view.scroll = 1000;
  EXPECT_THAT(Whole(Render(model, view, 80, 18).lines), HasSubstr("encoding"));
}

TEST(TopText, TextsAreCutByTheirColumns) {
  SetCharacterLocale();
  EXPECT_EQ(Fit("abc", 5), "abc  ");
  EXPECT_EQ(Fit("abc", 5, true), "  abc");
  EXPECT_EQ(Fit("abcdef", 5), "abcd…");
  EXPECT_EQ(Fit("图书馆", 6), "图书馆");
  EXPECT_EQ(Fit("图书馆", 5), "图书…");
  EXPECT_EQ(Fit("图书馆", 4), "图… ");
  EXPECT_EQ(Fit("a\xFFz", 3), "a\xEF\xBF\xBDz");
  EXPECT_EQ(Fit("abc", 0), "");
  // One letter does not take ever more marks, which would cover the lines above.
  std::string marked = "a";
  for (int i = 0; i < 50; ++i) marked += "\xCC\x81";
  EXPECT_EQ(Fit(marked + "b", 2),
            "a\xCC\x81\xCC\x81"
            "b");
}

TEST(TopText, NumbersHaveTheirUnits) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(999'999), "999,999");
  EXPECT_EQ(CountText(1'250'000), "1.2M");
  EXPECT_EQ(RateText(0), "0/s");
  EXPECT_EQ(RateText(7.25), "7.2/s");
  EXPECT_EQ(RateText(1234.5), "1,235/s");
  EXPECT_EQ(MillisecondsText(4.24), "4.2 ms");
  EXPECT_EQ(MillisecondsText(120.4), "120 ms");
  EXPECT_EQ(MillisecondsText(999.6), "1.00 s");
  EXPECT_EQ(MillisecondsText(125'000), "2m05s");
  EXPECT_EQ(SecondsText(59.4), "59 s");
  EXPECT_EQ(SecondsText(3599.7), "1h00m");
  EXPECT_EQ(SecondsText(100'000), "1d03h");
}

TEST(TopText, ABarShowsEachPartThatIsNot0) {
  const auto bar = [](std::vector<BarPart> parts, double total) {
    TopLine line(80, Paint::kPlain);
    AddBar(parts, total, 12, Paint::kPlain, &line);
    return line.text();
  };
  EXPECT_EQ(bar({{5}}, 10), "[#####.....]");
  EXPECT_EQ(bar({{1}, {2, Tone::kCached, '+'}}, 1000), "[#+........]");
  EXPECT_EQ(bar({{900}, {100, Tone::kCached, '+'}}, 1000), "[#########+]");
  EXPECT_EQ(bar({{20}}, 10), "[##########]");
  EXPECT_EQ(bar({{0}}, 0), "[..........]");
}

}  // namespace
}  // namespace ropeway::cli
