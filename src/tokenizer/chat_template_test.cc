#include "tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace ropeway::tokenizer {
namespace {

const std::vector<ChatMessage> kChat = {
    {"system", " Be\n brief "}, {"user", "Hi {{ x }}"}, {"assistant", ""}, {"user", "Bye"}};

// The template of SmolLM2-135M-Instruct.
constexpr const char* kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != "
    "'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
    "trained by Hugging Face"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}"
    "{% endif %}";

// 2025-03-09 14:05:07 UTC.
const std::chrono::system_clock::time_point kNow{std::chrono::seconds(1741529107)};

StatusOr<std::string> TryRender(const std::string& source,
                                const std::vector<ChatMessage>& messages = kChat) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  StatusOr<RenderedChat> chat = parsed->Render({.messages = messages}, "<s>", "</s>", kNow);
  if (!chat.ok()) return chat.status();
  return std::move(chat->text);
}

std::string Render(const std::string& source, const std::vector<ChatMessage>& messages = kChat) {
  const StatusOr<std::string> text = TryRender(source, messages);
  return text.ok() ? *text : "FAILED: " + text.status().message();
}

std::string Failure(const std::string& source) {
  const StatusOr<std::string> text = TryRender(source);
  return text.ok() ? "rendered: " + text->substr(0, 100) : text.status().message();
}

std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// All expected texts below are jinja2 3.1.6's with trim_blocks and lstrip_blocks.
// scripts/check_templates.py compares many more templates (tests/data/templates) with jinja2
// itself.

