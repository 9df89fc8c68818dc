#include "bench/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/figure_report.h"
#include "bench/prefixes_report.h"
#include "bench/sessions_report.h"

namespace ropeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Figure At(const std::string& part, const std::string& contestant, int round,
          const std::string& x = "") {
  return {part, contestant, round, x, "", ""};
}

std::string Path(const char* name) {
  return (std::filesystem::temp_directory_path() /
          ("ropeway-figures-" + std::to_string(getpid()) + "-" + name))
      .string();
}

TEST(Figures, MediansAreOverTheRoundsOfOnePlace) {
  Figures figures;
  for (const auto& [round, value] : {std::pair(1, 5.0), {2, 1.0}, {3, 3.0}}) {
    figures.Add(At("p", "a", round), "m", value);
  }
  figures.Add(At("p", "a", 1, "2"), "m", 100);
  figures.Add(At("p", "b", 1), "m", 200);
  figures.Add(At("p", "a", 1), "m", "no number");
  EXPECT_EQ(figures.Median("p", "a", "", "m"), 3);
  EXPECT_EQ(figures.Median("p", "a", "2", "m"), 100);
  EXPECT_FALSE(figures.Median("p", "a", "", "other"));
  EXPECT_FALSE(figures.Median("q", "a", "", "m"));
  EXPECT_EQ(figures.Rounds("p", "a"), 3);
  EXPECT_EQ(figures.Rounds("p", "c"), 0);
  EXPECT_THAT(figures.Contestants("p"), ElementsAre("a", "b"));
  EXPECT_THAT(figures.Places("p", "m"), ElementsAre("", "2"));
}

TEST(Figures, AFileOfThemIsReadAsItWasWritten) {
  Figures figures;
  figures.Add(At("p", "a, with \"quotes\"", 2, "10"), "m", 0.125);
  figures.Add(At("p", "b", 1), "command", "run -c 1,2 \"x\"");
  const std::string path = Path("round-trip");
  std::ofstream(path) << figures.Csv();
  const auto read = Figures::ReadCsv(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->Csv(), figures.Csv());
  EXPECT_EQ(read->Median("p", "a, with \"quotes\"", "10", "m"), 0.125);
  EXPECT_EQ(read->Text("p", "b", "command"), "run -c 1,2 \"x\"");
  std::filesystem::remove(path);
}

TEST(Figures, WhatIsNoFileOfFiguresIsRefused) {
  EXPECT_EQ(Figures::ReadCsv("/no/such/file").status().code(), StatusCode::kNotFound);
  const std::string path = Path("wrong");
  std::ofstream(path) << "a,b\n";
  EXPECT_THAT(Figures::ReadCsv(path).status().message(), HasSubstr("its first line must be"));
  for (const char* wrong : {"p,c,1,x,m", "p,c,one,x,m,1", "p,c,1,x,m,\"1"}) {
    std::ofstream(path) << "part,contestant,round,x,metric,value\r\np,c,1,x,m,1\r\n" << wrong;
    EXPECT_THAT(Figures::ReadCsv(path).status().message(), HasSubstr("line 3")) << wrong;
  }
  std::filesystem::remove(path);
}

TEST(Verdict, MetMissedOrNotMeasured) {
  EXPECT_EQ((Verdict{"", 2.5, 2.5, false, ""}).met(), true);
  EXPECT_EQ((Verdict{"", 2.4, 2.5, false, ""}).met(), false);
  EXPECT_EQ((Verdict{"", 1.5, 1.5, true, ""}).met(), true);
  EXPECT_EQ((Verdict{"", 1.6, 1.5, true, ""}).met(), false);
  EXPECT_FALSE((Verdict{"", std::nullopt, 1.5, true, ""}).met());
  EXPECT_EQ(Ratio(6, 3), 2);
  EXPECT_FALSE(Ratio(6, 0));
  EXPECT_FALSE(Ratio(std::nullopt, 1));
  const std::string table = VerdictTable({{"good", 3, 2.5, false, "6 / 2"},
                                          {"bad", 3, 2.5, true, ""},
                                          {"open", std::nullopt, 1, false, ""}});
  EXPECT_THAT(table, HasSubstr("| good     | >= 2.5 | 3            | 6 / 2 | yes |\n"));
  EXPECT_THAT(table, HasSubstr("| bad      | <= 2.5 | 3            |       | no  |\n"));
  EXPECT_THAT(table, HasSubstr("| open     | >= 1   | not measured |       |     |\n"));
}

// Whether the first verdict whose title holds `title` is met.
std::optional<bool> Met(const std::vector<Verdict>& verdicts, const std::string& title) {
  for (const Verdict& v : verdicts) {
    if (v.title.find(title) != std::string::npos) return v.met();
  }
  ADD_FAILURE() << "no verdict on " << title;
  return std::nullopt;
}

