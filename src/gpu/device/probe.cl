// What must be computed as the CPU does it: a lane has three numbers, and RESULTS results. See ../probe.cc.

#define RESULTS 5

KERNEL(PROBE_LANES) probe(VIEW(numbers), VIEW(results), int count) {
  const int i = GROUP_X() * LANES() + LANE();
  if (i >= count) return;
  const float a = AT(float, numbers)[3 * i];
  const float b = AT(float, numbers)[3 * i + 1];
  const float c = AT(float, numbers)[3 * i + 2];
  GLOBAL float *to = AT(float, results) + RESULTS * i;
  to[0] = a * b + c;
  to[1] = FMA(a, b, c);
  to[2] = a * b;
  to[3] = a / b;
  to[4] = SQRT(a);
}
