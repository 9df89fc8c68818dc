#include <gtest/gtest.h>

#include <string>

#include "answer/test_answer.h"

namespace ropeway::answer {
namespace {

constexpr const char* kWriteSchema = R"({"type": "object", "properties": {
    "path": {"type": "string"}, "text": {"type": "string"}, "lines": {"type": "integer"},
    "tags": {"type": "array", "items": {"type": "string"}}, "force": {"type": "boolean"},
    "mode": {"type": ["string", "null"]}, "meta": {"type": "object"}}})";

// Each tool has the same schema.
AnswerOptions Typed() {
  AnswerOptions options{.tools = TestTools()};
  options.types.assign(options.tools.size(), ReadArgumentTypes(kWriteSchema));
  return options;
}

// With marks that are text, cut at every byte.
ReadAnswer ReadPlain(std::string_view form, const std::string& text) {
  const AnswerFormat format = *DetectFormat("", true, {.tool_parser = form});
  const ReadAnswer whole = ReadPieces(format, Typed(), {text});
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(ReadPieces(format, Typed(), {text.substr(0, i), text.substr(i)}), whole)
        << "cut at " << i << ": " << text;
  }
  return whole;
}

std::string Calls(std::string_view form, const std::string& text) {
  const ReadAnswer read = ReadEveryWay(form, text, Typed());
  EXPECT_EQ(read.text, "") << text;
  EXPECT_TRUE(read.proper()) << read.Calls();
  return read.Calls();
}

std::string Qwen(const std::string& text) { return Calls("qwen3_coder", text); }
std::string Glm(const std::string& text) { return Calls("glm45", text); }
std::string MiniMax(const std::string& text) { return Calls("minimax_m2", text); }

// One call of `write` with one argument.
std::string QwenValue(const std::string& key, const std::string& value) {
  const std::string call = Qwen("<tool_call>\n<function=write>\n<parameter=" + key + ">\n" + value +
                                "\n</parameter>\n</function>\n</tool_call>");
  const std::string before = "write {\"" + key + "\":";
  EXPECT_TRUE(call.starts_with(before) && call.ends_with("}\n")) << call;
  return call.substr(before.size(), call.size() - before.size() - 2);
}

TEST(XmlCallsTest, QwenWritesValuesInLines) {
  EXPECT_EQ(Qwen("<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n"
                 "<parameter=lines>\n3\n</parameter>\n</function>\n</tool_call>"),
            "get_weather {\"city\":\"Bern\",\"lines\":3}\n");
  EXPECT_EQ(Qwen("<tool_call>\n<function=now>\n</function>\n</tool_call>"), "now {}\n");
  EXPECT_EQ(Qwen("<tool_call><function=f><parameter=path>a</parameter></function></tool_call>"),
            "f {\"path\":\"a\"}\n");
  EXPECT_EQ(Qwen("<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n"
                 "<parameter=force>\ntrue\n</parameter>\n</function>\n</tool_call>\n"),
            "f {}\ng {\"force\":true}\n");
}

TEST(XmlCallsTest, SeedWritesTheSameInABlockOfItsOwn) {
  EXPECT_EQ(Calls("seed_oss",
                  "<seed:tool_call>\n<function=write>\n<parameter=path>a b</parameter>\n"
                  "<parameter=meta>{'k': [True, None]}</parameter>\n</function>\n"
                  "</seed:tool_call>"),
            "write {\"path\":\"a b\",\"meta\":{\"k\":[true,null]}}\n");
}

TEST(XmlCallsTest, GlmWritesKeysAndValues) {
  EXPECT_EQ(Glm("<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>東京 😀</arg_value>\n"
                "<arg_key>tags</arg_key>\n<arg_value>[\"a\", \"b\"]</arg_value>\n</tool_call>"),
            "get_weather {\"city\":\"東京 😀\",\"tags\":[\"a\", \"b\"]}\n");
  // Later models write no line breaks.
  EXPECT_EQ(Glm("<tool_call>f<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>lines"
                "</arg_key><arg_value>-1.5</arg_value></tool_call><tool_call>g</tool_call>"),
            "f {\"path\":\"a\",\"lines\":-1.5}\ng {}\n");
  EXPECT_EQ(Glm("<tool_call>now\n</tool_call>\n<tool_call>now</tool_call>"), "now {}\nnow {}\n");
  EXPECT_EQ(
      Glm("<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>\n a \n</arg_value></tool_call>"),
      "f {\"text\":\"\\n a \\n\"}\n")
      << "all of the text is the value";
}

