#include "engine/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace ropeway::engine {
namespace {

constexpr const char* kCgroup = "/sys/fs/cgroup/";  // Version 2, as a container sees its own.

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadInt(const std::string& path) {
  std::istringstream text(ReadAll(path));
  int64_t value = 0;
  if (text >> value) return value;
  return std::nullopt;
}

}  // namespace

int CoreOf(const std::string& root, int cpu) {
  // "0,64" or "2-3": the lowest comes first.
  const std::string path = root + "/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
  return static_cast<int>(ReadInt(path).value_or(cpu));
}

std::optional<std::string> ParseCpuName(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("model name")) continue;
    const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (line.find(':') != std::string::npos && begin != std::string::npos) {
      return line.substr(begin);
    }
  }
  return std::nullopt;
}

std::optional<int64_t> ParseMemAvailable(const std::string& meminfo) {
  std::istringstream lines(meminfo);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key;
    int64_t kib = 0;
    if (words >> key >> kib && key == "MemAvailable:") return kib * 1024;
  }
  return std::nullopt;
}

std::optional<int> ParseCpuMax(const std::string& cpu_max) {
  std::istringstream words(cpu_max);
  int64_t quota = 0;
  int64_t period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;  // "max ..."
  return static_cast<int>(std::min<int64_t>((quota + period - 1) / period, 1 << 20));
}

int PhysicalCores() {
  std::set<int> cores;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) cores.insert(CoreOf("/sys/devices/system/cpu", cpu));
    }
  }
  // The mask is too small for machines beyond CPU_SETSIZE CPUs.
  const int found = cores.empty() ? static_cast<int>(std::thread::hardware_concurrency())
                                  : static_cast<int>(cores.size());
  const std::optional<int> quota = ParseCpuMax(ReadAll(std::string(kCgroup) + "cpu.max"));
  return std::max(1, quota ? std::min(*quota, found) : found);
}

std::string CpuName() { return ParseCpuName(ReadAll("/proc/cpuinfo")).value_or("unknown"); }

int64_t AvailableMemoryBytes() {
  const int64_t free = ParseMemAvailable(ReadAll("/proc/meminfo")).value_or(0);
  const auto limit = ReadInt(std::string(kCgroup) + "memory.max");
  const auto used = ReadInt(std::string(kCgroup) + "memory.current");
  if (!limit || !used) return free;
  return std::min(free, std::max<int64_t>(0, *limit - *used));
}

}  // namespace ropeway::engine
