#include "gateway/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "service/sinks.h"

namespace ropeway::gateway {
namespace {

Delta Output(const std::string& text, size_t tokens) {
  Delta delta;
  delta.text = text;
  delta.tokens.resize(tokens);
  return delta;
}

GivenOutput Given(const Delta& delta) {
  GivenOutput given;
  given.Add(delta);
  return given;
}
GivenOutput Given(const std::string& text, size_t tokens) { return Given(Output(text, tokens)); }

// A thought, a text and two calls, whose ids begin with `id`.
Delta Answer(const std::string& id) {
  Delta delta;
  delta.reasoning = "hm so";
  delta.text = "one two";
  delta.tool_calls = {{0, id + "0", "get", "{\"a\":1}"}, {1, id + "1", "get", "{}"}};
  return delta;
}

// The same in deltas of a byte each, names apart.
std::vector<Delta> Bytewise(const Delta& whole) {
  std::vector<Delta> pieces;
  for (const char c : whole.reasoning) pieces.emplace_back().reasoning = c;
  for (const char c : whole.text) pieces.emplace_back().text = c;
  for (const ToolCallDelta& call : whole.tool_calls) {
    pieces.emplace_back().tool_calls = {{call.index, call.id, call.name, ""}};
    for (const char c : call.arguments) {
      pieces.emplace_back().tool_calls = {{call.index, "", "", std::string(1, c)}};
    }
  }
  return pieces;
}

std::string ShownAnswer(const ChatMessage& message) {
  std::string shown = message.reasoning_content + "|" + message.content;
  for (const ToolCall& call : message.tool_calls) {
    shown += "|" + call.id + " " + call.name + "(" + call.arguments + ")";
  }
  return shown;
}

TEST(Replay, WhatTheClientHasIsPassedOver) {
  Replay replay(Given("one two", 2), true);
  for (const char* again : {"one", " two"}) {
    Delta delta = Output(again, 1);
    EXPECT_FALSE(replay.done());
    EXPECT_TRUE(replay.Skip(&delta));
    EXPECT_TRUE(delta.text.empty() && delta.tokens.empty());
  }
  EXPECT_TRUE(replay.done());
  Delta more = Output(" three", 1);
  EXPECT_TRUE(replay.Skip(&more));
  EXPECT_EQ(more.text, " three");
  EXPECT_EQ(more.tokens.size(), 1U);
}

TEST(Replay, AnotherAnswerIsSeen) {
  for (const char* other : {"One two", "onE two and more", "one twO"}) {
    Replay replay(Given("one two", 2), false);
    Delta delta = Output(other, 1);
    EXPECT_FALSE(replay.Skip(&delta)) << other;
  }
  // In pieces: nothing of it is passed on before it is seen.
  Replay replay(Given("one two", 2), false);
  Delta first = Output("x", 1);
  EXPECT_TRUE(replay.Skip(&first));
  EXPECT_EQ(first.text, "");
  EXPECT_FALSE(replay.done());
  Delta second = Output("ne two", 1);
  EXPECT_FALSE(replay.Skip(&second));
}

TEST(Replay, OfTextAloneTheCutMayBeAnywhere) {
  Replay replay(Given("one t", 20), false);
  Delta delta = Output("one two", 2);
  EXPECT_TRUE(replay.Skip(&delta));
  EXPECT_EQ(delta.text, "wo");
  EXPECT_TRUE(replay.done());
}

TEST(Replay, TokensThatTheClientSeesAreTheSame) {
  Replay fewer(Given("one", 2), true);
  Delta delta = Output("one two", 1);
  EXPECT_FALSE(fewer.Skip(&delta));
  Replay more(Given("one", 1), true);
  delta = Output("one", 2);
  EXPECT_FALSE(more.Skip(&delta));
  // One whose text comes with the next one.
  Replay held(Given("one", 2), true);
  delta = Output("one", 1);
  EXPECT_TRUE(held.Skip(&delta));
  EXPECT_FALSE(held.done());
  delta = Output("", 1);
  EXPECT_TRUE(held.Skip(&delta));
  EXPECT_TRUE(held.done());
}

TEST(Replay, AnAnswerGoesOnWhereverItWasCut) {
  const std::vector<Delta> pieces = Bytewise(Answer("a"));
  for (size_t cut = 0; cut <= pieces.size(); ++cut) {
    for (const bool whole : {true, false}) {
      GivenOutput given;
      ChatMessage client;
      for (size_t i = 0; i < cut; ++i) {
        given.Add(pieces[i]);
        service::AddTo(pieces[i], &client);
      }
      // Another run has other ids: a call keeps the one that the client knows it by.
      Replay replay(given, false);
      for (Delta& again : whole ? std::vector<Delta>{Answer("b")} : Bytewise(Answer("b"))) {
        ASSERT_TRUE(replay.Skip(&again)) << cut;
        service::AddTo(again, &client);
        for (const ToolCallDelta& call : again.tool_calls) {
          EXPECT_FALSE(call.name.empty() && call.arguments.empty());
        }
      }
      EXPECT_TRUE(replay.done());
      const size_t first = client.tool_calls[0].id == "a0" ? 0 : 1;
      EXPECT_EQ(first, cut > 12 ? 0U : 1U) << cut;
      for (size_t i = 0; i < client.tool_calls.size(); ++i) {
        std::string& id = client.tool_calls[i].id;
        EXPECT_TRUE(id == "a" + std::to_string(i) || id == "b" + std::to_string(i)) << id;
        id = "x";
      }
      EXPECT_EQ(ShownAnswer(client), "hm so|one two|x get({\"a\":1})|x get({})") << cut;
    }
  }
}

TEST(Replay, TheSameBytesInAnotherPlaceAreAnotherAnswer) {
  const Delta answer = Answer("a");
  const auto differs = [&](const auto& change) {
    Delta other = Answer("b");
    change(&other);
    Replay replay(Given(answer), false);
    return !replay.Skip(&other) || !replay.done();
  };
  EXPECT_FALSE(differs([](Delta*) {}));
  EXPECT_TRUE(differs([](Delta* other) {
    other->text = other->reasoning + other->text;
    other->reasoning.clear();
  }));
  EXPECT_TRUE(differs([](Delta* other) { other->tool_calls[1].index = 0; }));
  EXPECT_TRUE(differs([](Delta* other) { other->tool_calls[0].name = "getX"; }));
  EXPECT_TRUE(differs([](Delta* other) { other->tool_calls[0].name = "ge"; }));
  EXPECT_TRUE(differs([](Delta* other) { other->tool_calls.pop_back(); }));
  EXPECT_TRUE(differs([](Delta* other) {
    other->tool_calls[0].arguments.clear();
    other->text += "{\"a\":1}";
  }));
  // A call of which the client has the name alone is not one whose name goes on.
  Delta named;
  named.tool_calls = {{0, "a", "get", ""}};
  Delta longer;
  longer.tool_calls = {{0, "a", "getter", "{}"}};
  EXPECT_FALSE(Replay(Given(named), false).Skip(&longer));
}

}  // namespace
}  // namespace ropeway::gateway
