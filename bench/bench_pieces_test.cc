#include "bench/bench_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "bench/fairness_sim.h"
#include "cli/tenant_keys.h"

namespace ropeway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseCounts, TakesRisingWholeNumbers) {
  EXPECT_THAT(*ParseCounts("sizes", "1,2,16", 64), ElementsAre(1, 2, 16));
  EXPECT_THAT(*ParseCounts("sizes", "7", 64), ElementsAre(7));
  for (const char* wrong : {"", "0", "65", "2,2", "4,2", "2,", "x", "2;4", "1.5", "-1"}) {
    const auto counts = ParseCounts("sizes", wrong, 64);
    ASSERT_FALSE(counts.ok()) << wrong;
    EXPECT_THAT(counts.status().message(), HasSubstr("--sizes: expected rising whole numbers"));
  }
}

TEST(BenchPieces, ARunThatComesToNothingLosesNothing) {
  BenchPieceFlags flags;
  flags.base_url = "http://127.0.0.1:1";
  flags.contestants = {"continuous", "cable car"};
  flags.csv = testing::TempDir() + "bench_pieces_test." + std::to_string(getpid()) + ".csv";
  const std::string before = "part,contestant,round,x,metric,value\na,b,1,,c,2\n";
  std::ofstream(flags.csv) << before;
  BenchPieces pieces(flags);
  ASSERT_TRUE(pieces.Open().ok());
  EXPECT_TRUE(pieces.Wants("continuous"));
  EXPECT_FALSE(pieces.Wants("serial"));
  ASSERT_TRUE(pieces.Save().ok());
  std::ifstream file(flags.csv);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), before);
  EXPECT_THAT(pieces.CheckContestants().message(),
              HasSubstr("--contestant: expected one of continuous, serial, not 'cable car'"));
  ASSERT_TRUE(pieces.Measure("part", "continuous", [](const Figure&) { return Status(); }).ok());
  std::ifstream after(flags.csv);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(after), {}), HasSubstr("continuous"));
  std::remove(flags.csv.c_str());
}

TEST(BenchPieces, AReportNeedsItsFile) {
  BenchPieceFlags flags;
  flags.rounds = 0;
  EXPECT_EQ(BenchPieces(flags).Open().field(), "rounds");
  flags.csv = "/nonexistent/figures.csv";
  EXPECT_FALSE(BenchPieces(flags).Open().ok());
  flags = {};
  flags.append = true;
  EXPECT_EQ(BenchPieces(flags).Open().field(), "append");
}

TEST(TenantKeys, AreOfThisUserAloneAndGoneAfterwards) {
  std::string path;
  {
    const auto keys = TenantKeys::Make(3);
    ASSERT_TRUE(keys.ok());
    path = (*keys)->path();
    struct stat facts {};
    ASSERT_EQ(stat(path.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600U);
    ASSERT_EQ((*keys)->keys().size(), 3U);
    EXPECT_NE((*keys)->keys()[0], (*keys)->keys()[1]);
    std::ifstream file(path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(text, HasSubstr("name = \"client-2\"\nkey = \"" + (*keys)->keys()[2] + "\""));
  }
  struct stat facts {};
  EXPECT_NE(stat(path.c_str(), &facts), 0);
}

// Client 0 asks for everything at once; client 1 for a little, a moment later.
std::vector<TenantRequest> OneHogAndOneOther() {
  std::vector<TenantRequest> requests;
  for (int i = 0; i < 40; ++i) requests.push_back({0, 0, 50, 40});
  for (int i = 0; i < 5; ++i) requests.push_back({0.5 + 0.1 * i, 1, 20, 5});
  return requests;
}

TEST(SimulateTenants, FairSharesLetTheSmallOnePass) {
  const std::vector<TenantRequest> requests = OneHogAndOneOther();
  const auto fcfs = SimulateTenants(requests, "fcfs", 4, 1);
  const auto fair = SimulateTenants(requests, "priority+fair", 4, 1);
  ASSERT_TRUE(fcfs.ok() && fair.ok());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ((*fair)[i].gaps.size() + 1, static_cast<size_t>(requests[i].output_tokens));
    EXPECT_TRUE((*fair)[i].ttft.has_value());
  }
  for (size_t i = 40; i < 45; ++i) EXPECT_GT(*(*fcfs)[i].ttft, 5 * *(*fair)[i].ttft);
  // Twice as late, and the hog has the device for longer before.
  const auto late = SimulateTenants(requests, "fcfs", 4, 2);
  EXPECT_DOUBLE_EQ((*late)[44].due, 2 * requests[44].arrival);
  EXPECT_FALSE(SimulateTenants(requests, "lottery", 4, 1).ok());
}

}  // namespace
}  // namespace ropeway
