#include "hub/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/test_file_server.h"

namespace ropeway::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Downloads of one file into one folder.
class DownloadTest : public testing::Test {
 protected:
  Status Fetch(const std::string& path, int attempts = 1) {
    request_.url = server_.url(path);
    request_.to = folder_.path() / "models" / "model.gguf";
    request_.part = folder_.path() / "parts" / "model.gguf";
    Progress progress("model.gguf", false, [](std::string_view) {});
    DownloadOptions options = {.idle_timeout = idle_timeout_, .attempts = attempts, .pause = {}};
    if (room_) options.check_space = room_;
    options.wanted = wanted_;
    options.ask_wanted_every = ask_wanted_every_;
    return Download(request_, options, &progress);
  }
  // A disk on which the part may have so many bytes.
  void SetRoom(uint64_t most) {
    room_ = [this, most](const std::filesystem::path& folder, uint64_t bytes) {
      EXPECT_EQ(folder, request_.part.parent_path());
      const bool fits = Part().size() + bytes <= most;
      return fits ? Status() : Status(StatusCode::kUnavailable, "the disk is full");
    };
  }
  // What is in its place; "" if nothing is.
  std::string Whole() const { return folder_.Read("models/model.gguf"); }
  std::string Part() const { return folder_.Read("parts/model.gguf"); }

