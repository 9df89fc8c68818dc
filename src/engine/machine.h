// The cores and memory of this machine, within the limits set for this process.
#ifndef ROPEWAY_ENGINE_MACHINE_H_
#define ROPEWAY_ENGINE_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace ropeway::engine {

// Physical cores that this process may run on: of the CPUs in its affinity mask, each core once,
// and no more than the control group's CPU quota. At least 1.
int PhysicalCores();

// The CPU's name, such as "AMD EPYC 9354"; "unknown" if the system does not say.
std::string CpuName();

// Bytes of memory available without swapping: MemAvailable, within what the control group's limit
// leaves. 0 if the system does not say.
int64_t AvailableMemoryBytes();

// The parsers behind them, for tests.

// The CPUs that share a core with others and with `cpu` read from `root`
// (/sys/devices/system/cpu), as the lowest of its siblings; `cpu` itself if there is no such file.
int CoreOf(const std::string& root, int cpu);
// The first "model name" in the text of /proc/cpuinfo; nullopt where there is none.
std::optional<std::string> ParseCpuName(const std::string& cpuinfo);
// Bytes of MemAvailable in the text of /proc/meminfo.
std::optional<int64_t> ParseMemAvailable(const std::string& meminfo);
// Whole CPUs, rounded up, in the text of a control group's cpu.max; nullopt: no limit.
std::optional<int> ParseCpuMax(const std::string& cpu_max);

}  // namespace ropeway::engine

#endif  // ROPEWAY_ENGINE_MACHINE_H_
