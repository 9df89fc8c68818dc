#include "flags/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

namespace ropeway::flags {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A program with a command, a group with a command, and completion.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    program_ = {"program", "1.2.3", "Does things.", "Example:\n  program serve", {}};
    program_.commands.push_back(
        {"serve", "Serve it",
         Join({{{"", {{"FILE", TextValue(&file_, "FILE").Required(), "What is served"}}},
                {"First",
                 {{"--port,-p", IntValue(&port_, 0, 65535), "Port"},
                  {"--limit", IntValue(&limit_, 1, 9).Default("none"), "Limit"},
                  {"--share", NumberValue(&share_, 0, 1), "Share"},
                  {"--part", AboveZeroValue(&part_, 1), "Part"},
                  {"--seed", SeedValue(&seed_), "Seed"},
                  {"--ttl", DurationValue(&ttl_, milliseconds(1)), "Time to live"}}}},
               {{"Second", {{"--size", SizeValue(&size_, 1024), "Size"}}},
                {"First", {{"--rate", RateValue(&rate_), "Rate"}}},
                {"Other",
                 {{"--level", ChoiceValue(&level_, {"low", "high"}), "Level: low or high"},
                  {"--cache", OnOffValue(&cache_), "Cache"},
                  {"--raw", SwitchValue(&raw_), "Raw"},
                  {"--stream,!--no-stream", SwitchValue(&stream_), "Stream"},
                  {"--key", TextsValue(&keys_, "KEY").Environment("PROGRAM_TEST_KEY"), "Key"},
                  {"--limits", ManyTextsValue(&limits_, "LIMIT"), "Limits"},
                  {"--name", TextValue(&name_, "NAME").NotEmpty(), "Name"},
                  {"--half",
                   ParsedValue(&half_, "N|auto",
                               [](const std::string& text) -> StatusOr<int> {
                                 if (text == "auto") return -1;
                                 return InvalidArgument("expected auto, not '" + text + "'");
                               }),
                   "Half"}}}}}),
         "Example:\n  program serve x", [this] { return ran_ = 7; }});
    program_.commands.push_back(
        {"bench", "Measure", {}, "", nullptr, {{"serve", "Measure a server", {}, "", nullptr}}});
    program_.commands.push_back(CompletionCommand(&program_, &shell_));
  }

  // The message of what is rejected, "" where nothing is.
  std::string Parse(const std::vector<std::string>& words) {
    return ParseCommandLine(program_, words).status().message();
  }
  std::string Text(const std::vector<std::string>& words) {
    return ParseCommandLine(program_, words)->text;
  }

  Program program_;
  std::string file_;
  int port_ = 80;
  std::optional<int> limit_;
  float share_ = 0.7F;
  float part_ = 1;
  std::optional<uint64_t> seed_;
  std::chrono::seconds ttl_{91};
  size_t size_ = 2048;
  int64_t rate_ = 0;
  std::string level_ = "low";
  bool cache_ = true;
  bool raw_ = false;
  bool stream_ = true;
  std::vector<std::string> keys_;
  std::vector<std::string> limits_;
  std::string name_;
  int half_ = 0;
  std::string shell_;
  int ran_ = 0;
};

TEST_F(ProgramTest, EveryKindOfFlagReachesItsTarget) {
  EXPECT_EQ(Parse({"serve",
                   "f",
                   "-p",
                   "81",
                   "--limit=3",
                   "--share",
                   "0.5",
                   "--ttl",
                   "1500ms",
                   "--size",
                   "3KiB",
                   "--rate",
                   "2MiB/s",
                   "--level",
                   "high",
                   "--cache",
                   "off",
                   "--raw",
                   "--no-stream",
                   "--key",
                   "a,b",
                   "--key",
                   "[c,d]",
                   "--name",
                   "n",
                   "--half",
                   "auto",
                   "--part",
                   "0.25",
                   "--seed",
                   "18446744073709551615"}),
            "");
  EXPECT_EQ(file_, "f");
  EXPECT_EQ(port_, 81);
  EXPECT_EQ(limit_, 3);
  EXPECT_FLOAT_EQ(share_, 0.5F);
  EXPECT_FLOAT_EQ(part_, 0.25F);
  EXPECT_EQ(seed_, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ttl_, std::chrono::seconds(2));  // Rounded up.
  EXPECT_EQ(size_, 3072u);
  EXPECT_EQ(rate_, 2 << 20);
  EXPECT_EQ(level_, "high");
  EXPECT_FALSE(cache_);
  EXPECT_TRUE(raw_);
  EXPECT_FALSE(stream_);
  EXPECT_THAT(keys_, ElementsAre("a,b", "[c,d]"));
  EXPECT_EQ(name_, "n");
  EXPECT_EQ(half_, -1);
}

