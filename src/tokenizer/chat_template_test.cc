#include "tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ropeway {
namespace {

const std::vector<ChatMessage> kChat = {
    {"system", " Be\n brief "}, {"user", "Hi {{ x }}"}, {"assistant", ""}, {"user", "Bye"}};

// The template of SmolLM2-135M-Instruct.
constexpr const char* kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";

StatusOr<std::string> TryRender(const std::string& source,
                                const std::vector<ChatMessage>& messages = kChat) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render(messages, /*add_generation_prompt=*/true, "<s>", "</s>");
}

std::string Render(const std::string& source, const std::vector<ChatMessage>& messages = kChat) {
  const StatusOr<std::string> text = TryRender(source, messages);
  return text.ok() ? *text : "FAILED: " + text.status().message();
}

std::string Failure(const std::string& source) {
  const StatusOr<std::string> text = TryRender(source);
  return text.ok() ? "rendered: " + text->substr(0, 100) : text.status().message();
}

// All expected texts below are what jinja2 3.1.6 renders with trim_blocks and lstrip_blocks.

TEST(ChatTemplateTest, RendersTheDefaultModelsTemplate) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(kSmolLm2);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed->Render({{"user", "Hi"}}, true, "", ""),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(*parsed->Render(kChat, false, "", ""),
            "<|im_start|>system\n Be\n brief <|im_end|>\n<|im_start|>user\nHi {{ x }}<|im_end|>\n"
            "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n");
  EXPECT_EQ(*parsed->Render({}, false, "", ""), "");
}