TEST(SessionsReport, HoldsFiguresAgainstWhatIsExpected) {
  namespace s = sessions;
  Figures f;
  f.Add(At(kAboutPart, "", 1), "machine", "a CPU");
  f.Add(At(s::kChats, s::kStateful, 1), "turns_per_s", 5.1);
  f.Add(At(s::kChats, s::kStateful, 1), "command", "ropeway serve");
  f.Add(At(s::kChats, s::kStateless, 1), "turns_per_s", 2);
  f.Add(At(s::kChats, s::kStateful, 1, "1"), "ttft_p50_s", 0.2);
  f.Add(At(s::kChats, s::kStateful, 1, "2"), "ttft_p50_s", 9);
  f.Add(At(s::kChats, s::kStateful, 1, "10"), "ttft_p50_s", 0.31);
  f.Add(At(s::kPool, s::kUnlimited, 1), "turns_per_s", 5);
  f.Add(At(s::kPool, s::kThird, 1), "turns_per_s", 3.9);
  f.Add(At(s::kRestart, s::kPrefill, 1), "ttft_p50_s", 3);
  f.Add(At(s::kRestart, s::kNextTurn, 1), "ttft_p50_s", 0.5);
  const std::vector<Verdict> verdicts = SessionVerdicts(f);
  EXPECT_EQ(verdicts.size(), 4U);
  EXPECT_EQ(Met(verdicts, "stateful over stateless"), true);         // 2.55
  EXPECT_EQ(Met(verdicts, "TTFT of turn 10 over turn 1"), false);    // 1.55
  EXPECT_EQ(Met(verdicts, "a third of the chats"), false);           // 0.78
  EXPECT_EQ(Met(verdicts, "restart: TTFT of the next turn"), true);  // 0.17
}

TEST(SessionsReport, IsAPageWithWhatWasRun) {
  namespace s = sessions;
  Figures f;
  f.Add(At(kAboutPart, "", 1), "machine", "a CPU");
  f.Add(At(s::kChats, s::kStateful, 1), "turns_per_s", 5.125);
  f.Add(At(s::kChats, s::kStateful, 2), "turns_per_s", 6.125);
  f.Add(At(s::kChats, s::kStateful, 2), "command", "ropeway serve");
  f.Add(At(s::kChats, s::kStateful, 1, "1"), "ttft_p50_s", 0.25);
  const std::string page = SessionsReport(f);
  EXPECT_THAT(page, HasSubstr("# Chats of several turns\n\n- machine: a CPU\n- chats, stateful, 2 "
                              "rounds: `ropeway serve`\n"));
  EXPECT_THAT(page, HasSubstr("stateful over stateless"));
  EXPECT_THAT(page, HasSubstr("not measured"));
  EXPECT_THAT(page, HasSubstr("| contestant | turns/s |\n"));
  EXPECT_THAT(page, HasSubstr("| stateful   | 5.62    |\n"));
  EXPECT_THAT(page, HasSubstr("| turn | stateful |\n| ---- | -------- |\n| 1    | 0.250    |\n"));
  EXPECT_THAT(page, Not(HasSubstr("## pool")));
}

TEST(PrefixesReport, HoldsFiguresAgainstWhatIsExpected) {
  namespace p = prefixes;
  Figures f;
  f.Add(At(p::kShared, p::kOn, 1), "output_tok_per_s", 200);
  f.Add(At(p::kShared, p::kOff, 1), "output_tok_per_s", 41);
  f.Add(At(p::kShared, p::kLlama, 1), "output_tok_per_s", 10);
  f.Add(At(p::kShared, p::kOn, 1), "prefilled_tokens", 3000);
  f.Add(At(p::kShared, p::kOn, 1), "prompt_and_tails_tokens", 3000);
  f.Add(At(p::kCurves, p::kInfinite, 1), "hit_share", 0.3733);
  f.Add(At(p::kCurves, "cost", 1, "5"), "hit_share", 0.1);
  f.Add(At(p::kSlice, p::kOff, 1), "drain_share", 0.3);
  f.Add(At(p::kSlice, p::kOn, 1), "drain_share", 0.1);
  f.Add(At(p::kSlice, p::kWarm, 1), "drain_share", 0.02);
  const std::vector<Verdict> verdicts = PrefixVerdicts(f);
  EXPECT_EQ(Met(verdicts, "over llama-server"), true);    // 20
  EXPECT_EQ(Met(verdicts, "over the cache off"), false);  // 4.9
  EXPECT_EQ(Met(verdicts, "one prompt and the tails"), true);
  EXPECT_EQ(Met(verdicts, "without bounds"), true);
  EXPECT_EQ(Met(verdicts, "cache off: time to drain"), true);
  EXPECT_EQ(Met(verdicts, "cache on: time to drain"), false);
  EXPECT_EQ(Met(verdicts, "as the trace had left it: time to drain"), true);
  EXPECT_THAT(PrefixesReport(f), HasSubstr("| pool, % of the working set | no bounds | cost |\n"));
}

}  // namespace
}  // namespace ropeway
