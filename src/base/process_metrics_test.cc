#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/system.h"

namespace ropeway::base {
namespace {

std::map<std::string, double> Values() {
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : ProcessMetrics()) {
    const bool counts = family.type == prometheus::MetricType::Counter;
    EXPECT_EQ(counts, family.name.ends_with("_total"));
    EXPECT_EQ(family.metric.size(), 1U);
    const prometheus::ClientMetric& metric = family.metric.front();
    values[family.name] = counts ? metric.counter.value : metric.gauge.value;
  }
  return values;
}

TEST(ProcessMetricsTest, AreThoseOfThisProcess) {
  std::map<std::string, double> before = Values();
  EXPECT_EQ(before.size(), 6U);
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_LE(before["process_start_time_seconds"], now + 1);
  EXPECT_GT(before["process_start_time_seconds"], now - 24 * 3600);
  EXPECT_EQ(before["process_max_fds"], static_cast<double>(DescriptorLimit()));
  EXPECT_LT(before["process_resident_memory_bytes"], before["process_virtual_memory_bytes"]);

  const std::ifstream open("/proc/self/stat");
  std::vector<char> memory(64 << 20, 1);
  const std::clock_t begin = std::clock();
  while (std::clock() < begin + CLOCKS_PER_SEC / 20) memory[static_cast<size_t>(begin) % 9] ^= 1;
  std::map<std::string, double> after = Values();
  EXPECT_EQ(after["process_open_fds"], before["process_open_fds"] + 1);
  EXPECT_GE(after["process_resident_memory_bytes"],
            before["process_resident_memory_bytes"] + (32 << 20));
  EXPECT_GT(after["process_cpu_seconds_total"], before["process_cpu_seconds_total"]);
  EXPECT_EQ(after["process_start_time_seconds"], before["process_start_time_seconds"]);
}

}  // namespace
}  // namespace ropeway::base
