// The time of a barrier of a team of threads.
#ifndef ROPEWAY_BASE_BARRIER_TIME_H_
#define ROPEWAY_BASE_BARRIER_TIME_H_

namespace ropeway {

class WorkerTeam;

// Nanoseconds of one barrier of the idle team: the best of five runs, a few milliseconds in all. It
// shows where the host placed the virtual cores (on one cache or on two), which changes other
// timings by 10 to 20 %: timings are comparable only if this one agrees.
double BarrierNanoseconds(WorkerTeam* team);

// The same for a new team. REQUIRES: threads >= 1. Throws as WorkerTeam does.
double BarrierNanoseconds(int threads);

}  // namespace ropeway

#endif  // ROPEWAY_BASE_BARRIER_TIME_H_