TEST_F(ProgramTest, SeveralTextsMayFollowOneFlag) {
  EXPECT_EQ(Parse({"serve", "f", "--limits", "a", "b", "--raw", "--limits", "c"}), "");
  EXPECT_THAT(limits_, ElementsAre("a", "b", "c"));
  EXPECT_EQ(file_, "f");
  EXPECT_TRUE(raw_);
}

TEST_F(ProgramTest, WordsBehindDashesAreArguments) {
  EXPECT_EQ(Parse({"serve", "--port", "1", "--", "--raw"}), "");
  EXPECT_EQ(port_, 1);
  EXPECT_EQ(file_, "--raw");
  EXPECT_FALSE(raw_);
}

TEST_F(ProgramTest, TheEnvironmentCountsWhereTheCommandLineSaysNothing) {
  setenv("PROGRAM_TEST_KEY", "secret", 1);
  EXPECT_EQ(Parse({"serve", "f"}), "");
  EXPECT_THAT(keys_, ElementsAre("secret"));
  EXPECT_EQ(Parse({"serve", "f", "--key", "given"}), "");
  EXPECT_THAT(keys_, ElementsAre("given"));
  unsetenv("PROGRAM_TEST_KEY");
}

struct Wrong {
  std::vector<std::string> words;
  const char* message;
};

TEST_F(ProgramTest, WhatIsWrongIsOneSentenceThatNamesTheWord) {
  const Wrong cases[] = {
      {{"serve", "f", "--port", "70000"},
       "--port: expected a whole number, 0 to 65535, not '70000' (see program serve "
       "--help)"},
      {{"serve", "f", "-p", "8x"}, "--port: expected a whole number"},
      {{"serve", "f", "--share", "nan"}, "--share: expected a number, 0 to 1"},
      {{"serve", "f", "--part", "0"}, "--part: expected a number, above 0, to 1, not '0'"},
      {{"serve", "f", "--part", "1e-60"}, "--part: expected a number, above 0, to 1"},
      {{"serve", "f", "--part", "1.1"}, "--part: expected a number, above 0, to 1"},
      {{"serve", "f", "--seed", "-1"},
       "--seed: expected a whole number, 0 to 18446744073709551615, not '-1'"},
      {{"serve", "f", "--seed", "18446744073709551616"}, "--seed: expected a whole number"},
      {{"serve", "f", "--ttl", "0"}, "--ttl: expected at least 1ms"},
      {{"serve", "f", "--ttl", "3"}, "--ttl: expected a time with its unit"},
      {{"serve", "f", "--size", "1"}, "--size: expected at least 1KiB"},
      {{"serve", "f", "--rate", "2MiB"}, "--rate: expected auto, or bytes per second"},
      {{"serve", "f", "--level", "x"}, "--level: expected one of low, high, not 'x'"},
      {{"serve", "f", "--cache", "x"}, "--cache: expected one of on, off, not 'x'"},
      {{"serve", "f", "--name", ""}, "--name: expected a value, not ''"},
      {{"serve", "f", "--half", "1"}, "--half: expected auto, not '1'"},
      {{"serve", "f", "--port"}, "--port"},
      {{"serve", "f", "--prot", "1"},
       "there is no flag '--prot': did you mean '--port'? (see program serve --help)"},
      {{"serve", "f", "--no-straem=1"}, "'--no-straem=1': did you mean '--no-stream'?"},
      {{"serve", "f", "--hlep"}, "'--hlep': did you mean '--help'?"},
      {{"serve", "f", "--xyz", "1"}, "there is no flag '--xyz' (see program serve --help)"},
      {{"serve", "f", "--port", "1", "-p", "2"}, "--port is given 2 times, but takes one value"},
      {{"serve", "f", "--stream", "--no-stream"}, "--stream is given 2 times"},
      {{"serve", "f", "--config", "a", "--config", "b"}, "--config is given 2 times"},
      {{"serve", "f", "g"}, "one argument too many: 'g'"},
      {{"serve"}, "FILE is required (see program serve --help)"},
      {{}, "expected a command: serve, bench, completion (see program --help)"},
      {{"sreve"}, "there is no command 'sreve': did you mean 'serve'? (see program --help)"},
      {{"nonsense"}, "expected a command: serve, bench, completion, not 'nonsense'"},
      {{"bench", "serv"}, "there is no command 'serv': did you mean 'serve'?"},
      {{"help", "sreve"},
       "there is no command 'sreve': did you mean 'serve'? (see program --help)"},
      {{"help", "bench", "x"}, "expected a command: serve, not 'x' (see program bench --help)"},
      {{"help", "serve", "x"}, "one argument too many: 'x' (see program serve --help)"},
      {{"help", "bench", "serve", "x"},
       "one argument too many: 'x' (see program bench serve --help)"},
      {{"nonsense", "--help-all"}, "expected a command: serve, bench, completion, not 'nonsense'"},
      {{"bench"}, "expected a command: serve (see program bench --help)"}};
  for (const Wrong& wrong : cases) {
    EXPECT_THAT(Parse(wrong.words), HasSubstr(wrong.message));
  }
}

