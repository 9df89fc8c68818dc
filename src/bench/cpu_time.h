// What this process itself costs.
#ifndef ROPEWAY_BENCH_CPU_TIME_H_
#define ROPEWAY_BENCH_CPU_TIME_H_

namespace ropeway {

// CPU seconds of this process so far, user and system, of all threads (getrusage).
double ProcessCpuSeconds();

// The machine's CPUs that are online, at least 1.
int MachineCpus();

// How much of the machine others took since this object was made: other processes and the host
// (stolen time), as a share of all CPUs. What this process and its children took does not count;
// but children count as others until they are waited for.
class OthersWatch {
 public:
  OthersWatch();
  double Share() const;

 private:
  const double begin_;
  const double busy_;
  const double own_;
};

}  // namespace ropeway

#endif  // ROPEWAY_BENCH_CPU_TIME_H_
