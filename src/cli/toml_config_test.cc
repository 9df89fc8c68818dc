#include "cli/toml_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "cli/flags.h"

namespace ropeway {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// A program with a flag of each kind.
class TomlConfigTest : public testing::Test {
 protected:
  TomlConfigTest()
      : file_(testing::TempDir() + "toml_config_test_" + std::to_string(getpid()) + ".toml") {
    app_.set_config("--config");
    app_.config_formatter(std::make_shared<TomlConfig>(&app_));
    app_.require_subcommand(1);
    CLI::App* serve = app_.add_subcommand("serve")->fallthrough();
    AddInt(serve, "--port", &port_, 0, 65535, "");
    AddNumber(serve, "--temperature", &temperature_, 0, 2, "");
    AddDuration(serve, "--wait", &wait_, "");
    AddSize(serve, "--size", &size_, 16, "");
    AddTexts(serve, "--key", &keys_, "KEY", "")->envname("TOML_CONFIG_TEST_KEY");
    AddChoice(serve, "--level", &level_, {"low", "high"}, "");
    serve->add_flag("--raw", raw_, "");
    serve->add_flag("--stream,!--no-stream", stream_, "");
    CLI::App* bench = app_.add_subcommand("bench")->fallthrough();
    bench->require_subcommand(1);
    CLI::App* inner = bench->add_subcommand("serve")->fallthrough();
    AddInt(inner, "--users", &users_, 1, 100, "");
  }

  // What is refused, "" where nothing is.
  std::string Parse(const std::string& text, std::vector<std::string> words = {"serve"}) {
    std::ofstream(file_) << text;
    words.insert(words.begin(), {"--config", file_});
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(words);
    } catch (const CLI::Error& e) {
      return e.what();
    }
    return "";
  }

  const std::string file_;
  CLI::App app_{"", "program"};
  int port_ = 1;
  float temperature_ = 1;
  milliseconds wait_{1};
  int64_t size_ = 16;
  std::vector<std::string> keys_;
  std::string level_ = "low";
  bool raw_ = false;
  bool stream_ = true;
  int users_ = 1;
};

TEST_F(TomlConfigTest, EveryKindOfFlagCanStandInTheFile) {
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

TEST_F(TomlConfigTest, OtherSpellingsOfTheSame) {
  EXPECT_EQ(Parse("[serve]\ntemperature = 2\nsize = 99\nkey = 'one'\nraw = false\n"), "");
  EXPECT_FLOAT_EQ(temperature_, 2);
  EXPECT_EQ(size_, 99);
  EXPECT_THAT(keys_, ElementsAre("one"));
  EXPECT_FALSE(raw_);
}

TEST_F(TomlConfigTest, AFlagWithANameForNo) {
  EXPECT_EQ(Parse("[serve]\nstream = false\n"), "");
  EXPECT_FALSE(stream_);
  app_.clear();
  EXPECT_EQ(Parse("[serve]\nno-stream = false\n"), "");
  EXPECT_TRUE(stream_);
}

TEST_F(TomlConfigTest, TheCommandLineWins) {
  EXPECT_EQ(Parse("[serve]\nport = 80\nkey = ['a']\nlevel = 'high'\n",
                  {"serve", "--port", "90", "--key", "b", "--key", "[c,d]"}),
            "");
  EXPECT_EQ(port_, 90);
  EXPECT_THAT(keys_, ElementsAre("b", "[c,d]"));
  EXPECT_EQ(level_, "high");
}

TEST_F(TomlConfigTest, TheEnvironmentWinsOverTheFile) {
  setenv("TOML_CONFIG_TEST_KEY", "secret", 1);
  EXPECT_EQ(Parse("[serve]\nkey = ['a']\n"), "");
  unsetenv("TOML_CONFIG_TEST_KEY");
  EXPECT_THAT(keys_, ElementsAre("secret"));
}

TEST_F(TomlConfigTest, TheFileMayBeNamedAfterTheCommand) {
  std::ofstream(file_) << "[serve]\nport = 80\n";
  app_.parse(std::vector<std::string>{file_, "--config", "serve"});
  EXPECT_EQ(port_, 80);
}

struct Wrong {
  const char* text;
  const char* line;  // As it stands in the message.
  const char* expected;
};

TEST_F(TomlConfigTest, WhatIsWrongIsNamedWithItsLine) {
  const Wrong cases[] = {
      {"[serve]\n\nprot = 80\n", ":3:", "unknown key 'prot' in [serve]"},
      {"[serve]\nmax_port = 80\n", ":2:", "expected a flag of `ropeway serve`"},
      {"port = 80\n", ":1:", "such as [serve]"},
      {"[server]\nport = 80\n", ":1:", "expected one of [serve], [bench]"},
      {"[bench.serv]\nusers = 2\n", ":1:", "[bench.serve]"},
      {"[bench.serve]\nport = 2\n", ":2:", "`ropeway bench serve`"},
      {"[serve]\nport = '80'\n", ":2:", "'port' must be an integer, not a string"},
      {"[serve]\nport = 8.5\n", ":2:", "'port' must be an integer, not a float"},
      {"[serve]\nport = [80]\n", ":2:", "'port' must be an integer, not an array"},
      {"[serve]\n\n\nport = 80000\n", ":4:", "0 to 65535"},
      {"[serve]\ntemperature = '1'\n", ":2:", "must be a number"},
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
      {"[serve.port]\nx = 1\n", ":1:", "unknown section 'port' in [serve]"},
      {"[serve]\n'' = 1\n", ":2:", "unknown key ''"},
  };
  for (const Wrong& wrong : cases) {
    app_.clear();
    const std::string message = Parse(wrong.text);
    EXPECT_THAT(message, HasSubstr(file_ + wrong.line)) << wrong.text;
    EXPECT_THAT(message, HasSubstr(wrong.expected)) << wrong.text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST_F(TomlConfigTest, AnUnderscoreIsExplained) {
  AddInt(app_.get_subcommand("serve"), "--max-users", &users_, 0, 9, "");
  EXPECT_THAT(Parse("[serve]\nmax_users = 2\n"), HasSubstr("expected 'max-users'"));
}

TEST_F(TomlConfigTest, AFileThatIsMissingOrTooLongIsRefused) {
  EXPECT_THROW(app_.parse(std::vector<std::string>{"no/such/file", "--config", "serve"}),
               CLI::FileError);
  EXPECT_THAT(Parse(std::string(2 << 20, '#')), HasSubstr("at most"));
}

}  // namespace
}  // namespace ropeway
