#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "flags/program.h"

namespace ropeway::flags {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// A program with a flag of each kind.
class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest()
      : file_(testing::TempDir() + "config_file_test_" + std::to_string(getpid()) + ".toml") {
    program_.name = "program";
    program_.commands = {
        {"serve",
         "",
         {{"Group",
           {{"--port", IntValue(&port_, 0, 65535), ""},
            {"--max-users", IntValue(&users_, 0, 9), ""},
            {"--temperature", NumberValue(&temperature_, 0, 2), ""},
            {"--wait", DurationValue(&wait_), ""},
            {"--size", SizeValue(&size_, 16), ""},
            {"--key", TextsValue(&keys_, "KEY").Environment("CONFIG_FILE_TEST_KEY"), ""},
            {"--backend", TextsValue(&backends_, "URL").Table("url"), ""},
            {"--level", ChoiceValue(&level_, {"low", "high"}), ""},
            {"--raw", SwitchValue(&raw_), ""},
            {"--stream,!--no-stream", SwitchValue(&stream_), ""}}}},
         ""},
        {"bench",
         "",
         {},
         "",
         nullptr,
         {{"serve", "", {{"Group", {{"--users", IntValue(&users_, 1, 100), ""}}}}, ""}}}};
  }
  ~ConfigFileTest() override { std::remove(file_.c_str()); }

  // The message of what is rejected, "" where nothing is.
  std::string Parse(const std::string& text, std::vector<std::string> words = {"serve"}) {
    std::ofstream(file_) << text;
    words.insert(words.begin(), {"--config", file_});
    return ParseCommandLine(program_, words).status().message();
  }

  const std::string file_;
  Program program_;
  int port_ = 1;
  float temperature_ = 1;
  milliseconds wait_{1};
  int64_t size_ = 16;
  std::vector<std::string> keys_;
  std::vector<std::string> backends_;
  std::string level_ = "low";
  bool raw_ = false;
  bool stream_ = true;
  int users_ = 1;
};

TEST_F(ConfigFileTest, EveryKindOfFlagCanStandInTheFile) {
  EXPECT_EQ(Parse("[serve]\nport = 80\ntemperature = 0.5\nwait = '2s'\nsize = '1KiB'\n"
                  "key = ['a,b', '[c]']\nlevel = 'high'\nraw = true\n[bench.serve]\nusers = 7\n"),
            "");
  EXPECT_EQ(port_, 80);
  EXPECT_FLOAT_EQ(temperature_, 0.5F);
  EXPECT_EQ(wait_, milliseconds(2000));
  EXPECT_EQ(size_, 1024);
  EXPECT_THAT(keys_, ElementsAre("a,b", "[c]"));
  EXPECT_EQ(level_, "high");
  EXPECT_TRUE(raw_);
  EXPECT_EQ(users_, 7);
}

TEST_F(ConfigFileTest, OtherSpellingsOfTheSame) {
  EXPECT_EQ(Parse("[serve]\ntemperature = 2\nsize = 99\nkey = 'one'\nraw = false\n"), "");
  EXPECT_FLOAT_EQ(temperature_, 2);
  EXPECT_EQ(size_, 99);
  EXPECT_THAT(keys_, ElementsAre("one"));
  EXPECT_FALSE(raw_);
}

TEST_F(ConfigFileTest, ATableStandsForATextOfKeysAndValues) {
  EXPECT_EQ(Parse("[serve]\nport = 80\n[[serve.backend]]\nweight = 2\nurl = 'u'\nsafe = false\n"
                  "[[serve.backend]]\nurl = 'v'\nalias = ['a', 'b']\nweight = 0.5\n"),
            "");
  EXPECT_THAT(backends_, ElementsAre("u,safe=false,weight=2", "v,alias=a,alias=b,weight=0.5"));
  EXPECT_EQ(port_, 80);
  EXPECT_EQ(Parse("[serve]\nbackend = ['u,k=1', {url = 'v'}]\n"), "");
  EXPECT_THAT(backends_, ElementsAre("u,k=1", "v"));
  EXPECT_EQ(Parse("[serve.backend]\nurl = 'w'\n"), "");
  EXPECT_THAT(backends_, ElementsAre("w"));
}

TEST_F(ConfigFileTest, AFlagWithANameForNo) {
  EXPECT_EQ(Parse("[serve]\nstream = false\n"), "");
  EXPECT_FALSE(stream_);
  EXPECT_EQ(Parse("[serve]\nno-stream = false\n"), "");
  EXPECT_TRUE(stream_);
}

TEST_F(ConfigFileTest, TheCommandLineWins) {
  EXPECT_EQ(Parse("[serve]\nport = 80\nkey = ['a']\nlevel = 'high'\n",
                  {"serve", "--port", "90", "--key", "b", "--key", "[c,d]"}),
            "");
  EXPECT_EQ(port_, 90);
  EXPECT_THAT(keys_, ElementsAre("b", "[c,d]"));
  EXPECT_EQ(level_, "high");
}

TEST_F(ConfigFileTest, TheEnvironmentWinsOverTheFile) {
  setenv("CONFIG_FILE_TEST_KEY", "secret", 1);
  EXPECT_EQ(Parse("[serve]\nkey = ['a']\n"), "");
  unsetenv("CONFIG_FILE_TEST_KEY");
  EXPECT_THAT(keys_, ElementsAre("secret"));
}