TEST(ChatTemplateTest, ControlsWhiteSpaceAsHuggingFaceDoes) {
  EXPECT_EQ(Render("a\n{% if true %}\n  b\n{% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(Render("a \n  {%- if true -%}  \n b {%- endif %}  c"), "ab  c");
  EXPECT_EQ(Render("  {% if true %}  x  {% endif %}  \n y"), "  x    \n y");
  EXPECT_EQ(Render("  {%+ if true %}x{% endif +%}\n y"), "  x\n y");
  EXPECT_EQ(Render("  {# c #}\n x{#- c -#}\n y"), " xy");
  EXPECT_EQ(Render("{{ 1 }}\n{{ 2 }}\n\n"), "1\n2\n");
  EXPECT_EQ(Render("  {{ 1 }}"), "  1");
  EXPECT_EQ(Render("x\r\ny\rz\r\n"), "x\ny\nz");
  EXPECT_EQ(Render("{ { {x } }"), "{ { {x } }");
}

TEST(ChatTemplateTest, LoopsHaveTheirVariablesAndTheirScope) {
  EXPECT_EQ(Render("{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} "
                   "{{ loop.first }} {{ loop.last }} {{ loop.revindex0 }};{% endfor %}"),
            "1/2 True False 1;2/2 False True 0;");
  EXPECT_EQ(Render("{% set x = 1 %}{% for m in messages %}{% set x = x + 1 %}{{ x }}{% endfor %}"
                   "{{ x }}{{ loop is defined }}"),
            "22221False");
  EXPECT_EQ(Render("{% for a, b in [(1, 2), (3, 4)] %}{{ a }}-{{ b }};{% endfor %}"), "1-2;3-4;");
  EXPECT_EQ(Render("{% for x in missing %}a{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(Render("{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index0 }}{% endfor %}"
                   "{{ loop.index0 }}{% endfor %}"),
            "010011");
}

struct Case {
  const char* expression;
  const char* text;
};

TEST(ChatTemplateTest, EvaluatesExpressionsAsPythonDoes) {
  const std::vector<Case> cases = {
      {"1 + 2 * 3 - 4", "3"},
      {"-7 // 2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"1 ~ 'a' ~ none ~ true", "1aNoneTrue"},
      {"'a' 'b'", "ab"},
      {R"("x\ty\u00e9\x41\101\q\\")", "x\tyéAA\\q\\"},
      {"'añ😀b'[1:3]", "ñ😀"},
      {"'abcdef'[::-1]", "fedcba"},
      {"'abcdef'[4:1:-2]", "ec"},
      {"'abcdef'[-100:2]", "ab"},
      {"[1, 2, 3][-1]", "3"},
      {"[1, 2][5]", ""},
      {"missing", ""},
      {"messages[0].nothing", ""},
      {"messages[1:][0]['role']", "user"},
      {"messages[0].content|trim", "Be\n brief"},
      {"'\u3000x\u00a0'|trim", "x"},
      {"'xxaxx'.strip('x')", "a"},
      {"'añ'|length", "2"},
      {"''|default('d', true) ~ none|default('d') ~ missing|default('e')", "dNonee"},
      {"['a', 1]|join(', ')", "a, 1"},
      {"messages|first == messages[0]", "True"},
      {"'role' in messages[0] and 'x' not in 'abc'", "True"},
      {"1 < 2 > 1", "True"},
      {"0 or 'x'", "x"},
      {"not missing is defined", "True"},
      {"none is none and 'x' is string and messages is not string", "True"},
      {"1 if false", ""},
      {"'a' if missing else 'b'", "b"},
      {"{'a': {'b': 3}}['a'].b", "3"},
      {"messages[0].get('no', 'd')", "d"},
      {"'ab'.startswith('a') and 'ab'.endswith('b')", "True"},
      {"bos_token ~ eos_token ~ add_generation_prompt ~ tools", "<s></s>TrueNone"},
      {"[1] + [2] == [1, 2]", "True"},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(Render(std::string("{{ ") + test.expression + " }}"), test.text) << test.expression;
  }
}

TEST(ChatTemplateTest, RefusesWhatItDoesNotUnderstandWithTheLine) {
  const auto at = [](int line, const std::string& rest) {
    return "tokenizer.chat_template, line " + std::to_string(line) + ": " + rest;
  };
  EXPECT_EQ(Failure("\n\n{% macro f() %}{% endmacro %}"),
            at(3, "the tag 'macro' is not supported here"));
  EXPECT_EQ(Failure("a\n{{ messages|tojson }}"), at(2, "the filter 'tojson' is not supported"));
  EXPECT_EQ(Failure("{{ 4 is divisibleby 2 }}"), at(1, "the test 'divisibleby' is not supported"));
  EXPECT_EQ(Failure("{{ strftime_now('%Y') }}"),
            at(1, "the function 'strftime_now' is not supported"));
  EXPECT_EQ(Failure("{{ 'a'.format(1) }}"), at(1, "the method 'format' is not supported"));
  EXPECT_EQ(Failure("{% set ns.x = 1 %}"),
            at(1, "expected '='; other forms of set are not supported"));
  EXPECT_EQ(Failure("{{ 1.5 }}"), at(1, "numbers other than decimal integers are not supported"));
  EXPECT_EQ(Failure("{{ x|default(value=1) }}"),
            at(1, "named arguments are not supported ('value')"));
  EXPECT_EQ(Failure("{% if true %}\n"), at(1, "the template ends where 'endif' is missing"));
  EXPECT_EQ(Failure("{% endif %}"), at(1, "the tag 'endif' is not supported here"));
  EXPECT_EQ(Failure("\n{{ 'abc"), at(2, "a string that begins here does not end"));
  EXPECT_EQ(Failure("{{ (1 }}"), at(1, "unexpected '}'"));
  for (const char* source :
       {"{{", "{%", "{#", "{{ }}", "{% %}", "{{ 1 2 }}", "{{ a. }}", "{{ [1 }}", "{% for x %}",
        "{% for if in x %}{% endfor %}", "{{ '\\xZZ' }}", "{{ '\\ud800' }}",
        "{{ 99999999999999999999 }}", "{{ a ! b }}"}) {
    EXPECT_FALSE(ChatTemplate::Parse(source).ok()) << source;
  }
}

TEST(ChatTemplateTest, FailsWhereJinjaRaises) {
  EXPECT_EQ(Failure("{{ raise_exception('Roles must ' ~ 'alternate') }}"), "Roles must alternate");
  EXPECT_EQ(Failure("\n{{ missing.x }}"),
            "tokenizer.chat_template, line 2: 'missing' is undefined");
  EXPECT_EQ(Failure("{{ 'a' + missing }}"),
            "tokenizer.chat_template, line 1: 'missing' is undefined");
  EXPECT_EQ(Failure("{{ 'a' + 1 }}"),
            "tokenizer.chat_template, line 1: + is not possible between a string and an integer");
  for (const char* expression : {"1 < 'a'", "1 // 0", "none + 'a'", "'a' in 1", "1|length",
                                 "-9223372036854775807 - 2", "-(-9223372036854775807 - 1)"}) {
    EXPECT_FALSE(TryRender(std::string("{{ ") + expression + " }}").ok()) << expression;
  }
}

TEST(ChatTemplateTest, HostileTemplatesEnd) {
  std::string doubling = "{% set x = 'aaaaaaaa' %}";
  for (int i = 0; i < 60; ++i) doubling += "{% set x = x ~ x %}";
  EXPECT_NE(Failure(doubling).find("makes too much text"), std::string::npos);

  std::string loops;
  std::string ends;
  for (int i = 0; i < 40; ++i) {
    loops += "{% for a in [1, 2, 3, 4] %}";
    ends += "{% endfor %}";
  }
  EXPECT_NE(Failure(loops + ends).find("takes too many steps"), std::string::npos);

  const auto times = [](int count, const std::string& text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_NE(
      Failure("{{ " + times(50'000, "(") + "1" + times(50'000, ")") + "}}").find("nested too deep"),
      std::string::npos);
  EXPECT_NE(Failure("{{ " + times(50'000, "not ") + "1}}").find("nested too deep"),
            std::string::npos);
  EXPECT_NE(Failure("{{ " + times(50'000, "- ") + "1}}").find("nested too deep"),
            std::string::npos);
  EXPECT_NE(Failure("{{ 1" + times(50'000, "+1") + "}}").find("nested too deep"),
            std::string::npos);
  EXPECT_NE(Failure("{{ a" + times(50'000, ".a") + "}}").find("nested too deep"),
            std::string::npos);
  EXPECT_NE(Failure(times(50'000, "{% if 1 %}")).find("too deep"), std::string::npos);
  EXPECT_NE(Failure(times(200, "{% set x = [x] %}")).find("too deep"), std::string::npos);
  EXPECT_FALSE(ChatTemplate::Parse(std::string(2'000'000, 'x')).ok());
}

TEST(ChatTemplateTest, LongChatsFitTheBounds) {
  std::vector<ChatMessage> chat(5000, {"user", std::string(1000, 'x')});
  EXPECT_GT(Render(kSmolLm2, chat).size(), 5'000'000U);
  chat = {{"user", std::string(20'000'000, 'x')}};
  EXPECT_GT(Render(kSmolLm2, chat).size(), 20'000'000U);
}

}  // namespace
}  // namespace ropeway