TEST(ChatTemplateTest, RendersTheDefaultModelsTemplate) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(kSmolLm2);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->Render({.messages = {{"user", "Hi"}}}, "", "")->text,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
            "trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
            "assistant\n");
  EXPECT_EQ(parsed->Render({.messages = kChat, .add_generation_prompt = false}, "", "")->text,
            "<|im_start|>system\n Be\n brief <|im_end|>\n<|im_start|>user\nHi {{ x "
            "}}<|im_end|>\n"
            "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n");
  EXPECT_EQ(parsed->Render({.messages = {}, .add_generation_prompt = false}, "", "")->text, "");
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
  EXPECT_EQ(Render("{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ "
                   "loop.length }} "
                   "{{ loop.first }} {{ loop.last }} {{ loop.revindex0 }};{% endfor %}"),
            "1/2 True False 1;2/2 False True 0;");
  EXPECT_EQ(Render("{% set x = 1 %}{% for m in messages %}{% set x = x + 1 "
                   "%}{{ x }}{% endfor %}"
                   "{{ x }}{{ loop is defined }}"),
            "22221False");
  EXPECT_EQ(Render("{% for a, b in [(1, 2), (3, 4)] %}{{ a }}-{{ b }};{% endfor %}"), "1-2;3-4;");
  EXPECT_EQ(Render("{% for x in missing %}a{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(Render("{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index0 "
                   "}}{% endfor %}"
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

TEST(ChatTemplateTest, MacrosNamespacesAndBlocks) {
  EXPECT_EQ(Render("{% macro f(a, b='x', c=b|upper) %}{{ a }}{{ b }}{{ c }};{% "
                   "endmacro %}"
                   "{{ f(1) }}{{ f(1, 'y') }}{{ f(c=3, a=2) }}{{ f() }}"),
            "1xX;1yY;2x3;xX;");
  EXPECT_EQ(Render("{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif "
                   "%}{% endmacro %}"
                   "{{ f(3) }}"),
            "3210");
  EXPECT_EQ(Render("{% macro each() %}{% for i in [1, 2] %}<{{ caller(i) }}>{% endfor %}"
                   "{% endmacro %}{% call(x) each() %}{{ x * 2 }}{% endcall %}"),
            "<2><4>");
  EXPECT_EQ(Render("{% set ns = namespace(n=0) %}{% for m in messages %}{% set "
                   "ns.n = ns.n + 1 %}"
                   "{% endfor %}{{ ns.n }}"),
            "4");
  EXPECT_EQ(Render("{% set a, b = 1, 2 %}{% set t | upper %}x{{ a }}{% endset "
                   "%}{{ t }}{{ b }}"
                   "{% filter lower %}ABC{% endfilter %}{% with z = 5 %}{{ z "
                   "}}{% endwith %}{{ z }}"
                   "{% generation %}g{% endgeneration %}"),
            "X12abc5g");
  EXPECT_EQ(Render("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}"
                   "{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
            "023");
}

TEST(ChatTemplateTest, TheDateIsTheOneGiven) {
  EXPECT_EQ(Render("{{ strftime_now('%Y-%m-%d %d %b %Y %H:%M:%S %A %j') }}"),
            "2025-03-09 09 Mar 2025 14:05:07 Sunday 068");
  EXPECT_FALSE(TryRender("{{ strftime_now('%Q') }}").ok());
}

TEST(ChatTemplateTest, NamesAndToolCallIdsAreThereWhereGiven) {
  const std::string source =
      "{% for m in messages %}{{ m.name is defined }}{{ m.name }}{{ "
      "m.tool_call_id is defined }}"
      "{{ m['tool_call_id'] }};{% endfor %}{{ messages }}";
  EXPECT_EQ(Render(source, {{"tool", "4", "add", "call1"}, {"user", "Hi"}}),
            "TrueaddTruecall1;FalseFalse;[{'role': 'tool', 'content': '4', "
            "'name': 'add', "
            "'tool_call_id': 'call1'}, {'role': 'user', 'content': 'Hi'}]");
}

TEST(ChatTemplateTest, RejectsUnsupportedConstructsWithTheLine) {
  const auto at = [](int line, const std::string& rest) {
    return "tokenizer.chat_template, line " + std::to_string(line) + ": " + rest;
  };
  EXPECT_EQ(Failure("\n\n{% include 'x' %}"), at(3, "the tag 'include' is not supported here"));
  EXPECT_EQ(Failure("{% do x.append(1) %}"), at(1, "the tag 'do' is not supported here"));
  EXPECT_EQ(Failure("a\n{{ messages|xmlattr }}"), at(2, "the filter 'xmlattr' is not supported"));
  EXPECT_EQ(Failure("{{ messages|map('urlize')|list }}"),
            at(1, "the filter 'urlize' is not supported"));
  EXPECT_EQ(Failure("{{ messages|selectattr('role', 'escaped') }}"),
            at(1, "the test 'escaped' is not supported"));
  EXPECT_EQ(Failure("{{ 4 is filter }}"), at(1, "the test 'filter' is not supported"));
  EXPECT_EQ(Failure("\n{{ lookup('x') }}"), at(2, "the function 'lookup' is not supported"));
  EXPECT_EQ(Failure("{{ cycler(1) }}"), at(1, "the name 'cycler' is not supported"));
  EXPECT_EQ(Failure("{{ 'a'.encode() }}"), at(1, "the method 'encode' is not supported"));
  EXPECT_EQ(Failure("{{ 0x10 }}"), at(1, "only plain decimal numbers are supported"));
  EXPECT_EQ(Failure("{{ x|default(valeu=1) }}"),
            at(1, "the filter 'default' does not take an argument named 'valeu'"));
  EXPECT_EQ(Failure("{{ x|replace('a') }}"),
            at(1, "the filter 'replace' needs the argument 'new'"));
  EXPECT_EQ(Failure("{{ range() }}"), at(1, "the function 'range' needs the argument 'start'"));
  EXPECT_EQ(Failure("{{ f(*x) }}"), at(1, "arguments with '*' are not supported"));
  EXPECT_EQ(Failure("{% for x in y recursive %}{% endfor %}"),
            at(1, "'recursive' loops are not supported"));
  EXPECT_EQ(Failure("\n{% break %}"), at(2, "'break' is outside of a loop"));
  EXPECT_EQ(Failure("{% for x in [1] %}{% macro f() %}{% break %}{% endmacro "
                    "%}{% endfor %}"),
            at(1, "'break' is outside of a loop"));
  EXPECT_EQ(Failure("{% if true %}\n"), at(1, "expected 'endif', got the end of the template"));
  EXPECT_EQ(Failure("{% endif %}"), at(1, "the tag 'endif' is not supported here"));
  EXPECT_EQ(Failure("\n{% raw %}x"), at(2, "the raw block that begins here is not closed"));
  EXPECT_EQ(Failure("\n{{ 'abc"), at(2, "the string that begins here is not closed"));
  EXPECT_EQ(Failure("{{ (1 }}"), at(1, "unexpected '}'"));
  for (const char* source : {"{{",
                             "{%",
                             "{#",
                             "{{ }}",
                             "{% %}",
                             "{{ 1 2 }}",
                             "{{ a. }}",
                             "{{ [1 }}",
                             "{% for x %}",
                             "{% for if in x %}{% endfor %}",
                             "{{ '\\xZZ' }}",
                             "{{ '\\ud800' }}",
                             "{{ 99999999999999999999 }}",
                             "{{ 1e999 }}",
                             "{{ a ! b }}",
                             "{% set %}",
                             "{% set a b %}",
                             "{% macro %}",
                             "{% macro f(a=1, b) %}{% endmacro %}",
                             "{% call 1 %}{% endcall %}",
                             "{% set a.b.c = 1 %}",
                             "{% filter nope %}{% endfilter %}",
                             "{{ a|",
                             "{{ a is",
                             "{{ f(a=1, 2) }}",
                             "{{ +1 }}",
                             "{% with a %}{% endwith %}",
                             "{% endraw %}"}) {
    EXPECT_FALSE(ChatTemplate::Parse(source).ok()) << source;
  }
}

TEST(ChatTemplateTest, FailsWhereJinjaRaises) {
  EXPECT_EQ(Failure("{{ raise_exception('Roles must ' ~ 'alternate') }}"), "Roles must alternate");
  EXPECT_EQ(Failure("{% macro f(x) %}{{ raise_exception(x) }}{% endmacro %}{{ "
                    "f('in it') }}"),
            "in it");
  EXPECT_EQ(Failure("{{ raise_exception('\x1B[2J') }}").find('\x1B'), std::string::npos)
      << "a control character never reaches a terminal";
  EXPECT_EQ(Failure("\n{{ missing.x }}"),
            "tokenizer.chat_template, line 2: 'missing' is undefined");
  EXPECT_EQ(Failure("{{ 'a' + missing }}"),
            "tokenizer.chat_template, line 1: 'missing' is undefined");
  EXPECT_EQ(Failure("{{ 'a' + 1 }}"),
            "tokenizer.chat_template, line 1: + is not supported between a "
            "string and an integer");
  for (const char* expression : {"1 < 'a'",
                                 "1 // 0",
                                 "1 % 0.0",
                                 "none + 'a'",
                                 "'a' in 1",
                                 "1|length",
                                 "-9223372036854775807 - 2",
                                 "-(-9223372036854775807 - 1)",
                                 "2 ** 64",
                                 "(-9223372036854775807 - 1) // -1",
                                 "9223372036854775807 * 2",
                                 "[1].append(2)",
                                 "messages[0].update({})",
                                 "messages.__class__.x",
                                 "missing|tojson",
                                 "{[1]: 2}",
                                 "[1, 'a']|sort",
                                 "'%d' % 'x'",
                                 "'%s%s' % ('x',)",
                                 "range(100001)",
                                 "messages[0]()",
                                 "'x'|safe + 1"}) {
    EXPECT_FALSE(TryRender(std::string("{{ ") + expression + " }}").ok()) << expression;
  }
}

TEST(ChatTemplateTest, NestingIsBounded) {
  EXPECT_NE(Failure("{{ " + Times(50'000, "(") + "1" + Times(50'000, ")") + "}}")
                .find("nested too deeply"),
            std::string::npos);
  for (const char* link : {"not ", "- "}) {
    EXPECT_NE(Failure("{{ " + Times(50'000, link) + "1}}").find("nested too deeply"),
              std::string::npos);
  }
  for (const char* link : {"+1", ".a", "[0]", "|trim", " if 1", "**2", "()", " is defined"}) {
    EXPECT_NE(Failure("{{ a" + Times(50'000, link) + "}}").find("nested too deeply"),
              std::string::npos)
        << link;
  }
  EXPECT_NE(
      Failure("{{ " + Times(50'000, "[") + Times(50'000, "]") + "}}").find("nested too deeply"),
      std::string::npos);
  EXPECT_NE(Failure("{{ " + Times(50'000, "{1:") + "1" + Times(50'000, "} ") + "}}")
                .find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(
      Failure("{{ " + Times(50'000, "f(") + Times(50'000, ")") + "}}").find("nested too deeply"),
      std::string::npos);
  for (const char* tag :
       {"{% if 1 %}", "{% for a in b %}", "{% macro f() %}", "{% set a %}", "{% filter trim %}",
        "{% call f() %}", "{% with %}", "{% generation %}"}) {
    EXPECT_NE(Failure(Times(50'000, tag)).find("too deeply"), std::string::npos) << tag;
  }
  EXPECT_NE(Failure("{% for " + Times(50'000, "(") + "a" + Times(50'000, ")") + " in b %}")
                .find("too deeply"),
            std::string::npos);
  EXPECT_NE(Failure(Times(200, "{% set x = [x] %}")).find("too deeply"), std::string::npos);
  EXPECT_NE(Failure("{% set ns = namespace() %}{% for i in range(1000) %}{% "
                    "set ns.x = [ns.x] %}"
                    "{% endfor %}")
                .find("too deeply"),
            std::string::npos);
  EXPECT_NE(Failure("{% set ns = namespace(x=[1]) %}{% for i in range(1000) "
                    "%}{% for y in [ns.x] %}"
                    "{% set ns.x = loop %}{% endfor %}{% endfor %}")
                .find("too deeply"),
            std::string::npos);
  EXPECT_NE(Failure("{{ '" + Times(5000, "[") + "'|from_json }}").find("too deeply"),
            std::string::npos);
}

TEST(ChatTemplateTest, RecursionIsBounded) {
  EXPECT_NE(Failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
                .find("calls are nested too deeply"),
            std::string::npos);
  EXPECT_NE(
      Failure("{% macro f(x=f()) %}{% endmacro %}{{ f() }}").find("calls are nested too deeply"),
      std::string::npos);
  EXPECT_NE(Failure("{% macro f() %}{% call f() %}{{ caller() }}{% endcall "
                    "%}{{ caller() }}"
                    "{% endmacro %}{% call f() %}x{% endcall %}")
                .find("calls are nested too deeply"),
            std::string::npos);
  EXPECT_NE(Failure("{{ 'a'|map(" + Times(2000, "'map', ") + "'upper')|list }}")
                .find("calls are nested too deeply"),
            std::string::npos);
  EXPECT_EQ(Render("{{ ['ab']|map('map', 'upper')|list }}"), "[['A', 'B']]");
  // A cycle of references is freed and never followed.
  EXPECT_EQ(Render("{% set a = namespace() %}{% set a.a = a %}{% set a.l = [a] %}"
                   "{{ a.a.a == a }}{{ a.l == [a] }}"),
            "TrueTrue");
  EXPECT_FALSE(TryRender("{% set a = namespace() %}{% set a.a = a %}{{ a }}").ok());
}

TEST(ChatTemplateTest, StepsAreBounded) {
  const std::string loops = Times(40, "{% for a in [1, 2, 3, 4] %}") + Times(40, "{% endfor %}");
  EXPECT_NE(Failure(loops).find("takes too many steps"), std::string::npos);
  EXPECT_NE(Failure("{% for a in range(100000) %}{% for b in range(1000) %}{% endfor %}"
                    "{% endfor %}")
                .find("takes too many steps"),
            std::string::npos);
  EXPECT_NE(Failure("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}"
                    "{% endmacro %}{{ f(40) }}")
                .find("takes too many steps"),
            std::string::npos);
}

TEST(ChatTemplateTest, MemoryIsBounded) {
  std::string doubling = "{% set x = 'aaaaaaaa' %}";
  for (int i = 0; i < 60; ++i) doubling += "{% set x = x ~ x %}";
  EXPECT_NE(Failure(doubling).find("produces too much text"), std::string::npos);
  std::string lists = "{% set x = [1] %}";
  for (int i = 0; i < 60; ++i) lists += "{% set x = x + x %}";
  EXPECT_NE(Failure(lists).find("produces too much text"), std::string::npos);
  // Lists with shared parts: little memory, unbounded text.
  std::string shared = "{% set x = [1] %}";
  for (int i = 0; i < 60; ++i) shared += "{% set x = [x, x] %}";
  for (const char* use : {"{{ x }}", "{{ x|tojson }}", "{{ x == [x[0], x[1]] }}",
                          "{{ x|string|length }}", "{{ x ~ '' }}", "{{ '%s' % [x] }}"}) {
    const std::string failure = Failure(shared + use);
    EXPECT_NE(failure.find("produces too much text"), std::string::npos) << use << failure;
  }
  for (const char* expression :
       {"'a' * 10 ** 9", "'a' * 10 ** 18", "10 ** 9 * [0]", "[[0]] * 9223372036854775807",
        "'%999s' % 'x' * 10000000", "'x'.ljust(1000000) * 1000", "[1]|batch(10 ** 9, 'x')|list",
        "[1]|batch(9223372036854775807, 'x')|list", "('a' * 10000).replace('', 'b' * 100000)",
        "('ab' * 10000).replace('a', 'b' * 100000)", "('a' * 100000)|join('b' * 100000)",
        "('a\n' * 100000)|indent(1000)", "[1] * 10000000"}) {
    EXPECT_NE(Failure(std::string("{{ ") + expression + " }}").find("produces too much text"),
              std::string::npos)
        << expression << ": " << Failure(std::string("{{ ") + expression + " }}");
  }
  EXPECT_EQ(Render("{{ '' * 10 ** 18 }}{{ [] * 10 ** 18 }}"), "[]");
  EXPECT_FALSE(TryRender("{{ '%99999999999s' % 'x' }}").ok());
  EXPECT_FALSE(TryRender("{{ 'x'.ljust(10 ** 12) }}").ok());
  EXPECT_FALSE(TryRender("{{ 'x\ny'|indent(10 ** 12) }}").ok());
  EXPECT_FALSE(ChatTemplate::Parse(std::string(2'000'000, 'x')).ok());
}

// None of these takes time proportional to the product of its two sizes.
TEST(ChatTemplateTest, SearchesTakeLinearTime) {
  const std::string text = "{% set t = 'a' * 1000000 %}{% set p = 'a' * 500000 ~ 'b' %}";
  for (const char* expression :
       {"p in t", "t.find(p)", "t.rfind(p)", "t.count(p)", "t.split(p)|length",
        "t.rsplit(p)|length", "t.replace(p, 'x')|length", "t.strip(p)|length",
        "t.partition(p)|length", "t.rpartition(p)|length"}) {
    EXPECT_TRUE(TryRender(text + "{{ " + expression + " }}").ok()) << expression;
  }
}

TEST(ChatTemplateTest, LongChatsFitTheBounds) {
  std::vector<ChatMessage> chat(5000, {"user", std::string(1000, 'x')});
  EXPECT_GT(Render(kSmolLm2, chat).size(), 5'000'000U);
  chat = {{"user", std::string(20'000'000, 'x')}};
  EXPECT_GT(Render(kSmolLm2, chat).size(), 20'000'000U);
}

// Repeated scans of a text that was made once are bounded too.
TEST(ChatTemplateTest, LooksAtLongTextsAreBounded) {
  const std::string text =
      "{% set t = 'a' * 2000000 %}{% set s = ' ' * 2000000 %}{% set l = [t, t ~ ''] * 50 %}";
  for (const char* expression :
       {"s.strip()", "s.rstrip()", "t.startswith(t)", "(t ~ '').endswith((t, t))",
        "t.removeprefix(t)", "s|int", "s|float(default=1)"}) {
    EXPECT_NE(
        Failure(text + "{% for i in range(100) %}{% set x = " + expression + " %}{% endfor %}")
            .find("produces too much text"),
        std::string::npos)
        << expression;
  }
  for (const char* expression : {"l|max(case_sensitive=true)", "l|min(case_sensitive=true)",
                                 "l|sort(case_sensitive=true)"}) {
    EXPECT_NE(Failure(text + "{{ " + expression + "|length }}").find("produces too much text"),
              std::string::npos)
        << expression;
  }
  // Letters beyond ASCII, and keys, are not searched one by one.
  EXPECT_TRUE(TryRender("{{ ('\u0436' * 3000000)|upper|length }}").ok());
  std::string keys = "{";
  for (int i = 0; i < 60'000; ++i) keys += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_EQ(Render("{{ '" + keys + "\"k1\":2}'|from_json|length }}"), "60000");
  EXPECT_EQ(Render("{{ '{\"b\":1,\"a\":{\"c\":[]},\"b\":[true,null,-2.5,\"x\"]}'|from_json }}"),
            "{'b': [True, None, -2.5, 'x'], 'a': {'c': []}}");
}

// Any number of undefined values has short messages.
TEST(ChatTemplateTest, WhatIsMissingTakesLittleMemory) {
  const std::string name(200'000, 'n');
  EXPECT_LT(Failure("{{ " + name + ".x }}").size(), 1000U);
  EXPECT_LT(Failure("{{ messages['" + name + "'].x }}").size(), 1000U);
  EXPECT_LT(Failure("{{ " + name + "() }}").size(), 1100U);
  EXPECT_LT(Failure("{{ raise_exception('" + name + "') }}").size(), 1100U);
  EXPECT_NE(Failure("{% set k = 'k' * 200000 %}{{ range(1000)|map(attribute=k)|list|length }}")
                .find("produces too much text"),
            std::string::npos);
}

// Any bytes give a result: each template of the corpus, truncated and with bytes changed.
TEST(ChatTemplateTest, BrokenTemplatesFailOrRender) {
  const std::string source =
      "{%- macro f(a, b=[1, {'x': 2.5}]) -%}{{ a|map('upper')|join(', ') ~ "
      "b[0] }}{%- endmacro %}"
      "{% set ns = namespace(n=0) %}{% for m in messages if m.role != 'x' %}{% "
      "set ns.n = ns.n + 1 %}"
      "{{ loop.index }}{{ f(m.content[::2].split(), b=('%5.1f' % 3,)) }}{% "
      "else %}z{% endfor %}"
      "{% call(x) f([1]) %}{{ x }}{% endcall %}{# c #}{% raw %}{{{% endraw "
      "%}{{ ns.n is odd }}";
  uint32_t random = 12345;
  const auto next = [&] { return random = random * 1664525U + 1013904223U; };
  for (size_t i = 0; i < 3000; ++i) {
    std::string broken = source.substr(0, i % 3 == 0 ? next() % source.size() : source.size());
    for (size_t k = next() % 4; k > 0 && !broken.empty(); --k) {
      const std::string bytes = "{}%#()[]'\"|.,:=-+*~ a0\n\\\xC3";
      broken[(next() >> 8U) % broken.size()] = bytes[(next() >> 8U) % bytes.size()];
    }
    const StatusOr<std::string> text = TryRender(broken);
    EXPECT_TRUE(text.ok() || !text.status().message().empty());
  }
}

}  // namespace
}  // namespace ropeway::tokenizer
