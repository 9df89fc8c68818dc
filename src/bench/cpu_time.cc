#include "bench/cpu_time.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/clock.h"

namespace ropeway {

namespace {

double CpuSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// CPU seconds of all processes since the start of the machine, stolen time included.
double BusySeconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  double busy = 0;
  for (int i = 0; i < 8; ++i) {
    double ticks = 0;
    if (!(file >> ticks)) return 0;
    if (i != 3 && i != 4) busy += ticks;  // Neither idle nor waiting for a device.
  }
  return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Of child processes that still run; RUSAGE_CHILDREN has those that were waited for.
double LiveChildrenSeconds() {
  const std::string parent = std::to_string(getpid());
  double ticks = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0]))) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');  // The name may hold anything.
    if (name_end == std::string::npos) continue;
    std::istringstream fields(text.substr(name_end + 1));
    std::vector<std::string> field{std::istream_iterator<std::string>(fields), {}};
    // state, ppid, ..., then utime, stime, cutime and cstime as the 12th to the 15th.
    if (field.size() < 15 || field[1] != parent) continue;
    for (size_t i = 11; i < 15; ++i) ticks += std::stod(field[i]);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OwnSeconds() {
  return CpuSeconds(RUSAGE_SELF) + CpuSeconds(RUSAGE_CHILDREN) + LiveChildrenSeconds();
}

}  // namespace

double ProcessCpuSeconds() { return CpuSeconds(RUSAGE_SELF); }

int MachineCpus() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

OthersWatch::OthersWatch()
    : begin_(ToSeconds(RealClock().Now())), busy_(BusySeconds()), own_(OwnSeconds()) {}

double OthersWatch::Share() const {
  const double seconds = ToSeconds(RealClock().Now()) - begin_;
  const double others = (BusySeconds() - busy_) - (OwnSeconds() - own_);
  return seconds > 0 ? std::max(0.0, others) / (seconds * MachineCpus()) : 0;
}

}  // namespace ropeway