  TestFileServer server_;
  ScratchFolder folder_;
  DownloadRequest request_;
  std::function<Status(const std::filesystem::path&, uint64_t)> room_;
  std::function<bool()> wanted_;
  std::chrono::milliseconds ask_wanted_every_{20};
  std::chrono::milliseconds idle_timeout_{20'000};
  const std::string bytes_ = SomeBytes(300'000);
};

TEST_F(DownloadTest, PutsTheWholeFileInPlace) {
  server_.Put("/a", {.bytes = bytes_});
  request_.bytes = bytes_.size();
  request_.sha256 = SumOf(bytes_);
  const Status status = Fetch("/a");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Whole(), bytes_);
  EXPECT_FALSE(folder_.Has("parts/model.gguf"));
  EXPECT_FALSE(folder_.Has("parts/model.gguf.tag"));
  EXPECT_THAT(server_.fields("Range"), ElementsAre(""));
  EXPECT_THAT(server_.fields("Authorization"), ElementsAre(""));
}

TEST_F(DownloadTest, TakesAFileWhoseLengthIsNotSaid) {
  server_.Put("/a", {.bytes = bytes_, .length = false});
  ASSERT_TRUE(Fetch("/a").ok());
  EXPECT_EQ(Whole(), bytes_);
}

TEST_F(DownloadTest, AsksForTheRestAfterAConnectionBreaks) {
  server_.Put("/a", {.bytes = bytes_, .cut = 100'000});
  const Status status = Fetch("/a", 2);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Whole(), bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", "bytes=100000-", "bytes=200000-"));
  EXPECT_THAT(server_.fields("If-Range"), ElementsAre("", "\"one\"", "\"one\""));
}

TEST_F(DownloadTest, ALaterCallGoesOnWhereItWas) {
  server_.Put("/a", {.bytes = bytes_, .cut = 123'456});
  const Status status = Fetch("/a");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), StartsWith(server_.url("/a") + ": "));
  EXPECT_EQ(Part(), bytes_.substr(0, 123'456));
  EXPECT_FALSE(folder_.Has("models/model.gguf"));

  server_.Put("/a", {.bytes = bytes_});
  ASSERT_TRUE(Fetch("/a").ok());
  EXPECT_EQ(Whole(), bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", "bytes=123456-"));
}

TEST_F(DownloadTest, ASumIsEnoughToGoOn) {
  // No entity tag; the whole is checked by its sum.
  server_.Put("/a", {.bytes = bytes_, .tag = "", .cut = 100'000});
  request_.sha256 = SumOf(bytes_);
  ASSERT_TRUE(Fetch("/a", 2).ok());
  EXPECT_EQ(Whole(), bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", "bytes=100000-", "bytes=200000-"));
}

TEST_F(DownloadTest, BeginsAnewWhereNothingSaysThatItIsTheSameFile) {
  for (const char* tag : {"", "W/\"weak\""}) {
    server_.Put("/a", {.bytes = bytes_, .tag = tag, .cut = 100'000});
    EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
    server_.Put("/a", {.bytes = bytes_, .tag = tag});
    ASSERT_TRUE(Fetch("/a").ok());
    EXPECT_EQ(Whole(), bytes_);
    EXPECT_THAT(server_.fields("Range"), testing::Each(""));
  }
}

TEST_F(DownloadTest, GivesUpWhereItNeverGetsFurther) {
  server_.Put("/a", {.bytes = bytes_, .tag = "", .cut = 100'000});
  EXPECT_EQ(Fetch("/a", 3).code(), StatusCode::kUnavailable);
  EXPECT_EQ(server_.requests().size(), 3u);
}

TEST_F(DownloadTest, BeginsAnewWhereTheServerHasAnotherFileOrKnowsNoParts) {
  server_.Put("/a", {.bytes = SomeBytes(200'000), .tag = "\"old\"", .cut = 150'000});
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  server_.Put("/a", {.bytes = bytes_, .tag = "\"new\""});
  ASSERT_TRUE(Fetch("/a").ok());
  EXPECT_EQ(Whole(), bytes_);

  server_.Put("/b", {.bytes = bytes_, .ranges = false, .cut = 100'000, .cuts = 1});
  ASSERT_TRUE(Fetch("/b", 2).ok());
  EXPECT_EQ(Whole(), bytes_);
}

TEST_F(DownloadTest, ATagSaysNothingOfAnotherUrl) {
  // Both have the same entity tag.
  server_.Put("/a", {.bytes = SomeBytes(200'000) + "a", .cut = 150'000});
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  const std::string other(200'001, 'b');
  server_.Put("/b", {.bytes = other});
  ASSERT_TRUE(Fetch("/b").ok());
  EXPECT_EQ(Whole(), other);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", ""));
}

TEST_F(DownloadTest, AnotherLengthIsAnotherFileWhateverItsTag) {
  server_.Put("/a", {.bytes = std::string(200'000, 'a'), .cut = 150'000});
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  server_.Put("/a", {.bytes = bytes_});
  ASSERT_TRUE(Fetch("/a", 2).ok());
  EXPECT_EQ(Whole(), bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", "bytes=150000-", ""));
}

TEST_F(DownloadTest, BeginsAnewWhereMoreIsThereThanTheFileHas) {
  folder_.Write("parts/model.gguf", bytes_ + "more");
  folder_.Write("parts/model.gguf.tag", server_.url("/a") + "\n300000\n\"one\"");
  server_.Put("/a", {.bytes = bytes_});
  ASSERT_TRUE(Fetch("/a", 2).ok());
  EXPECT_EQ(Whole(), bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("bytes=300004-", ""));
}

// RFC 9110, section 15.3.7.3. A server that takes no notice of If-Range answers with the part that
// it has now, of whatever file.
TEST_F(DownloadTest, JoinsNoPartsOfTwoFiles) {
  const std::string old(300'000, 'a');
  struct Case {
    const char* what;
    ServedFile before;
    ServedFile now;
  };
  const std::vector<Case> cases = {
      {"another tag", {}, {.tag = "\"two\""}},
      {"the tag is weak now", {}, {.tag = "W/\"one\""}},
      {"no tag now", {}, {.tag = ""}},
      {"the part has no tag", {}, {.part_tag = false}},
      {"the tag was weak", {.tag = "W/\"one\""}, {}},
      {"there was no tag", {.tag = ""}, {}},
      {"the part is another", {}, {.range_text = "bytes 99999-299999/300000"}},
      {"the part has another length", {}, {.range_text = "bytes 100000-200000/300000"}},
      {"the part ends before it begins", {}, {.range_text = "bytes 100000-9/300000"}},
      {"the part ends behind the whole", {}, {.range_text = "bytes 100000-299999/299999"}},
      {"another whole length", {}, {.range_text = "bytes 100000-299999/300001"}},
      {"an unreadable whole length",
       {},
       {.range_text = "bytes 100000-299999/100000000000000000000"}},
      {"another unit", {}, {.range_text = "lines 100000-299999/300000"}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    ServedFile before = each.before;
    before.bytes = old;
    before.cut = 100'000;
    server_.Put("/a", before);
    EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
    ServedFile now = each.now;
    now.bytes = bytes_;
    now.if_range = false;
    server_.Put("/a", now);
    const Status status = Fetch("/a", 2);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(Whole() == bytes_);
  }
}

TEST_F(DownloadTest, GoesOnWhereTheWholeLengthIsKnownFromBefore) {
  server_.Put("/a", {.bytes = bytes_, .cut = 100'000});
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  server_.Put("/a", {.bytes = bytes_, .range_text = "bytes 100000-299999/*"});
  ASSERT_TRUE(Fetch("/a").ok());
  EXPECT_TRUE(Whole() == bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", "bytes=100000-"));
}

TEST_F(DownloadTest, ATagSaysNothingOfWhatARedirectLeadsToNow) {
  server_.Put("/a", {.location = "/one?signed=1"});
  server_.Put("/one?signed=1", {.bytes = std::string(300'000, 'a'), .cut = 100'000});
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  server_.Put("/a", {.location = "/two?signed=2"});
  server_.Put("/two?signed=2", {.bytes = bytes_, .cut = 150'000});  // By chance, the same tag.
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Part() == bytes_.substr(0, 150'000));
  // Another signature leads to the same file.
  server_.Put("/a", {.location = "/two?signed=3"});
  server_.Put("/two?signed=3", {.bytes = bytes_});
  ASSERT_TRUE(Fetch("/a").ok());
  EXPECT_TRUE(Whole() == bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", "", "", "", "", "bytes=150000-"));
}

// By the sum alone two files were joined: that is found at the end, and mended at once.
TEST_F(DownloadTest, WhatWasJoinedAndHasAnotherSumIsFetchedOnceMore) {
  server_.Put("/a", {.bytes = std::string(300'000, 'a'), .tag = "", .cut = 100'000});
  request_.sha256 = SumOf(bytes_);
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  server_.Put("/a", {.bytes = bytes_, .tag = ""});
  const Status status = Fetch("/a");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(Whole() == bytes_);
  EXPECT_THAT(server_.fields("Range"), ElementsAre("", "bytes=100000-", ""));
}

TEST_F(DownloadTest, ATagThatDiffersSaysMoreThanASum) {
  server_.Put("/a", {.bytes = std::string(300'000, 'a'), .tag = "\"old\"", .cut = 100'000});
  request_.sha256 = SumOf(bytes_);
  EXPECT_EQ(Fetch("/a").code(), StatusCode::kUnavailable);
  server_.Put("/a", {.bytes = bytes_, .if_range = false});
  ASSERT_TRUE(Fetch("/a", 2).ok());
  EXPECT_TRUE(Whole() == bytes_);
  EXPECT_THAT(server_.fields("If-Range"), ElementsAre("", "\"old\"", ""));
}

TEST_F(DownloadTest, AWrongSumLeavesNothing) {
  server_.Put("/a", {.bytes = bytes_});
  request_.sha256 = SumOf("other");
  const Status status = Fetch("/a");
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(),
              HasSubstr("the SHA-256 sum is " + SumOf(bytes_) + ", expected " + SumOf("other")));
  EXPECT_FALSE(folder_.Has("models/model.gguf"));
  EXPECT_FALSE(folder_.Has("parts/model.gguf"));
}

TEST_F(DownloadTest, AnotherLengthIsFoundBeforeTheFileIsFetched) {
  server_.Put("/a", {.bytes = bytes_});
  request_.bytes = 5;
  const Status status = Fetch("/a", 5);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("has 300000 bytes, expected 5"));
  EXPECT_EQ(server_.requests().size(), 1u);

  server_.Put("/b", {.bytes = bytes_, .tag = "", .length = false});
  EXPECT_THAT(Fetch("/b").message(), HasSubstr("has more than the expected 5 bytes"));
  EXPECT_FALSE(folder_.Has("parts/model.gguf"));
}

TEST_F(DownloadTest, OnlyTheUrlsOwnHostGetsTheToken) {
  TestFileServer other;
  other.Put("/blob?signed=1", {.bytes = bytes_});
  server_.Put("/a", {.location = "/moved", .token = "secret"});
  server_.Put("/moved", {.location = other.url("/blob?signed=1"), .token = "secret"});
  request_.token = "secret";
  const Status status = Fetch("/a");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Whole(), bytes_);
  EXPECT_THAT(server_.fields("Authorization"), ElementsAre("Bearer secret", "Bearer secret"));
  EXPECT_THAT(other.fields("Authorization"), ElementsAre(""));
}

TEST_F(DownloadTest, FollowsNoCircle) {
  server_.Put("/a", {.location = "/b"});
  server_.Put("/b", {.location = "/a"});
  EXPECT_THAT(Fetch("/a").message(), HasSubstr("redirects more than 10 times"));
  server_.Put("/c", {.location = "file:///etc/passwd"});
  EXPECT_THAT(Fetch("/c").message(), HasSubstr("redirects to an invalid URL"));
}

TEST(NextUrlTest, FromHttpsNobodyIsLedToHttp) {
  const auto url = [](const std::string& text) { return *net::ParseFileUrl(text); };
  const auto leads = [&](const std::string& from, const std::string& location) {
    const StatusOr<net::BaseUrl> next = NextUrl(url(from), location);
    return next.ok() ? next->Text() : next.status().message();
  };
  EXPECT_EQ(leads("https://hub/a", "https://storage/b?c"), "https://storage/b?c");
  EXPECT_EQ(leads("https://hub/a", "/b"), "https://hub/b");
  EXPECT_EQ(leads("https://hub/a", "//storage/b"), "https://storage/b");
  EXPECT_EQ(leads("http://hub/a", "http://storage/b"), "http://storage/b");
  EXPECT_EQ(leads("http://hub/a", "https://storage/b"), "https://storage/b");
  EXPECT_EQ(leads("https://hub/a", "http://storage/b"),
            "redirects from https to http://storage/b, which is not followed");
  // Not even to the same host.
  EXPECT_EQ(leads("https://hub/a", "http://hub/a"),
            "redirects from https to http://hub/a, which is not followed");
  EXPECT_EQ(NextUrl(url("https://hub/a"), "http://hub/a").status().code(),
            StatusCode::kUnavailable);
  for (const char* none : {"", "file:///etc/passwd", "HTTP://hub/b", "b"}) {
    EXPECT_THAT(leads("https://hub/a", none), StartsWith("redirects to an invalid URL: ")) << none;
  }
}

TEST_F(DownloadTest, AFileThatTheDiskCannotHoldIsNotFetched) {
  server_.Put("/a", {.bytes = bytes_, .claims = 1'000'000'000'000'000'000});
  const Status status = Fetch("/a", 5);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(),
              StartsWith("not enough disk space for " + (folder_.path() / "parts").string() +
                         ": 1000000000.07 GB needed, "));
  EXPECT_EQ(server_.requests().size(), 1u);
  EXPECT_FALSE(folder_.Has("parts/model.gguf"));
  EXPECT_FALSE(folder_.Has("models/model.gguf"));
}

TEST_F(DownloadTest, AFileOfUnknownLengthDoesNotFillTheDisk) {
  const std::string large = SomeBytes(5'000'000);
  server_.Put("/a", {.bytes = large, .length = false});
  SetRoom(3'000'000);
  const Status status = Fetch("/a", 5);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      status.message(),
      testing::MatchesRegex(".*: the disk is full; free some disk space and run the command again: "
                            "it continues after the 2\\.. MB that are already here"));
  EXPECT_EQ(server_.requests().size(), 1u);
  const size_t here = Part().size();
  EXPECT_LE(here, 3'000'000u);
  EXPECT_GT(here, 1'000'000u);
  // As it says.
  SetRoom(100'000'000);
  ASSERT_TRUE(Fetch("/a").ok());
  EXPECT_TRUE(Whole() == large);
  EXPECT_EQ(server_.fields("Range").back(), "bytes=" + std::to_string(here) + "-");

  server_.Put("/a", {.bytes = large, .tag = "", .length = false});
  SetRoom(3'000'000);
  EXPECT_THAT(Fetch("/a").message(), HasSubstr("it starts over, because the 2."));
}

TEST_F(DownloadTest, AKnownLengthNeedsNoMoreRoomThanItHas) {
  const std::string large = SomeBytes(2'500'000);
  server_.Put("/a", {.bytes = large});
  SetRoom(large.size() - 1);
  EXPECT_THAT(Fetch("/a", 5).message(), HasSubstr("the disk is full"));
  EXPECT_FALSE(folder_.Has("parts/model.gguf")) << "asked before the first byte";
  SetRoom(large.size());
  ASSERT_TRUE(Fetch("/a").ok());
  EXPECT_TRUE(Whole() == large);
}

TEST_F(DownloadTest, SaysWhyAServerRefuses) {
  server_.Put("/gated", {.bytes = bytes_, .token = "secret"});
  EXPECT_THAT(Fetch("/gated").message(), HasSubstr("(401): who are you?"));
  EXPECT_THAT(Fetch("/gated").message(), HasSubstr("download the file with another program"));
  EXPECT_THAT(Fetch("/gated").message(), testing::Not(HasSubstr("HF_TOKEN")));
  request_.takes_token = true;
  EXPECT_THAT(Fetch("/gated").message(), HasSubstr("set HF_TOKEN"));
  request_.token = "wrong";
  EXPECT_THAT(Fetch("/gated").message(), HasSubstr("the token does not give access"));
  EXPECT_THAT(Fetch("/gated").message(), testing::Not(HasSubstr("wrong")));
  EXPECT_EQ(Fetch("/none").code(), StatusCode::kNotFound);
  const size_t before = server_.requests().size();
  server_.Put("/busy", {.status = 503});
  const Status status = Fetch("/busy", 3);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1 answers 503: something is wrong"));
  EXPECT_EQ(server_.requests().size(), before + 3);
  EXPECT_FALSE(folder_.Has("models/model.gguf"));
}

TEST_F(DownloadTest, GivesUpOnASilentServer) {
  idle_timeout_ = std::chrono::milliseconds(500);
  server_.Put("/a", {.bytes = bytes_, .hang = true});
  const Status status = Fetch("/a", 2);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("nothing was received for 0.5 s"));
  EXPECT_EQ(server_.requests().size(), 2u);
}

// Or else nothing could be fetched instead until it has timed out often enough.
TEST_F(DownloadTest, OneThatNobodyWantsDoesNotWaitForASilentServer) {
  server_.Put("/a", {.bytes = bytes_, .hang = true});
  int asked = 0;
  wanted_ = [&asked] { return ++asked < 3; };
  EXPECT_EQ(Fetch("/a", 5).code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(server_.requests().size(), 1u);
  // One that is wanted is fetched all the same.
  server_.Put("/a", {.bytes = bytes_});
  wanted_ = [] { return true; };
  EXPECT_TRUE(Fetch("/a").ok());
  EXPECT_EQ(Whole(), bytes_);
}

// The question may be due in the moment in which the file's last byte comes.
TEST_F(DownloadTest, OneThatIsAlwaysAskedForEnds) {
  ask_wanted_every_ = std::chrono::milliseconds(0);
  const std::chrono::steady_clock::time_point late =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  // So that what does not end fails.
  wanted_ = [late] { return std::chrono::steady_clock::now() < late; };
  server_.Put("/a", {.bytes = "small"});
  for (int i = 0; i < 50; ++i) {
    const Status status = Fetch("/a");
    ASSERT_TRUE(status.ok()) << i << ": " << status.message();
  }
}

// Nor does it try again.
TEST_F(DownloadTest, OneThatNobodyWantsIsNotTriedAgain) {
  server_.Put("/a", {.bytes = bytes_, .cut = 1000, .cuts = 5});
  wanted_ = [this] { return server_.requests().size() < 2; };
  EXPECT_EQ(Fetch("/a", 5).code(), StatusCode::kCancelled);
  EXPECT_EQ(server_.requests().size(), 2u);
}

TEST_F(DownloadTest, OneProcessAtATime) {
  folder_.Write("parts/model.gguf", "");
  const int other = open((folder_.path() / "parts/model.gguf").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  server_.Put("/a", {.bytes = bytes_});
  EXPECT_THAT(Fetch("/a").message(), HasSubstr("another process is fetching it"));
  close(other);
  EXPECT_TRUE(Fetch("/a").ok());
}

TEST_F(DownloadTest, APartThatIsALinkIsNotFollowed) {
  server_.Put("/a", {.bytes = bytes_});
  folder_.Write("victim", "VICTIM");
  std::filesystem::create_directories(folder_.path() / "parts");
  const std::filesystem::path part = folder_.path() / "parts/model.gguf";
  std::filesystem::create_symlink(folder_.path() / "victim", part);
  EXPECT_THAT(Fetch("/a").message(), HasSubstr("parts/model.gguf: is a symbolic link"));
  std::filesystem::remove(part);
  std::filesystem::create_hard_link(folder_.path() / "victim", part);
  EXPECT_THAT(Fetch("/a").message(), HasSubstr("parts/model.gguf: is hard-linked"));
  std::filesystem::remove(part);
  std::filesystem::create_symlink(folder_.path() / "victim", part.string() + ".tag");
  EXPECT_TRUE(Fetch("/a").ok());
  EXPECT_EQ(folder_.Read("victim"), "VICTIM");
}

TEST_F(DownloadTest, AnEmptyFileIsAFile) {
  server_.Put("/a", {.bytes = ""});
  const Status status = Fetch("/a");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(folder_.Has("models/model.gguf"));
  EXPECT_EQ(Whole(), "");
}

TEST(CheckSpaceTest, NamesWhatIsNeededAndWhatIsFree) {
  const ScratchFolder folder;
  EXPECT_TRUE(CheckSpace(folder.path(), 1).ok());
  const Status status = CheckSpace(folder.path(), uint64_t{1} << 60);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), StartsWith("not enough disk space for " + folder.path().string() +
                                           ": 1152921504.67 GB needed, "));
  // What a server claims does not wrap around.
  EXPECT_FALSE(CheckSpace(folder.path(), UINT64_MAX).ok());
  EXPECT_FALSE(CheckSpace(folder.path(), AddSizes(UINT64_MAX - 1, 2)).ok());
  EXPECT_EQ(AddSizes(1, 2), 3u);
}

TEST(FileSha256Test, IsTheSumOfAllItsBytes) {
  const ScratchFolder folder;
  const std::string bytes = SomeBytes((size_t{1} << 20) + 17);
  folder.Write("a", bytes);
  EXPECT_EQ(*FileSha256(folder.path() / "a"), SumOf(bytes));
  EXPECT_EQ(FileSha256(folder.path() / "b").status().code(), StatusCode::kNotFound);
}

TEST(ProgressTest, ALineForEachTenth) {
  std::string text;
  Progress progress("model.gguf", false, [&](std::string_view part) { text += part; });
  progress.Start(0, 2'000'000);
  for (uint64_t done = 0; done <= 2'000'000; done += 100'000) progress.Set(done);
  progress.End();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, HasSubstr("model.gguf  1.0 MB of 2.0 MB  50 %  "));
}

TEST(ProgressTest, OnATerminalOneLineThatEnds) {
  std::string text;
  Progress progress("model.gguf", true, [&](std::string_view part) { text += part; });
  progress.End();
  EXPECT_EQ(text, "") << "an error came first";
  progress.Start(500'000, 1'000'000);
  progress.Set(1'000'000);
  progress.End();
  progress.End();
  EXPECT_THAT(text, StartsWith("\rmodel.gguf  1.0 MB of 1.0 MB  100 %  "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(DownloadTest, GoesThroughTheProxyOfTheEnvironment) {
  const net::FakeServer proxy([](const net::FakeRequest&) { return net::JsonReply("{}", 407); });
  setenv("HTTPS_PROXY", fmt::format("http://me:secret@127.0.0.1:{}", proxy.port()).c_str(), 1);
  request_.token = "token-of-the-hub";
  request_.url = "https://no.such.host.invalid/model.gguf";
  request_.to = folder_.path() / "model.gguf";
  request_.part = folder_.path() / "parts" / "model.gguf";
  Progress progress("model.gguf", false, [](std::string_view) {});
  const DownloadOptions options = {.pause = {}};
  const Status status = Download(request_, options, &progress);
  unsetenv("HTTPS_PROXY");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      status.message(),
      HasSubstr(fmt::format("the proxy 127.0.0.1:{} answered with HTTP 407", proxy.port())));
  EXPECT_THAT(status.message(), Not(HasSubstr("secret")));
  ASSERT_EQ(proxy.requests().size(), 1U) << "another attempt would fail too";
  const std::string head = proxy.requests()[0].headers;
  EXPECT_THAT(head, StartsWith("CONNECT no.such.host.invalid:443 HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nProxy-Authorization: Basic bWU6c2VjcmV0"));
  EXPECT_THAT(head, Not(HasSubstr("token-of-the-hub")));
}

}  // namespace
}  // namespace ropeway::hub
