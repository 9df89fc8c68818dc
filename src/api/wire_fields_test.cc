#include "api/wire_fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ropeway::api::wire {
namespace {

using nlohmann::json;

TEST(FieldReader, NullIsAbsentAndNothingElseIs) {
  FieldReader fields;
  const json none;
  std::string text;
  EXPECT_TRUE(fields.Object(none, "f").is_null());
  EXPECT_TRUE(fields.Object(json::array(), "f").is_null()) << "as PHP writes an empty object";
  EXPECT_TRUE(fields.List(none, "f").is_null());
  EXPECT_EQ(fields.Text(none, "f"), "");
  fields.Said(none, "f", &text, &text);
  EXPECT_EQ(text, "");
  EXPECT_FALSE(fields.Count(none, "f"));
  EXPECT_FALSE(fields.Integer(none, "f"));
  EXPECT_FALSE(fields.Number(none, "f"));
  EXPECT_FALSE(fields.Flag(none, "f"));
  EXPECT_EQ(fields.fault(), "");

  const auto fault = [](auto read, const char* value) {
    FieldReader reader;
    const json document = json::parse(value);
    read(reader, document);
    return reader.fault();
  };
  const auto object = [](FieldReader& r, const json& v) { r.Object(v, "f"); };
  const auto list = [](FieldReader& r, const json& v) { r.List(v, "f"); };
  const auto text_of = [](FieldReader& r, const json& v) { (void)r.Text(v, "f"); };
  const auto count = [](FieldReader& r, const json& v) { r.Count(v, "f"); };
  const auto integer = [](FieldReader& r, const json& v) { r.Integer(v, "f"); };
  const auto number = [](FieldReader& r, const json& v) { r.Number(v, "f"); };
  const auto flag = [](FieldReader& r, const json& v) { r.Flag(v, "f"); };
  for (const char* value : {"7", "\"x\"", "true", "[1]"}) {
    EXPECT_NE(fault(object, value), "") << value;
  }
  for (const char* value : {"7", "\"x\"", "true", "{}"}) EXPECT_NE(fault(list, value), "") << value;
  for (const char* value : {"7", "[]", "true", "{}"}) EXPECT_NE(fault(text_of, value), "") << value;
  for (const char* value : {"\"\"", "\"x\"", "\"7x\"", "true", "[]", "{}"}) {
    EXPECT_NE(fault(count, value), "") << value;
  }
  for (const char* value : {"-1", "1.0", "\"7\"", "[]"}) EXPECT_NE(fault(integer, value), "");
  for (const char* value : {"\"7\"", "true", "[]"}) EXPECT_NE(fault(number, value), "");
  for (const char* value : {"2", "\"yes\"", "[]"}) EXPECT_NE(fault(flag, value), "");
  EXPECT_EQ(fault(text_of, "[]"), "sent the field 'f' as a list");
}

TEST(FieldReader, CountsAreConvertedAndWhatIsNoneIsAsAbsent) {
  FieldReader fields;
  EXPECT_EQ(fields.Count(3, "f"), 3);
  EXPECT_EQ(fields.Count(3.0, "f"), 3);
  EXPECT_EQ(fields.Count("12", "f"), 12);
  EXPECT_EQ(fields.Count(2147483647, "f"), 2147483647);
  for (const json& value : {json(-1), json(1.5), json(2147483648), json("-1"), json(1e300)}) {
    EXPECT_FALSE(fields.Count(value, "f")) << value;
  }
  EXPECT_EQ(fields.Flag("true", "f"), true);
  EXPECT_EQ(fields.Flag(0, "f"), false);
  EXPECT_EQ(fields.fault(), "");
}

TEST(FieldReader, PartsAreTextOrThoughtsOrAFault) {
  const auto said = [](const char* value) {
    FieldReader fields;
    std::string text;
    std::string thoughts;
    fields.Said(json::parse(value), "content", &text, &thoughts);
    return thoughts + "|" + text + "|" + fields.fault();
  };
  EXPECT_EQ(said(R"("a")"), "|a|");
  EXPECT_EQ(said(R"([{"type":"text","text":"a"},"b",null,{"text":"c"}])"), "|abc|");
  EXPECT_EQ(said(R"({"type":"output_text","text":"a"})"), "|a|");
  EXPECT_EQ(said(R"([{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},
                     {"type":"text","text":"a"}])"),
            "hm|a|");
  EXPECT_EQ(said(R"([{"type":"refusal","refusal":"no"}])"), "|no|");
  EXPECT_EQ(said(R"([{"type":"text","text":null}])"), "||");
  EXPECT_EQ(said("[]"), "||");
  const std::string sent = "||sent the field 'content' ";
  EXPECT_EQ(said("7"), sent + "as a number");
  EXPECT_EQ(said("[7]"), sent + "as a number");
  EXPECT_EQ(said("false"), sent + "as a boolean");
  EXPECT_EQ(said(R"([{"type":"text","text":7}])"), sent + "as a number");
  EXPECT_EQ(said(R"([{"type":"image_url","image_url":{}}])"),
            sent + "with a part of the unknown type 'image_url'");
  EXPECT_EQ(said("{}"), sent + "with a part of the unknown type ''");
}

// The texts of documents, one after the other.
std::string Joined(const std::vector<std::string>& documents) {
  HalfJoiner joiner;
  std::string all;
  for (const std::string& document : documents) {
    const std::optional<std::string> marked = MarkHalves(document);
    const json read = json::parse(marked ? *marked : document);
    all += joiner.Join(read.get<std::string>(), marked.has_value());
  }
  return all + joiner.Rest();
}

TEST(HalfJoiner, JoinsHalvesOverDocuments) {
  EXPECT_EQ(Joined({R"("a\ud83d")", R"("\ude00b")"}), "a😀b");
  EXPECT_EQ(Joined({R"("\uD83D")", R"("")", R"("\uDE00\ud83d")", R"("\ude01")"}), "😀😁");
  EXPECT_EQ(Joined({R"("\ud83d\ude00")", R"("ü")"}), "😀ü");
  EXPECT_EQ(Joined({R"("\ud83d")"}), "\uFFFD") << "at the end";
  EXPECT_EQ(Joined({R"("\ud83d")", R"("x")"}), "\uFFFDx");
  EXPECT_EQ(Joined({R"("\ude00\ud83d")", R"("\ud83d\ude00")"}), "\uFFFD\uFFFD😀");
  EXPECT_EQ(Joined({R"("\ud83d\ud83d")", R"("\ude00")"}), "\uFFFD😀");
  // Neither what is escaped itself, nor the characters that stand for halves.
  EXPECT_EQ(Joined({R"("\\ud83d")"}), "\\ud83d");
  EXPECT_EQ(Joined({"\"\U0010F83D\""}), "\U0010F83D");
}

TEST(HalfJoiner, OnlyDocumentsWithHalvesAreChanged) {
  for (const char* good : {"", "{}", R"("\ud83d\ude00")", R"("\\ud83d")", R"("\u00e9\n")", "\\",
                           "\\u", "\\ud83", R"("\ud8zz")"}) {
    EXPECT_FALSE(ReplaceHalves(good)) << good;
  }
  EXPECT_EQ(ReplaceHalves(R"({"a":"\ud83d","b":"\ude00"})"), "{\"a\":\"\uFFFD\",\"b\":\"\uFFFD\"}");
  EXPECT_EQ(ReplaceHalves(R"(\ud83d\)"), "\uFFFD\\");
}

}  // namespace
}  // namespace ropeway::api::wire