TEST(XmlCallsTest, MiniMaxWritesSeveralCallsInABlock) {
  EXPECT_EQ(MiniMax("<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">"
                    "Bern</parameter>\n<parameter name=\"force\">false</parameter>\n</invoke>\n"
                    "<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>"),
            "get_weather {\"city\":\"Bern\",\"force\":false}\nnow {}\n");
}

TEST(XmlCallsTest, ValuesOfStringsAreTheTextAsItIs) {
  EXPECT_EQ(QwenValue("text", "42"), "\"42\"");
  EXPECT_EQ(QwenValue("text", "true"), "\"true\"");
  EXPECT_EQ(QwenValue("text", "\"a\"\\n\t"), "\"\\\"a\\\"\\\\n\\t\"");
  EXPECT_EQ(QwenValue("text", ""), "\"\"");
  EXPECT_EQ(QwenValue("text", "\n  a\n\n"), "\"\\n  a\\n\\n\"") << "one line break at each end";
  EXPECT_EQ(QwenValue("text", "   "), "\"   \"");
  EXPECT_EQ(QwenValue("text", "if a < b && c > d:\n    <p>&amp;</p>"),
            "\"if a < b && c > d:\\n    <p>&amp;</p>\"");
}

TEST(XmlCallsTest, OtherValuesAreParsed) {
  EXPECT_EQ(QwenValue("lines", " 42 "), "42");
  EXPECT_EQ(QwenValue("force", "false"), "false");
  EXPECT_EQ(QwenValue("meta", "{\n  \"a\": [1, null]\n}"), "{\n  \"a\": [1, null]\n}");
  // As a template shows them that prints values as Python does.
  EXPECT_EQ(QwenValue("force", "True"), "true");
  EXPECT_EQ(QwenValue("meta", "{'a': \"b\", 'c': None}"), "{\"a\":\"b\",\"c\":null}");
  // What is nothing of that stays a string.
  EXPECT_EQ(QwenValue("lines", "many"), "\"many\"");
  EXPECT_EQ(QwenValue("meta", "{'a': "), "\"{'a': \"");
  EXPECT_EQ(QwenValue("tags", "[1, 2"), "\"[1, 2\"");
  EXPECT_EQ(QwenValue("lines", ""), "\"\"");
  // A string, unless it is one of the other types.
  EXPECT_EQ(QwenValue("mode", "null"), "null");
  EXPECT_EQ(QwenValue("mode", "nil"), "\"nil\"");
  EXPECT_EQ(QwenValue("mode", "None"), "\"None\"");
  EXPECT_EQ(QwenValue("mode", "42"), "\"42\"");
  EXPECT_EQ(QwenValue("mode", "\"a\""), "\"\\\"a\\\"\"");
  // Of what the schema does not know.
  EXPECT_EQ(QwenValue("other", "42"), "42");
  EXPECT_EQ(QwenValue("other", "\"a\""), "\"a\"");
  EXPECT_EQ(QwenValue("other", "0x1F"), "\"0x1F\"");
  EXPECT_EQ(QwenValue("other", "some text"), "\"some text\"");
}

