#include "grammar/format_ebnf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "grammar/schema_ebnf.h"
#include "grammar/test_vocabularies.h"

namespace ropeway::grammar {

namespace {

class FormatEbnfTest : public testing::Test {
 protected:
  void SetUp() override {
    vocabulary_ = SmallVocabulary();
    if (vocabulary_ == nullptr) GTEST_SKIP() << "no vocabulary: ROPEWAY_TEST_MODEL is not set";
  }

  void Use(const std::string& format) {
    const StatusOr<std::string> ebnf = SchemaToEbnf({{"type", "string"}, {"format", format}});
    ASSERT_TRUE(ebnf.ok()) << ebnf.status().message();
    grammar_ = MustCompile(*vocabulary_, *ebnf);
    ASSERT_NE(grammar_, nullptr);
  }
  bool IsAccepted(const std::string& text) {
    return Judge(*vocabulary_, grammar_, '"' + text + '"') == "accepted";
  }
  void ExpectOnly(const std::string& format, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& rejected) {
    Use(format);
    for (const std::string& text : accepted) EXPECT_TRUE(IsAccepted(text)) << format << " " << text;
    for (const std::string& text : rejected)
      EXPECT_FALSE(IsAccepted(text)) << format << " " << text;
  }

  const TestVocabulary* vocabulary_ = nullptr;
  std::shared_ptr<const Grammar> grammar_;
};

TEST_F(FormatEbnfTest, DatesAreThoseOfTheCalendar) {
  Use("date");
  for (const int year : {999, 1000, 1600, 1900, 1996, 1999, 2000, 2023, 2024, 2100, 9999}) {
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    for (int month = 0; month <= 13; ++month) {
      const int lengths[] = {0, 31, is_leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0};
      for (int day = 0; day <= 32; ++day) {
        EXPECT_EQ(IsAccepted(fmt::format("{:04}-{:02}-{:02}", year, month, day)),
                  year >= 1000 && day >= 1 && day <= lengths[month])
            << year << " " << month << " " << day;
      }
    }
  }
  for (const char* text : {"", "2024-1-1", "2024-01-01T", "20240101", "2024-01-01\\n"})
    EXPECT_FALSE(IsAccepted(text)) << text;
}

TEST_F(FormatEbnfTest, Times) {
  ExpectOnly("time", {"00:00:00Z", "23:59:59.123456+23:59", "12:30:00-05:30"},
             {"24:00:00Z", "12:60:00Z", "12:00:60Z", "12:00:00", "12:00:00.Z", "12:00:00+24:00",
              "12:00:00+1:00", "1:00:00Z", "12:00:00z"});
  ExpectOnly("date-time", {"2024-02-29T00:00:00Z", "1999-12-31T23:59:59.9+01:00"},
             {"2023-02-29T00:00:00Z", "2024-02-29 00:00:00Z", "2024-02-29", "2024-02-29T00:00:00",
              "2024-13-01T00:00:00Z"});
}

TEST_F(FormatEbnfTest, Names) {
  ExpectOnly("uuid",
             {"12345678-1234-1234-1234-123456789abc", "ABCDEF01-0000-0000-0000-000000000000"},
             {"", "12345678123412341234123456789abc", "12345678-1234-1234-1234-123456789ab",
              "1234567g-1234-1234-1234-123456789abc"});
  ExpectOnly("ipv4", {"0.0.0.0", "1.2.3.4", "192.168.100.255", "249.99.10.200"},
             {"256.1.1.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.400", "1.2.3.", "a.b.c.d"});
  ExpectOnly("email", {"a@b.co", "first.last+tag_1@mail-host.example.com", "A-1@x.y.z.org"},
             {"", "a", "a@b", "@b.co", "a@.co", ".a@b.co", "a..b@c.de", "a.@b.co", "a@-b.co",
              "a@b-.co", "a@b--c.de", "a@b.c0", "a b@c.de", "a@b.co.", "a@b@c.de", "é@b.co"});
}

TEST_F(FormatEbnfTest, Durations) {
  ExpectOnly("duration", {"P1D", "P3W", "P1Y2M3DT4H5M6S", "PT36H", "P1DT1M", "PT1M30S"},
             {"", "P", "PT", "1D", "P1D1Y", "P1Y1D", "P1W1D", "PT1H1S", "P1S", "PT1D", "P1DT",
              "P1.5D", "P12345D"});
}

TEST_F(FormatEbnfTest, Hosts) {
  ExpectOnly("hostname", {"a", "mail-1.example.com", "X.Y"},
             {"", ".", "a.", ".a", "-a", "a-", "a--b", "a_b", "a b", "a..b"});
  ExpectOnly("ipv6",
             {"::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8",
              "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8", "A:b::C"},
             {"", ":", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", ":::",
              "1::2::3", "12345::", "g::", "1:2:3:4::5:6:7:8", "::1.2.3.4", "::1%eth0"});
  ExpectOnly(
      "uri",
      {"http://a.de", "https://www.example-host.org:8080/a/b.html?x=1&y=2", "https://a.b.co/"},
      {"", "a", "http:/a.de", "http://", "ftp://a.de", "http://a", "http://1.2.3.4",
       "http://a.de:0", "http://-a.de", "http://a.de/ b", "http://a..de"});
}

TEST_F(FormatEbnfTest, NamesOfPydantic) {
  ExpectOnly("uuid4", {"12345678-1234-4234-8234-123456789abc"},
             {"12345678-1234-1234-8234-123456789abc", "12345678-1234-4234-7234-123456789abc"});
  ExpectOnly("uuid5", {"12345678-1234-5234-b234-123456789abc"},
             {"12345678-1234-4234-8234-123456789abc"});
  ExpectOnly("base64", {"", "AA==", "AAA=", "Zm9v", "Zm9vYmE=", "/+a0"},
             {"A", "AA", "AB==", "AAB=", "AAA", "A===", "AA==AA==", "-_a0", "A A="});
  ExpectOnly("base64url", {"", "AA==", "AAA=", "-_a0"}, {"/+a0", "AA"});
}

TEST_F(FormatEbnfTest, AnnotationsLeaveTheString) {
  for (const char* format : {"binary", "directory-path", "file-path", "password", "path"}) {
    const auto ebnf = [](nlohmann::ordered_json schema, const char* name) {
      if (name != nullptr) schema["format"] = name;
      return SchemaToEbnf(schema);
    };
    for (const char* schema : {R"({"type": "string"})", R"({"type": "string", "minLength": 2})",
                               R"({"type": "string", "maxLength": 5})", R"({"pattern": "^a+$"})"}) {
      const auto json = nlohmann::ordered_json::parse(schema);
      const StatusOr<std::string> annotated = ebnf(json, format);
      ASSERT_TRUE(annotated.ok()) << annotated.status().message();
      EXPECT_EQ(*annotated, *ebnf(json, nullptr)) << schema << " " << format;
    }
  }
}

TEST_F(FormatEbnfTest, LengthsThatTheFormatHolds) {
  const auto message = [](const char* schema) {
    return SchemaToEbnf(nlohmann::ordered_json::parse(schema)).status().message();
  };
  EXPECT_EQ(message(R"({"format": "uri", "minLength": 1, "maxLength": 2083})"), "");
  EXPECT_EQ(message(R"({"format": "date", "minLength": 10, "maxLength": 10})"), "");
  EXPECT_EQ(message(R"({"format": "date", "minLength": 11})"),
            "at '#': the keyword 'minLength' is supported beside 'format' only where the format "
            "cannot match shorter texts");
  EXPECT_EQ(message(R"({"format": "base64", "maxLength": 100})"),
            "at '#': the keyword 'maxLength' is supported beside 'format' only where the format "
            "cannot match longer texts");
}

TEST_F(FormatEbnfTest, OthersAreRejectedByName) {
  const auto message = [](const char* schema) {
    return SchemaToEbnf(nlohmann::ordered_json::parse(schema)).status().message();
  };
  EXPECT_EQ(message(R"({"format": "iri"})"),
            "at '#': the keyword 'format' must be one of 'date', 'time', 'date-time', 'duration', "
            "'uuid', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uuid1', 'uuid3', 'uuid4', "
            "'uuid5', 'base64', 'base64url', 'binary', 'directory-path', 'file-path', 'password', "
            "'path', not \"iri\"");
  EXPECT_THAT(message(R"({"format": 5})"), testing::HasSubstr("not 5"));
  EXPECT_EQ(message(R"({"format": "date", "pattern": "^2"})"),
            "at '#': the keyword 'pattern' is not supported beside 'format'");
  EXPECT_EQ(message(R"({"type": "integer", "format": "date"})"),
            "at '#': the keyword 'format' is for the type 'string', which 'type' does not have");
}

TEST_F(FormatEbnfTest, FormatsAreCheap) {
  for (const char* format : {"date", "time", "date-time", "duration", "uuid", "email", "hostname",
                             "ipv4", "ipv6", "uri", "uuid4", "base64", "base64url"}) {
    Use(format);
    EXPECT_LT(grammar_->work(), 2'000'000) << format;
  }
}

}  // namespace

}  // namespace ropeway::grammar
