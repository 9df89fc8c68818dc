#include "base/toml_bounds.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropeway::base {
namespace {

std::string Repeated(const std::string& part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

// "line: what", "" for a text within the bounds.
std::string TomlFaultOf(const std::string& text) {
  const std::optional<TomlFault> fault = FindTomlFault(text);
  return fault ? std::to_string(fault->line) + ": " + fault->what : "";
}

TEST(TomlBounds, OrdinaryFilesAreWithinThem) {
  for (const char* text : {
           "",
           "[serve]\nport = 80\nhost = '127.0.0.1'\nwait = 1.5\n",
           "[[keys]]\nname = \"a\"\nkey = \"k.k.k.k\" # a.b.c.d\n",
           "a . b . \"c\" . 'd' = [[1, 2], [3.5]]\nt = {x = {y = 1}}\n",
           "when = 2026-01-01T00:00:00.999\nlist = [\n[\n1\n]\n]\n",
       }) {
    EXPECT_EQ(TomlFaultOf(text), "") << text;
  }
  // Many of each, one after the other.
  EXPECT_EQ(TomlFaultOf(Repeated("a.b.c = 1.5\n[x.y]\n[[z]]\n", 5000)), "");
  EXPECT_EQ(TomlFaultOf("a = [" + Repeated("[1.5], ", 5000) + "]"), "");
}

TEST(TomlBounds, AKeyOfManyPartsIsNot) {
  const std::string expected = "a key has more than 16 parts";
  EXPECT_EQ(TomlFaultOf("a" + Repeated(".a", 15) + " = 1"), "");
  EXPECT_EQ(TomlFaultOf("a" + Repeated(".a", 16) + " = 1"), "1: " + expected);
  EXPECT_EQ(TomlFaultOf("\n\n[a" + Repeated(" .\ta", 16) + "]"), "3: " + expected);
  EXPECT_EQ(TomlFaultOf("x = {a" + Repeated(".\"a.b\"", 16) + " = 1}"), "1: " + expected);
  EXPECT_EQ(TomlFaultOf("x = {a" + Repeated(".'\\'", 16) + " = 1}"), "1: " + expected);
  EXPECT_EQ(TomlFaultOf("a" + Repeated(".a", 100'000) + " = 1"), "1: " + expected);
}

TEST(TomlBounds, AHeaderWithoutANameIsNot) {
  const std::string expected = "the header of a table has no name";
  for (const char* text : {"[=serve]", "[", "[]", "[[", "[[]]", " [ .a]", "[#a]", "[\na]",
                           "[ [[a]]]", "[\xC3\xA9]", "\xEF\xBB\xBF[=", "[{", "[,]"}) {
    EXPECT_EQ(TomlFaultOf(text), "1: " + expected) << text;
  }
  EXPECT_EQ(TomlFaultOf("a = 1 # [\r\n\t[=serve]"), "2: " + expected);
  for (const char* text :
       {"[a]", "[ a ]", "[[ a ]]", "['=']", "[\"\"]", "[-]", "[_1]", "a = [\n[1],\n[=\n",
        "a = [=", "\xEF\xBB\xBF[a]\n", "'a' [=", "a = '''\n[=\n'''"}) {
    EXPECT_EQ(TomlFaultOf(text), "") << text;
  }
}

TEST(TomlBounds, LettersBeyondAsciiStandInStringsAndComments) {
  const std::string outside = "a non-ASCII character is outside of strings and comments";
  for (const char* text :
       {"\xD1\x88 = 1", "a = ''\xD1\x88", "a = 1\xC2\xA0", "[a\xC3\xA9]", "a.\xC3\xA9 = 1"}) {
    EXPECT_EQ(TomlFaultOf(text), "1: " + outside) << text;
  }
  const std::string behind = "a non-ASCII character follows a backslash";
  EXPECT_EQ(TomlFaultOf("a = \"\"\"x\\\xD1\x88\"\"\""), "1: " + behind);
  EXPECT_EQ(TomlFaultOf("a = \"\"\"\nx\\ \n\t\xD1\x88\"\"\""), "2: " + behind);
  for (const char* text :
       {"a = '\xD1\x88'", "a = \"\xD1\x88\" # \xD1\x88", "\"\xD1\x88\" = 1",
        "a = \"\"\"\xD1\x88\\n\xD1\x88 \\\n x\xD1\x88\"\"\"", "a = '''\\\xD1\x88'''"}) {
    EXPECT_EQ(TomlFaultOf(text), "") << text;
  }
}

TEST(TomlBounds, DeepNestingIsNot) {
  const std::string expected = "more than 32 brackets are open";
  EXPECT_EQ(TomlFaultOf("a = " + Repeated("[", 32) + Repeated("]", 32)), "");
  EXPECT_EQ(TomlFaultOf("a = " + Repeated("[", 33)), "1: " + expected);
  EXPECT_EQ(TomlFaultOf("a = " + Repeated("[\n", 33)), "33: " + expected);
  EXPECT_EQ(TomlFaultOf("a = " + Repeated("{a=", 100'000)), "1: " + expected);
}

TEST(TomlBounds, ALongWordIsNot) {
  const std::string expected = "a word has more than 1024 bytes";
  EXPECT_EQ(TomlFaultOf(Repeated("a", 1024) + " = 1"), "");
  EXPECT_EQ(TomlFaultOf("\n" + Repeated("a", 1025) + " = 1"), "2: " + expected);
  EXPECT_EQ(TomlFaultOf("a = " + Repeated("1", 1025)), "1: " + expected);
  EXPECT_EQ(TomlFaultOf("a = '" + Repeated("1", 5000) + "'"), "");
}

// What a string or a comment holds counts for nothing, and their ends are found.
TEST(TomlBounds, StringsAndCommentsAreSkipped) {
  const std::string dots = Repeated(".", 40) + Repeated("[", 40);
  const std::string after = "\nx = " + Repeated("[", 33);
  const std::string fault = ": more than 32 brackets are open";
  for (const std::string& text : std::vector<std::string>{
           "# " + dots,
           "a = \"" + dots + "\"",
           "a = '" + dots + "'",
           "a = \"\\\"" + dots + "\"",
           "a = '\\'",
           "a = \"\"",
           "a = ''",
           "a = \"\"\"" + dots + "\"\"\"",
           "a = '''" + dots + "'' \"'''",
           "a = \"\"\"\"" + dots + "\"\" \\\"\"\"\"\"\"",
           "a = ''''" + dots + "'''''",
           "a = \"\"\"\"\"\"",
       }) {
    EXPECT_EQ(TomlFaultOf(text), "") << text;
    EXPECT_EQ(TomlFaultOf(text + after), "2" + fault) << text;
  }
  EXPECT_EQ(TomlFaultOf("a = \"\"\"\n\n\\\n" + dots + "\n\"\"\"" + after), "6" + fault);
  // Strings without an end.
  for (const char* text : {"a = \"x", "a = 'x", "a = \"x\\"}) {
    EXPECT_EQ(TomlFaultOf(text), "") << text;
    EXPECT_EQ(TomlFaultOf(text + after), "2" + fault) << text;
  }
  EXPECT_EQ(TomlFaultOf("a = \"\"\"" + dots), "");
}

}  // namespace
}  // namespace ropeway::base