TEST(XmlCallsTest, StringsAreToldWhileTheyCome) {
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "qwen3_coder"});
  const AnswerOptions options = Typed();
  const auto parser = MakeAnswerParser(format, options);
  const auto add = [&](const char* text) {
    Delta delta;
    parser->Add(text, &delta);
    std::string arguments;
    for (const ToolCallDelta& call : delta.tool_calls) arguments += call.arguments;
    return arguments;
  };
  EXPECT_EQ(add("<tool_call>\n<function=write>\n<parameter=text>\n"), "{\"text\":");
  EXPECT_EQ(add("one\ntw"), "\"one\\ntw");
  EXPECT_EQ(add("o\n"), "o");
  EXPECT_EQ(add("</parameter>"), "");
  EXPECT_EQ(add("\n<parameter=mode>\nno"), "\",\"mode\":") << "it may become null";
  EXPECT_EQ(add("\n</parameter>\n<parameter=mode>\nfast"), "\"no\",\"mode\":\"fast");
  EXPECT_EQ(add("\n</parameter>\n<parameter=lines>\n4"), "\",\"lines\":");
  EXPECT_EQ(add("2\n</parameter>\n</function>"), "42}");
}

TEST(XmlCallsTest, MarksInValuesAreText) {
  EXPECT_EQ(QwenValue("text", "use </parameter> and </function> or <function=f> here"),
            "\"use </parameter> and </function> or <function=f> here\"");
  EXPECT_EQ(QwenValue("text", "</parameter>\n \n</parameter"),
            "\"</parameter>\\n \\n</parameter\"");
  EXPECT_EQ(ReadPlain("qwen3_coder",
                      "<tool_call>\n<function=write>\n<parameter=text>\na </tool_call> b\n"
                      "</parameter>\n</function>\n</tool_call>")
                .Calls(),
            "write {\"text\":\"a </tool_call> b\"}\n");
}

TEST(XmlCallsTest, AControlTokenEndsTheBlock) {
  AnswerFormat format = *DetectFormat("", true, {.tool_parser = "glm45"});
  Resolve([](std::string_view) { return true; }, &format);
  const ReadAnswer read = ReadPieces(
      format, Typed(),
      {"\xFF<tool_call>f\n\xFF<arg_key>text\xFF</arg_key>\n\xFF<arg_value>a</arg_value></tool_call>"
       "<arg_key>\xFF</tool_call>There."});
  EXPECT_EQ(read.Calls(), "f {\"text\":\"a</arg_value></tool_call><arg_key>\"}\n");
  EXPECT_EQ(read.text, "There.");
}

// Slips that models are known for.
TEST(XmlCallsTest, MarksMayBeMissing) {
  EXPECT_EQ(Qwen("<function=f>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"),
            "f {\"path\":\"a\"}\n");
  EXPECT_EQ(Qwen("<function=f>\n</function>\n<function=g>\n</function>"), "f {}\ng {}\n");
  EXPECT_EQ(MiniMax("<invoke name=\"f\"></invoke>"), "f {}\n");
  EXPECT_EQ(Qwen("<tool_call>\n<function=f>\n<parameter=path>\na\n</parameter>\n</tool_call>"),
            "f {\"path\":\"a\"}\n");
  EXPECT_EQ(Qwen("<tool_call>\n<function=f>\n<parameter=path>\na\n</function>\n</tool_call>"),
            "f {\"path\":\"a\"}\n");
  EXPECT_EQ(Qwen("<tool_call>\n<function=f>\n<parameter=lines>\n1\n</function>\n"),
            "f {\"lines\":1}\n");
  EXPECT_EQ(Glm("<tool_call>f\n<arg_key>lines</arg_key>\n<arg_value>1</tool_call>"),
            "f {\"lines\":1}\n");
}

TEST(XmlCallsTest, TextMayStandBeside) {
  ReadAnswer read = ReadEveryWay("qwen3_coder",
                                 "I look.\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>\n"
                                 "Done.",
                                 Typed());
  EXPECT_EQ(read.text, "I look.\n\nDone.");
  EXPECT_EQ(read.Calls(), "f {}\n");
  read = ReadEveryWay("qwen3_coder",
                      "I look. <function=f>\n</function>\nSo </tool_call><function=h> or so.",
                      Typed());
  EXPECT_EQ(read.text, "I look. So <function=h> or so.");
  EXPECT_EQ(read.Calls(), "f {}\n");
  read = ReadPlain("glm45", "<tool_call>f</tool_call> <tool_call>no");
  EXPECT_EQ(read.text, "<tool_call>no");
  EXPECT_EQ(read.Calls(), "f {}\n");
}

