// The end of a forward pass: logits that are wanted, or only the largest one. A group of lanes has one row.

KERNEL(LOGIT_LANES) finish_logits(VIEW(x), int x_stride, int n, float cap, VIEW(absent), int absent_count) {
  GLOBAL float *row = AT(float, x) + (ulong)GROUP_X() * (ulong)x_stride;
  if (cap > 0.0f) {
    for (int i = LANE(); i < n; i += LANES()) row[i] = SoftCap(row[i], cap);
    // An id that is absent may be another lane's.
#ifdef __OPENCL_VERSION__
    barrier(CLK_GLOBAL_MEM_FENCE);
#else
    __syncthreads();
#endif
  }
  for (int i = LANE(); i < absent_count; i += LANES()) row[AT(int, absent)[i]] = AS_FLOAT(0xFF800000u);
}

// The first of the largest elements that are numbers above minus infinity: its value and its index; minus infinity and
// 0 where there is none.
KERNEL(LOGIT_LANES) largest(VIEW(x), int x_stride, int n, VIEW(values), VIEW(indices)) {
  SHARED float best[LOGIT_LANES];
  SHARED int places[LOGIT_LANES];
  GLOBAL const float *row = AT(float, x) + (ulong)GROUP_X() * (ulong)x_stride;
  float value = AS_FLOAT(0xFF800000u);
  int place = 0;
  for (int i = LANE(); i < n; i += LANES()) {
    if (row[i] > value) {  // Of equal ones the first stays; NaN is above nothing.
      value = row[i];
      place = i;
    }
  }
  best[LANE()] = value;
  places[LANE()] = place;
  BARRIER();
  if (LANE() == 0) {
    for (int i = 1; i < LANES(); ++i) {
      if (best[i] > value || (best[i] == value && value > AS_FLOAT(0xFF800000u) && places[i] < place)) {
        value = best[i];
        place = places[i];
      }
    }
    AT(float, values)[GROUP_X()] = value;
    AT(int, indices)[GROUP_X()] = place;
  }
}
