// How long the threads of a team need to wait for each other.
#ifndef ROPEWAY_BASE_BARRIER_TIME_H_
#define ROPEWAY_BASE_BARRIER_TIME_H_

namespace ropeway {

class WorkerTeam;

// Nanoseconds of one barrier of the team, whose threads have nothing else to do: the best of five
// runs, some milliseconds in all. It says where the host placed the virtual cores (on one cache or
// on two), which changes other timings by 10 to 20 %: timings compare only where this one agrees.
double BarrierNanoseconds(WorkerTeam* team);

// The same of a new team. REQUIRES: threads >= 1. Throws as WorkerTeam does.
double BarrierNanoseconds(int threads);

}  // namespace ropeway

#endif  // ROPEWAY_BASE_BARRIER_TIME_H_