TEST(XmlCallsTest, OtherBlocksAreText) {
  const auto expect_text = [](std::string_view form, const std::string& text) {
    const ReadAnswer read = ReadPlain(form, text);
    EXPECT_EQ(read.Calls(), "") << text;
    EXPECT_EQ(read.text, text);
  };
  for (const char* text :
       {"<tool_call>", "<tool_call></tool_call>", "<tool_call>\n<function=nn>\n</function>",
        "<tool_call>\n<function=f", "<tool_call>\n<function=f>", "<function=f>",
        "<function=f> is called", "<tool_call>\n<function=f>\n<parameter=a",
        "a <function=<function=", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n<function=f>\n</parameter>\n</function>\n</tool_call>"}) {
    expect_text("qwen3_coder", text);
  }
  for (const char* text :
       {"<tool_call>no\n</tool_call>", "<tool_call>f", "<tool_call>f g", "<tool_call><arg_key>",
        "<tool_call>f\n<arg_key>a</arg_key>", "<tool_call>f</arg_value>",
        "<tool_call>f<arg_key>path</arg_key>a<arg_value>b</arg_value></tool_call>"}) {
    expect_text("glm45", text);
  }
  for (const char* text : {"<minimax:tool_call>\n</minimax:tool_call>", "<invoke name=\"f\"",
                           "<invoke name=f></invoke>", "<invoke name=\"\"></invoke>"}) {
    expect_text("minimax_m2", text);
  }
}

TEST(XmlCallsTest, CutCallsEndAsTheyStand) {
  const auto cut = [](std::string_view form, const std::string& text) {
    const ReadAnswer read = ReadEveryWay(form, text, Typed());
    EXPECT_EQ(read.text, "");
    return read.Calls();
  };
  const std::string begin = "<tool_call>\n<function=f>\n<parameter=";
  EXPECT_EQ(cut("qwen3_coder", begin + "text>\nBer"), "f {\"text\":\"Ber\n");
  EXPECT_EQ(cut("qwen3_coder", begin + "text>\nBern\n"), "f {\"text\":\"Bern\n");
  EXPECT_EQ(cut("qwen3_coder", begin + "lines>\n12"), "f {\"lines\":12\n");
  EXPECT_EQ(cut("qwen3_coder", begin + "text>\na\n</parameter>\n"), "f {\"text\":\"a\"\n");
  EXPECT_EQ(cut("qwen3_coder", begin + "text>\na\n</parameter>\n<parameter=tex"),
            "f {\"text\":\"a\"\n");
  const ReadAnswer read = ReadPlain("qwen3_coder", "<tool_call>\n<function=f>\n</function>\n</too");
  EXPECT_EQ(read.Calls(), "f {}\n");
  EXPECT_EQ(read.text, "") << "of a mark that is cut nothing is text";
}

TEST(XmlCallsTest, TheBlockEndsBeforeWhatIsNoCall) {
  ReadAnswer read = ReadPlain("minimax_m2",
                              "<minimax:tool_call><invoke name=\"f\"></invoke> Hm. <invoke "
                              "</minimax:tool_call> Oh.");
  EXPECT_EQ(read.Calls(), "f {}\n");
  EXPECT_EQ(read.text, "Hm. <invoke  Oh.");
  // No call follows the first, whose mark is no part of a value.
  read = ReadPlain("minimax_m2",
                   "<invoke name=\"f\"><parameter name=\"path\">a</parameter></invoke>"
                   "<invoke name=\"no\"></invoke>");
  EXPECT_EQ(read.Calls(), "f {\"path\":\"a\"}\n");
  EXPECT_EQ(read.text, "<invoke name=\"no\"></invoke>");
  // An argument without a value.
  read = ReadPlain("glm45",
                   "<tool_call>f<arg_key>lines</arg_key><arg_value>1</arg_value><arg_key>path"
                   "</arg_key>a</tool_call>");
  EXPECT_EQ(read.Calls(), "f {\"lines\":1\n");
  EXPECT_EQ(read.text, "a");
}

}  // namespace
}  // namespace ropeway::answer