TEST_F(ProgramTest, AFlagMayBeGivenAgainAsItWas) {
  EXPECT_EQ(Parse({"serve", "f", "--raw", "--raw", "--port", "1", "-p", "1"}), "");
  EXPECT_TRUE(raw_);
  EXPECT_EQ(port_, 1);
  EXPECT_THAT(Parse({"serve", "f", "--port", "1", "-p", "2", "--port", "1"}),
              HasSubstr("--port is given 3 times"));
}

TEST_F(ProgramTest, TheHelpShowsEachGroupOnceWithDefaultsAndBounds) {
  const std::string help = Text({"serve", "--help"});
  EXPECT_EQ(help, R"(Serve it

Usage: program serve [FLAGS] FILE

Arguments:
  FILE                        What is served

First:
  -p, --port N                Port [default: 80; 0 to 65535]
      --limit N               Limit [default: none; 1 to 9]
      --share X               Share [default: 0.7; 0 to 1]
      --part X                Part [default: 1; above 0, to 1]
      --seed N                Seed [default: random; 0 to 18446744073709551615]
      --ttl TIME              Time to live [default: 91s]
      --rate RATE             Rate [default: auto]

Second:
      --size SIZE             Size [default: 2KiB]

Other:
  -h, --help                  Show this help
      --level low|high        Level: low or high [default: low]
      --cache on|off          Cache [default: on]
      --raw                   Raw
      --stream, --no-stream   Stream
      --key KEY               Key [may be repeated; environment: PROGRAM_TEST_KEY]
      --limits LIMIT          Limits [may be repeated]
      --name NAME             Name
      --half N|auto           Half
      --config FILE           TOML file with flags: one section per command, such as [serve], with
                              port = 8080 for --port 8080; the command line and the environment
                              override it

Example:
  program serve x
)");
  EXPECT_EQ(Text({"--version"}), "1.2.3\n");
  EXPECT_THAT(Text({"-h"}), HasSubstr("Usage: program COMMAND [FLAGS]\n\nCommands:\n  serve  "));
  EXPECT_THAT(Text({"bench", "--help"}), HasSubstr("Usage: program bench COMMAND [FLAGS]\n"));
}

