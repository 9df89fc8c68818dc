#include "http/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace ropeway::http {
namespace {

using testing::HasSubstr;

// Parses `bytes` when `step` more of them arrive at a time.
struct Parsed {
  Parsed(const std::string& bytes, size_t step, const HttpLimits& its_limits = {})
      : limits(its_limits), parser(limits) {
    size_t consumed = 0;
    for (size_t end = 0; end < bytes.size() && !parser.done() && !parser.rejection();) {
      end = std::min(bytes.size(), end + step);
      for (bool more = true; more;) {
        const bool head_was_done = parser.head_done();
        consumed += parser.Parse(std::string_view(bytes).substr(consumed, end - consumed), false);
        more = !head_was_done && parser.head_done();
      }
    }
    rest = bytes.substr(consumed);
  }

  int rejected() const { return parser.rejection() ? parser.rejection()->status : 0; }

  const HttpLimits limits;
  RequestParser parser;
  std::string rest;  // Not consumed.
};

std::string Chunked(const std::string& trailers) {
  return "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
         "3\r\nabc\r\n4;name=value\r\ndefg\r\n0\r\n" +
         trailers + "\r\n";
}

TEST(RequestParserTest, ReadsARequestHoweverItIsCut) {
  const std::string bytes =
      "POST /v1/x?y=1 HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer key\r\nExpect: 100-continue\r\n"
      "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8, 9.9.9.9\r\nForwarded: for=1.2.3.4\r\n"
      "Content-Length: 5\r\n\r\nhello";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    Parsed parsed(bytes + "GET / HT", step);
    ASSERT_TRUE(parsed.parser.done()) << step;
    const RequestHead& head = parsed.parser.head();
    EXPECT_EQ(head.method, "POST");
    EXPECT_EQ(head.target, "/v1/x?y=1");
    EXPECT_EQ(head.authorization, "Bearer key");
    EXPECT_EQ(head.forwarded_for, "1.2.3.4, 5.6.7.8, 9.9.9.9");
    EXPECT_EQ(head.forwarded, "for=1.2.3.4");
    EXPECT_TRUE(head.expects_continue);
    EXPECT_TRUE(head.framing.keep_alive);
    EXPECT_FALSE(head.framing.http_1_0);
    EXPECT_EQ(parsed.rest, "GET / HT");
    EXPECT_EQ(parsed.parser.TakeBody(), "hello");
  }
}

// Whether they come in one packet with the headers, or byte by byte.
TEST(RequestParserTest, TrailersChangeNothing) {
  const std::string bytes = Chunked(
      "Authorization: Bearer key\r\nConnection: close\r\nX-Forwarded-For: 1.2.3.4\r\n"
      "Expect: 100-continue\r\nHost: u\r\n");
  for (size_t step = 1; step <= bytes.size(); ++step) {
    Parsed parsed(bytes, step);
    ASSERT_TRUE(parsed.parser.done()) << step << " " << parsed.rejected();
    const RequestHead& head = parsed.parser.head();
    EXPECT_EQ(head.authorization, "");
    EXPECT_EQ(head.forwarded_for, "");
    EXPECT_FALSE(head.expects_continue);
    EXPECT_TRUE(head.framing.keep_alive);
    EXPECT_EQ(parsed.parser.TakeBody(), "abcdefg");
  }
}

// Beast asserts that it is not asked about "0\r\n" and one more byte.
TEST(RequestParserTest, AnEmptyChunkedBodyIsReadHoweverItIsCut) {
  const std::string head = "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string end : {"0\r\n\r\n", "0\r\nA: b\r\n\r\n", "000\r\n\r\n", "0;a=b\r\n\r\n"}) {
    const std::string bytes = head + end;
    for (size_t step = 1; step <= bytes.size(); ++step) {
      Parsed parsed(bytes + "GET /", step);
      ASSERT_TRUE(parsed.parser.done()) << end << step << " " << parsed.rejected();
      EXPECT_EQ(parsed.parser.TakeBody(), "");
      EXPECT_EQ(parsed.rest, "GET /");
    }
  }
}

TEST(RequestParserTest, TheWholeHeadIsBounded) {
  HttpLimits limits;
  limits.max_header_bytes = 2000;
  const std::string line = "X-Name: value\r\n";
  std::string fits = "GET /livez HTTP/1.1\r\nHost: t\r\n";
  while (fits.size() + line.size() + 2 <= limits.max_header_bytes) fits += line;
  for (const size_t step : {line.size(), size_t{1}, size_t{100'000}}) {
    EXPECT_EQ(Parsed(fits + "\r\n", step, limits).rejected(), 0) << step;
    EXPECT_EQ(Parsed(fits + line + "\r\n", step, limits).rejected(), 431) << step;
    // Before the end has come.
    EXPECT_EQ(Parsed(fits + line + line, step, limits).rejected(), 431) << step;
  }
}

TEST(RequestParserTest, ABodyTakesWhatCameAndNoMore) {
  const std::string head = "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 8000000\r\n\r\n";
  Parsed waiting(head + std::string(1000, 'x'), 100);
  EXPECT_FALSE(waiting.parser.done());
  EXPECT_LE(waiting.parser.body_bytes(), 2000U);
  const std::string whole = "POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 5000\r\n\r\n";
  Parsed done(whole + std::string(5000, 'x'), 100);
  ASSERT_TRUE(done.parser.done());
  EXPECT_EQ(done.parser.body_bytes(), 5000U);
  EXPECT_EQ(done.parser.TakeBody(), std::string(5000, 'x'));
}

TEST(RequestParserTest, ADroppedBodyTakesNothing) {
  const std::string head = "GET /livez HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n";
  const HttpLimits limits;
  RequestParser parser(limits);
  EXPECT_EQ(parser.Parse(head + "rest", false), head.size());
  parser.DropBody();
  const std::string body(100'000, 'x');
  EXPECT_EQ(parser.Parse(body, false), body.size());
  EXPECT_TRUE(parser.done());
  EXPECT_LT(parser.body_bytes(), 100U);
  EXPECT_EQ(parser.TakeBody(), "");
}

TEST(RequestParserTest, WhatIsFullAndUnfinishedIsRejected) {
  const HttpLimits limits;
  RequestParser parser(limits);
  const std::string head = "POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(parser.Parse(head, false), head.size());
  EXPECT_EQ(parser.Parse("1;" + std::string(1000, 'a'), false), 0U);
  EXPECT_FALSE(parser.rejection());
  parser.Parse("1;" + std::string(2000, 'a'), true);
  ASSERT_TRUE(parser.rejection());
  EXPECT_EQ(parser.rejection()->status, 400);
  EXPECT_THAT(parser.rejection()->error->message, HasSubstr("chunk"));
  EXPECT_FALSE(parser.done());
}

}  // namespace
}  // namespace ropeway::http
