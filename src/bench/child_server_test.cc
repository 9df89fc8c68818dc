#include "bench/child_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "bench/cpu_time.h"
#include "bench/metrics_page.h"
#include "net/test_fake_server.h"

namespace ropeway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ChildServer, IsThereWhenItIsHealthyAndGoneAfterwards) {
  // The process does not matter: somebody answers at the port.
  const FakeServer server([](const FakeRequest& request) {
    return JsonReply("{}", request.path == "/health" ? 200 : 404);
  });
  pid_t pid = 0;
  const std::string file = testing::TempDir() + "child-" + std::to_string(getpid());
  {
    auto child = ChildServer::Start({"sh", "-c", "echo $$ > " + file + "; exec sleep 600"},
                                    server.port(), 20);
    ASSERT_TRUE(child.ok()) << child.status().message();
    EXPECT_EQ((*child)->url().Text(), "http://127.0.0.1:" + std::to_string(server.port()) + "/v1");
    for (int i = 0; i < 1000 && pid == 0; ++i) {
      std::ifstream(file) >> pid;
      if (pid == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_NE(pid, 0);
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  std::remove(file.c_str());
}

TEST(ChildServer, OneThatEndsIsQuoted) {
  const auto child =
      ChildServer::Start({"sh", "-c", "echo cannot open the model >&2; exit 3"}, FreePort(), 20);
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(child.status().message(),
              AllOf(HasSubstr("sh ended before it was ready"), HasSubstr("cannot open the model")));
  EXPECT_FALSE(ChildServer::Start({"/no/such/program"}, FreePort(), 20).ok());
}

TEST(ChildServer, OneThatIsNeverReadyIsGivenUp) {
  const auto child = ChildServer::Start({"sleep", "600"}, FreePort(), 0.2);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.status().message(), HasSubstr("not ready after 0.2 s"));
}

TEST(FreePort, GivesDifferentPortsThatCanBeUsed) { EXPECT_NE(FreePort(), 0); }

constexpr char kPage[] =
    "# HELP a_total help\n# TYPE a_total counter\na_total{tier=\"disk\"} 3\na_total{tier=\"pool\"} "
    "4.5\na_total_more 100\nb 7\n";

TEST(MetricSum, AddsTheSamplesOfOneName) {
  EXPECT_EQ(MetricSum(kPage, "a_total", ""), 7.5);
  EXPECT_EQ(MetricSum(kPage, "a_total", "tier=\"disk\""), 3);
  EXPECT_EQ(MetricSum(kPage, "b", ""), 7);
  EXPECT_FALSE(MetricSum(kPage, "a_total", "tier=\"moon\""));
  EXPECT_FALSE(MetricSum(kPage, "c", ""));
}

TEST(MetricLabel, IsOfTheFirstSample) {
  EXPECT_EQ(MetricLabel(kPage, "a_total", "tier"), "disk");
  EXPECT_EQ(MetricLabel(kPage, "a_total", "moon"), "");
  EXPECT_EQ(MetricLabel(kPage, "b", "tier"), "");
}

TEST(FetchMetrics, AsksBesideTheApi) {
  const FakeServer server([](const FakeRequest& request) {
    return JsonReply(request.path == "/metrics" ? kPage : "{}");
  });
  EXPECT_EQ(FetchMetrics(*ParseBaseUrl(server.url())), kPage);
}

TEST(OthersWatch, DoesNotCountThisProcess) {
  const OthersWatch others;
  const double begin = ProcessCpuSeconds();
  while (ProcessCpuSeconds() - begin < 0.2) {
  }
  // Others may do what they like; but our own 0.2 s cannot make the share negative or above 1.
  EXPECT_GE(others.Share(), 0);
  EXPECT_LE(others.Share(), 1.1);
}

}  // namespace
}  // namespace ropeway
