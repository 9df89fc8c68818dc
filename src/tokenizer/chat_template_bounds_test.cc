// What a rendering may take: honest templates render long chats, and hostile ones end soon.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fiber.h"
#include "tokenizer/chat_template.h"

namespace ropeway::tokenizer {
namespace {

StatusOr<std::string> RenderedOf(const std::string& source,
                                 const std::vector<ChatMessage>& messages,
                                 const std::function<bool(size_t)>& stopped = nullptr) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  StatusOr<RenderedChat> chat = parsed->Render({.messages = messages}, "<s>", "</s>",
                                               std::chrono::system_clock::now(), stopped);
  if (!chat.ok()) return chat.status();
  return std::move(chat->text);
}

std::string SizeOf(const std::string& source, const std::vector<ChatMessage>& messages) {
  const StatusOr<std::string> text = RenderedOf(source, messages);
  return text.ok() ? std::to_string(text->size()) : text.status().message();
}

// User and assistant in turns, each with a line of 50 bytes.
std::vector<ChatMessage> LongChat(size_t messages) {
  std::vector<ChatMessage> chat;
  for (size_t i = 0; i < messages; ++i) {
    chat.push_back(
        {i % 2 == 0 ? "user" : "assistant", "a line of words, 50 bytes long, for one message ..."});
  }
  return chat;
}

// For each message another loop over all of them, as Gemma 4's template has.
TEST(ChatTemplateBounds, TwoThousandMessagesMayBeLoopedOverForEachOther) {
  const std::vector<ChatMessage> chat = LongChat(2000);
  const std::string lines = std::to_string(chat[0].content.size() * chat.size());
  EXPECT_EQ(SizeOf("{% for m in messages %}{% set ns = namespace(n=0) %}{% for k in messages %}"
                   "{% if k.role == 'user' %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}"
                   "{{ m.content }}{% endfor %}",
                   chat),
            lines);
}

TEST(ChatTemplateBounds, OtherWaysToGoThroughAllMessagesForEach) {
  const std::vector<ChatMessage> chat = LongChat(1000);
  const std::string lines = std::to_string(chat[0].content.size() * chat.size());
  // By index with a flag instead of a break, a macro over a slice, a filter, and text and lists
  // that grow message by message.
  EXPECT_EQ(SizeOf("{% for m in messages %}{% set ns = namespace(done=false) %}"
                   "{% for k in range(loop.index, messages|length) %}{% if not ns.done %}"
                   "{% if messages[k].role == 'tool' %}{% set ns.done = true %}{% endif %}"
                   "{% endif %}{% endfor %}{{ m.content }}{% endfor %}",
                   chat),
            lines);
  EXPECT_EQ(SizeOf("{% macro before(i) %}{% for m in messages[:i] if m.role == 'tool' %}x"
                   "{% endfor %}{% endmacro %}"
                   "{% for m in messages %}{{ before(loop.index0) }}{{ m.content }}{% endfor %}",
                   chat),
            lines);
  EXPECT_EQ(SizeOf("{% for m in messages %}"
                   "{{ messages|selectattr('role', 'equalto', 'tool')|list|join }}"
                   "{{ m.content }}{% endfor %}",
                   chat),
            lines);
  EXPECT_EQ(SizeOf("{% set ns = namespace(text='', all=[]) %}{% for m in messages %}"
                   "{% set ns.text = ns.text + m.role[:0] + m.content + '' %}"
                   "{% set ns.all = ns.all + [m] %}{% endfor %}{{ ns.text }}",
                   chat),
            lines);
}

TEST(ChatTemplateBounds, ThreeLoopsAndLoopsOverTextFit) {
  EXPECT_EQ(SizeOf("{% for a in messages %}{% for b in messages %}{% for c in messages %}"
                   "{% if a.role != b.role and b.role != c.role and c.role != a.role %}x{% endif %}"
                   "{% endfor %}{% endfor %}{% endfor %}",
                   LongChat(60)),
            "0");
  const std::vector<ChatMessage> text = {{"user", std::string(100'000, 'x')}};
  EXPECT_EQ(SizeOf("{% for m in messages %}{% for c in m.content %}{% if c != '<' %}{{ c }}"
                   "{% endif %}{% endfor %}{% endfor %}",
                   text),
            "100000");
}

// Whatever a template does with a chat of many messages, it ends in seconds.
TEST(ChatTemplateBounds, AHostileTemplateEnds) {
  const std::vector<ChatMessage> chat = LongChat(90);
  const std::string all = "{% for a in messages %}{% for b in messages %}{% for c in messages %}";
  const std::string end = "{% endfor %}{% endfor %}{% endfor %}";
  const std::string text = "{% set t = 'a' * 200000 %}";
  for (const std::string& source :
       {all + "{% for d in messages %}{% endfor %}" + end,
        text + all + "{% set x = t|upper %}" + end, text + all + "{% set x = t + 'b' %}" + end,
        // What is kept to the end is bounded as ever.
        all + "{% macro f() %}{% endmacro %}" + end, all + "{% set n = namespace(a=1) %}" + end,
        "{% set n = namespace(l=[]) %}" + all + "{% set n.l = n.l + [loop, 'x' * 10000] %}" + end,
        "{% set n = namespace(l=[]) %}" + all + "{% set n.l = [n.l] %}" + end}) {
    const auto began = std::chrono::steady_clock::now();
    const StatusOr<std::string> rendered = RenderedOf(source, chat);
    EXPECT_EQ(rendered.status().code(), StatusCode::kInvalidArgument) << source;
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60)) << source;
  }
  // A short chat allows as little as ever.
  const auto three =
      RenderedOf(all + "{% for i in range(100000) %}{% endfor %}" + end, LongChat(3));
  EXPECT_NE(three.status().message().find("too many steps"), std::string::npos);
}

// A rendering on a fiber, which pauses where it asks whether it is stopped.
class PausedRendering {
 public:
  PausedRendering(const std::string& source, const std::vector<ChatMessage>& chat)
      : fiber_([this, source, chat](const base::Fiber::PauseFn& pause) {
          result_ = RenderedOf(source, chat, [this, &pause](size_t held) {
            most_held_ = std::max(most_held_, held);
            return pause();
          });
        }) {}
  bool Run() { return fiber_.Run(); }
  const StatusOr<std::string>& result() const { return result_; }
  size_t most_held() const { return most_held_; }

 private:
  StatusOr<std::string> result_ = Status(StatusCode::kInternal, "not rendered");
  size_t most_held_ = 0;
  base::Fiber fiber_;  // Last: it uses the others.
};

// Each keeps account of its own memory, whichever threads it runs on.
TEST(ChatTemplateBounds, RenderingsTakeTurnsOnThreads) {
  const std::vector<ChatMessage> chat = LongChat(200);
  const std::string loops =
      "{% for a in messages %}{% for b in messages %}{% set x = b.role ~ a.role %}"
      "{% endfor %}{{ a.content }}{% endfor %}";
  // Its memory is used up at once.
  const std::string large =
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}"
      "{% set ns.l = ns.l + [messages[0].content * 40000] %}{% endfor %}";
  const std::string lines = *RenderedOf(loops, chat);
  std::vector<std::unique_ptr<PausedRendering>> all;
  for (const std::string& source : {loops, large, loops, loops}) {
    all.push_back(std::make_unique<PausedRendering>(source, chat));
  }
  std::vector<bool> ended(all.size());
  int pieces = 0;
  for (bool on = true; on; ++pieces) {
    on = false;
    std::thread([&] {
      for (size_t i = 0; i < all.size(); ++i) {
        if (!ended[i]) ended[i] = all[i]->Run();
        on = on || !ended[i];
      }
    }).join();
  }
  EXPECT_GT(pieces, 10);
  for (const size_t i : {0, 2, 3}) {
    EXPECT_TRUE(all[i]->result().ok()) << all[i]->result().status().message();
    EXPECT_EQ(*all[i]->result(), lines);
    EXPECT_LT(all[i]->most_held(), size_t{4} << 20);
  }
  EXPECT_NE(all[1]->result().status().message().find("too much text"), std::string::npos);
  EXPECT_GT(all[1]->most_held(), size_t{32} << 20);
}

// The deepest that a template may go fits the stack of a fiber.
TEST(ChatTemplateBounds, AFibersStackIsDeepEnough) {
  PausedRendering deep(
      "{% macro f(x=f()) %}{% if f() %}{{ [f(f())] }}{% endif %}{% endmacro %}"
      "{{ f() }}",
      LongChat(1));
  while (!deep.Run()) {
  }
  EXPECT_NE(deep.result().status().message().find("calls are nested too deeply"),
            std::string::npos);
}

TEST(ChatTemplateBounds, ALongRenderingIsStopped) {
  int asked = 0;
  const auto stopped = [&asked](size_t) { return ++asked == 3; };
  const std::string loops =
      "{% for a in messages %}{% for b in messages %}{{ b.content }}{% endfor %}{% endfor %}";
  EXPECT_EQ(RenderedOf(loops, LongChat(2000), stopped).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
  // Not only steps take time.
  asked = 0;
  const std::string text =
      "{% set t = 'a' * 1000000 %}{% for a in range(50) %}{{ (t ~ a)|length }}";
  EXPECT_EQ(RenderedOf(text + "{% endfor %}", LongChat(1), stopped).status().code(),
            StatusCode::kCancelled);
  // A short one is not asked about.
  asked = 0;
  EXPECT_TRUE(RenderedOf("{{ messages[0].content }}", LongChat(4), stopped).ok());
  EXPECT_EQ(asked, 0);
}

// What a tool's or a call's JSON takes is told before the rendering begins, and so are parts.
TEST(ChatTemplateBounds, MakingTheValuesOfALongChatIsStopped) {
  std::string json = "{\"a\": [0";
  for (int i = 0; i < 20'000; ++i) json += ",0";
  json += "]}";
  const Chat tool = {.messages = LongChat(1), .tools = {{.name = "f", .parameters = json}}};
  Chat call = {.messages = LongChat(2)};
  call.messages[1].tool_calls = {{.id = "", .name = "f", .arguments = json}};
  const Chat argument = {.messages = LongChat(1), .template_arguments = json};
  const Chat parts = {.messages = {{.role = "user",
                                    .content = std::string(9'999, '\n'),
                                    .part_sizes = std::vector<size_t>(10'000)}}};
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse("x");
  ASSERT_TRUE(parsed.ok());
  for (const Chat& chat : {tool, call, argument, parts}) {
    size_t told = 0;
    const auto stopped = [&told](size_t held) { return (told = held) > 0; };
    const auto now = std::chrono::system_clock::now();
    EXPECT_EQ(parsed->Render(chat, "", "", now, stopped).status().code(), StatusCode::kCancelled);
    EXPECT_GT(told, size_t{3} << 20);
    EXPECT_TRUE(parsed->Render(chat, "", "", now).ok());
  }
}

}  // namespace
}  // namespace ropeway::tokenizer