TEST_F(ConfigFileTest, TheFileMayBeNamedAfterTheCommand) {
  std::ofstream(file_) << "[serve]\nport = 80\n";
  EXPECT_TRUE(ParseCommandLine(program_, {"serve", "--config", file_}).ok());
  EXPECT_EQ(port_, 80);
}

struct WrongFile {
  const char* text;
  const char* line;  // As it stands in the message.
  const char* expected;
};

TEST_F(ConfigFileTest, WhatIsWrongIsNamedWithItsLine) {
  const WrongFile cases[] = {
      {"[serve]\n\nprot = 80\n", ":3:", "unknown key 'prot' in [serve]"},
      {"[serve]\nmax_port = 80\n", ":2:", "expected a flag of `program serve`"},
      {"port = 80\n", ":1:", "such as [serve]"},
      {"[server]\nport = 80\n", ":1:", "expected one of [serve], [bench]"},
      {"[bench.serv]\nusers = 2\n", ":1:", "[bench.serve]"},
      {"[bench.serve]\nport = 2\n", ":2:", "`program bench serve`"},
      {"[serve]\nport = '80'\n", ":2:", "'port' must be an integer, not a string"},
      {"[serve]\nport = 8.5\n", ":2:", "'port' must be an integer, not a float"},
      {"[serve]\nport = [80]\n", ":2:", "'port' must be an integer, not an array"},
      {"[serve]\n\n\nport = 80000\n", ":4:", "0 to 65535"},
      {"[serve]\ntemperature = '1'\n", ":2:", "must be a number"},
      {"[serve]\nkey = {url = 'u'}\n", ":2:", "unknown section 'key'"},
      {"[serve]\nkey = [{url = 'u'}]\n", ":2:", "an array of strings, not a table"},
      {"[serve]\nbackend = 1\n", ":2:", "a string, a table, or an array of these, not an integer"},
      {"[serve]\nbackend = {weight = 2}\n", ":2:", "--backend: the table has no 'url'"},
      {"[serve]\nbackend = {url = 'u,v'}\n", ":2:", "--backend: 'url' must not contain a comma"},
      {"[[serve.backend]]\nurl = 'u'\nto = {a = 1}\n", ":1:", "true or false, not a table"},
      {"[serve]\ntemperature = nan\n", ":2:", "0 to 2"},
      {"[serve]\nwait = 30\n", ":2:", "such as \"30s\""},
      {"[serve]\nwait = '30'\n", ":2:", "500ms, 30s or 2m"},
      {"[serve]\nwait = 2026-01-01\n", ":2:", "not a date or time"},
      {"[serve]\nsize = 'big'\n", ":2:", "48MiB"},
      {"[serve]\nsize = 15\n", ":2:", "at least 16"},
      {"[serve]\nkey = [1]\n", ":2:", "an array of strings"},
      {"[serve]\nlevel = 'middle'\n", ":2:", "low, high"},
      {"[serve]\nraw = 1\n", ":2:", "true or false"},
      {"[serve]\nhelp = true\n", ":2:", "unknown key 'help'"},
      {"[serve]\nport = \n", ":2:", "not valid TOML"},
      {"[serve]\nport = 1\nport = 2\n", ":3:", "not valid TOML"},
      {"[serve", ":1:", "not valid TOML"},
      {"[serve.port]\nx = 1\n", ":1:", "unknown section 'port': [serve] has no sections"},
      {"[serve]\n'' = 1\n", ":2:", "unknown key ''"},
  };
  for (const WrongFile& wrong : cases) {
    const std::string message = Parse(wrong.text);
    EXPECT_THAT(message, HasSubstr(file_ + wrong.line)) << wrong.text;
    EXPECT_THAT(message, HasSubstr(wrong.expected)) << wrong.text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST_F(ConfigFileTest, AnUnderscoreIsExplained) {
  EXPECT_THAT(Parse("[serve]\nmax_users = 2\n"), HasSubstr("expected 'max-users'"));
}

TEST_F(ConfigFileTest, AFileThatIsMissingOrTooLongIsRejected) {
  EXPECT_THAT(ParseCommandLine(program_, {"serve", "--config", "no/such/file"}).status().message(),
              HasSubstr("--config: cannot read 'no/such/file'"));
  EXPECT_THAT(Parse(std::string(2 << 20, '#')), HasSubstr("has more than 1048576 bytes"));
}

// Each would end the process in toml++, which destroys tables within tables by recursion.
TEST_F(ConfigFileTest, DeepTablesAreRejectedBeforeTheyAreParsed) {
  std::string parts = "a";
  for (int i = 1; i < 100'000; ++i) parts += ".a";
  for (const std::string& text : {"\n" + parts + " = 1\n", "\n[" + parts + "]\n",
                                  "\n[[" + parts + "]]\n", "\nx = {" + parts + " = 1}\n"}) {
    EXPECT_EQ(Parse(text), file_ + ":2: a key has more than 16 parts (see program serve --help)");
  }
  EXPECT_EQ(Parse("\nx = " + std::string(100'000, '[')),
            file_ + ":2: more than 32 brackets are open (see program serve --help)");
}

TEST_F(ConfigFileTest, NamesAreQuotedWithoutTheirControlCharacters) {
  const std::string message = Parse("[serve]\n\"a\\nb\\u001b\" = 1\n");
  EXPECT_THAT(message, HasSubstr("unknown key 'a\xEF\xBF\xBD"
                                 "b\xEF\xBF\xBD'"));
}

}  // namespace
}  // namespace ropeway::flags
