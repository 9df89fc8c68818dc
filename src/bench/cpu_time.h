// What this process itself costs.
#ifndef ROPEWAY_BENCH_CPU_TIME_H_
#define ROPEWAY_BENCH_CPU_TIME_H_

namespace ropeway {

// CPU seconds of this process so far, user and system, of all threads (getrusage).
double ProcessCpuSeconds();

// The machine's CPUs that are online, at least 1.
int MachineCpus();

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_CPU_TIME_H_