TEST_F(ProgramTest, TheHelpShowsWhatIsNeededFirstAndAllWhereAsked) {
  program_.commands[0].first = {"--port", "--raw"};
  const std::string help = Text({"serve", "--help"});
  EXPECT_THAT(help, HasSubstr("\nFirst:\n  -p, --port N "));
  EXPECT_THAT(help, HasSubstr("      --help-all              Show all flags\n"));
  EXPECT_THAT(help,
              HasSubstr("\nThese are the most common flags; program serve --help-all shows all\n"));
  EXPECT_THAT(help, Not(HasSubstr("--limit")));
  EXPECT_THAT(help, Not(HasSubstr("Second:")));
  const std::string all = Text({"serve", "--help-all"});
  EXPECT_THAT(all, HasSubstr("--help-all "));
  EXPECT_THAT(all, HasSubstr("--limit N "));
  EXPECT_THAT(all, HasSubstr("Second:"));
  EXPECT_THAT(all, Not(HasSubstr("most common flags")));
  EXPECT_EQ(Text({"bench", "serve", "--help-all"}), Text({"bench", "serve", "--help"}));
  EXPECT_THAT(CompletionScript(program_, "bash"), HasSubstr("--help-all"));
}

TEST_F(ProgramTest, WordsOfOtherProgramsAreUnderstood) {
  program_.aliases = {{"version", {"--version"}}, {"measure", {"bench", "serve"}}};
  EXPECT_EQ(Text({"version"}), "1.2.3\n");
  EXPECT_EQ(Text({"help"}), Text({"--help"}));
  EXPECT_EQ(Text({"help", "help"}), Text({"--help"}));
  EXPECT_EQ(Text({"help", "serve"}), Text({"serve", "--help"}));
  EXPECT_EQ(Text({"help", "measure"}), Text({"bench", "serve", "--help"}));
  EXPECT_EQ(ParseCommandLine(program_, {"measure"})->command, &program_.commands[1].commands[0]);
  EXPECT_EQ(Parse({"measrue"}),
            "there is no command 'measrue': did you mean 'measure'? (see program --help)");
  EXPECT_THAT(CompletionScript(program_, "bash"), HasSubstr("help version measure"));

  program_.foreign = {{"-ngl,--n-gpu-layers", "there is no GPU"}};
  EXPECT_EQ(Parse({"serve", "f", "-ngl", "9"}),
            "there is no flag '-ngl': there is no GPU (see program --help)");
  EXPECT_THAT(Parse({"serve", "f", "--n-gpu-layers=9"}),
              HasSubstr("there is no flag '--n-gpu-layers': there is no GPU"));
  EXPECT_EQ(Parse({"serve", "f", "--name", "-ngl", "--key", "--n-gpu-layers"}), "");
  EXPECT_EQ(name_, "-ngl");
}

TEST_F(ProgramTest, ALongNameMayHaveOneDash) {
  program_.commands[0].flags[1].flags[1].names = "--limit,-np,--most";
  EXPECT_EQ(Parse({"serve", "f", "-np", "3", "--name", "-np"}), "");
  EXPECT_EQ(limit_, 3);
  EXPECT_EQ(name_, "-np");
  EXPECT_EQ(Parse({"serve", "f", "-np=2"}), "");
  EXPECT_EQ(limit_, 2);
  EXPECT_EQ(Parse({"serve", "f", "--most", "4"}), "");
  EXPECT_EQ(limit_, 4);
  EXPECT_THAT(Parse({"serve", "f", "-np", "3", "--most", "4"}), HasSubstr("--limit is given 2"));
  EXPECT_EQ(Parse({"serve", "-p", "81", "--", "-np"}), "");
  EXPECT_EQ(file_, "-np");
  EXPECT_THAT(Text({"serve", "--help"}), HasSubstr("  -np, --limit, --most N"));
}

TEST_F(ProgramTest, TheCommandThatIsNamedRuns) {
  std::vector<std::string> words = {"program", "serve", "f"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  EXPECT_EQ(RunProgram(program_, static_cast<int>(argv.size()), argv.data()), 7);
  EXPECT_EQ(ran_, 7);
}

TEST_F(ProgramTest, CompletionOffersCommandsFlagsAndChoices) {
  program_.commands[0].flags[0].flags[0].value =
      TextValue(&file_, "FILE").Words("models list --names");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(program_, shell);
    EXPECT_THAT(script, HasSubstr("bench")) << shell;
    EXPECT_THAT(script, HasSubstr("models list --names")) << shell;
    EXPECT_THAT(script, HasSubstr("port")) << shell;
    EXPECT_THAT(script, HasSubstr("low high")) << shell;
    EXPECT_THAT(script, Not(HasSubstr("FILE "))) << shell;
  }
}

}  // namespace
}  // namespace ropeway::flags
