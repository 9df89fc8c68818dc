#include "bench/cpu_time.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

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

double OwnSeconds() { return CpuSeconds(RUSAGE_SELF) + CpuSeconds(RUSAGE_CHILDREN); }

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
