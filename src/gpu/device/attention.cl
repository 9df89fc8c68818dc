// The KV cache: how it is written, and attention over it. A block of 16 tokens of one layer and KV head is as
// kernels::KvHeadBlockBytes has it.

#define BLOCK_TOKENS 16
#define SOFTMAX_TOKENS 64  // Lanes of every group here: one for each position of a softmax group.
#define SPLIT_TOKENS 1024
#define MOST_HEAD_DIM 256
#define MOST_OF_LANE (MOST_HEAD_DIM / SOFTMAX_TOKENS)  // Elements of a head that one lane has.

// The block of KV head `head` that holds this position of the row's sequence. A pool's block has `block_lines` times
// 64 bytes, and a head's part of it `head_bytes`.
#define HEAD_BLOCK(row, position, head)                                                                   \
  (AT(uchar, pool) +                                                                                      \
   (ulong)AT(int, tables)[AT(int, row_tables)[row] + (position) / BLOCK_TOKENS * table_step + table_first] * \
       (ulong)block_lines * 64 +                                                                          \
   (ulong)(head) * (ulong)head_bytes)

// The largest magnitude of n elements, as bits. All lanes get it.
DEVICE uint LargestBits(GLOBAL const float *x, int n, SHARED uint *largest) {
  uint most = 0;
  for (int i = LANE(); i < n; i += LANES()) {
    const uint magnitude = AS_UINT(x[i]) & 0x7FFFFFFFu;
    most = magnitude > most ? magnitude : most;
  }
  largest[LANE()] = most;
  BARRIER();
  for (int i = 0; i < LANES(); ++i) most = largest[i] > most ? largest[i] : most;
  BARRIER();  // `largest` is free again.
  return most;
}

// A group for each row and KV head.
KERNEL store_kv(VIEW(k), int k_stride, VIEW(v), int v_stride, VIEW(slots), int head_dim, int is_q8, VIEW(pool),
                int head_bytes, int block_lines, VIEW(tables), VIEW(row_tables), int table_step, int table_first) {
  SHARED uint largest[SOFTMAX_TOKENS];
  const int row = GROUP_X();
  const int head = GROUP_Y();
  const int position = AT(int, slots)[row];
  GLOBAL const float *keys = AT(float, k) + (ulong)row * (ulong)k_stride + head * head_dim;
  GLOBAL const float *values = AT(float, v) + (ulong)row * (ulong)v_stride + head * head_dim;
  uint k_bits = 0;
  uint v_bits = 0;
  if (is_q8) {
    k_bits = LargestBits(keys, head_dim, largest);
    v_bits = LargestBits(values, head_dim, largest);
  }
  if (position < 0) return;  // Nothing is written.
  GLOBAL uchar *block = HEAD_BLOCK(row, position, head);
  const int slot = position % BLOCK_TOKENS;
  const int v_begin = (BLOCK_TOKENS + slot) * head_dim;
  if (is_q8) {
    float k_factor;
    float v_factor;
    const float k_scale = QuantScale(k_bits, &k_factor);
    const float v_scale = QuantScale(v_bits, &v_factor);
    for (int d = LANE(); d < head_dim; d += LANES()) {
      // Without a factor all are 0, whatever they are: infinity times 0 is not.
      block[d * BLOCK_TOKENS + slot] = (uchar)(k_factor == 0.0f ? 0 : RoundToInt(keys[d] * k_factor));
      block[v_begin + d] = (uchar)(v_factor == 0.0f ? 0 : RoundToInt(values[d] * v_factor));
    }
    if (LANE() == 0) {
      GLOBAL float *scales = (GLOBAL float *)(block + 2 * BLOCK_TOKENS * head_dim);
      scales[slot] = k_scale;
      scales[BLOCK_TOKENS + slot] = v_scale;
    }
  } else {
    GLOBAL ushort *halves = (GLOBAL ushort *)block;
    for (int d = LANE(); d < head_dim; d += LANES()) {
      halves[d * BLOCK_TOKENS + slot] = (ushort)FloatToHalf(keys[d]);
      halves[v_begin + d] = (ushort)FloatToHalf(values[d]);
    }
  }
}

// The score of the position in `slot` of the block, for a query that is already scaled.
DEVICE float Score(GLOBAL const uchar *block, int slot, SHARED const float *q, int head_dim, int is_q8,
                   float soft_cap) {
  float score = 0.0f;
  if (is_q8) {
    GLOBAL const SCHAR *k = (GLOBAL const SCHAR *)block + slot;
    for (int d = 0; d < head_dim; ++d) score = FMA(q[d], (float)k[d * BLOCK_TOKENS], score);
    score = score * ((GLOBAL const float *)(block + 2 * BLOCK_TOKENS * head_dim))[slot];
  } else {
    GLOBAL const ushort *k = (GLOBAL const ushort *)block + slot;
    for (int d = 0; d < head_dim; ++d) score = FMA(q[d], HalfToFloat(k[d * BLOCK_TOKENS]), score);
  }
  return soft_cap > 0.0f ? SoftCap(score, soft_cap) : score;
}

// sum = fma(weight, element d of V, sum) for the positions in the slots [slot, after) of the block, in order.
DEVICE float AddValues(GLOBAL const uchar *block, int slot, int after, SHARED const float *weight, int head_dim,
                       int d, int is_q8, float sum) {
  const int at = BLOCK_TOKENS * head_dim + d;
  if (is_q8) {
    GLOBAL const SCHAR *v = (GLOBAL const SCHAR *)block + at;
    for (; slot < after; ++slot) sum = FMA(weight[slot], (float)v[slot * head_dim], sum);
  } else {
    GLOBAL const ushort *v = (GLOBAL const ushort *)block + at;
    for (; slot < after; ++slot) sum = FMA(weight[slot], HalfToFloat(v[slot * head_dim]), sum);
  }
  return sum;
}

// A group for each row and query head: over one softmax group after the other, a lane has the score of one position,
// then each lane its elements of the sum over V. A split ends with its merging into what those before it made.
KERNEL attend(VIEW(q), int q_stride, VIEW(out), int out_stride, int heads_of_kv, float factor, float soft_cap,
              int window, VIEW(ends), int has_sinks, VIEW(sinks), int head_dim, int is_q8, VIEW(pool), int head_bytes,
              int block_lines, VIEW(tables), VIEW(row_tables), int table_step, int table_first) {
  SHARED float query[MOST_HEAD_DIM];
  SHARED float scores[SOFTMAX_TOKENS];   // Then exp(score - m).
  SHARED float weights[SOFTMAX_TOKENS];  // What V is multiplied with.
  SHARED float largest[LANE_SUMS];
  SHARED float sums[LANE_SUMS];
  const int lane = LANE();
  const int row = GROUP_X();
  const int head = GROUP_Y();
  const int kv_head = head / heads_of_kv;
  const int end = AT(int, ends)[row];
  const int begin = window > 0 && end > window ? end - window : 0;
  const ulong at_head = (ulong)head * (ulong)head_dim;
  GLOBAL const float *from = AT(float, q) + (ulong)row * (ulong)q_stride + at_head;
  for (int d = lane; d < head_dim; d += LANES()) query[d] = from[d] * factor;
  BARRIER();

  float o[MOST_OF_LANE];      // Of the split: element lane + 64 * i.
  float m = -AS_FLOAT(RW_INF_BITS);
  float l = 0.0f;
  float all_o[MOST_OF_LANE];  // Of the splits before it.
  float all_m = -AS_FLOAT(RW_INF_BITS);
  float all_l = 0.0f;
  int merged = 0;  // Splits before it.
  for (int i = 0; i < MOST_OF_LANE; ++i) o[i] = all_o[i] = 0.0f;

  for (int group = begin / SOFTMAX_TOKENS * SOFTMAX_TOKENS; group < end; group += SOFTMAX_TOKENS) {
    const int first = group <= begin || group % SPLIT_TOKENS == 0;  // Of the split: `o`, m and l are those of no position.
    const int position = group + lane;
    const int seen = position >= begin && position < end;
    float score = -AS_FLOAT(RW_INF_BITS);
    float v_scale = 1.0f;
    if (seen) {
      GLOBAL const uchar *block = HEAD_BLOCK(row, position, kv_head);
      const int slot = position % BLOCK_TOKENS;
      score = Score(block, slot, query, head_dim, is_q8, soft_cap);
      if (is_q8) v_scale = ((GLOBAL const float *)(block + 2 * BLOCK_TOKENS * head_dim))[BLOCK_TOKENS + slot];
    }
    scores[lane] = score;
    BARRIER();
    if (lane < LANE_SUMS) {
      float most = m;
      for (int i = lane; i < SOFTMAX_TOKENS; i += LANE_SUMS) most = MaxIgnoringNan(most, scores[i]);
      largest[lane] = most;
    }
    BARRIER();
    float m_new = largest[0];
    for (int i = 1; i < LANE_SUMS; ++i) m_new = largest[i] > m_new ? largest[i] : m_new;
    m_new = m_new + 0.0f;  // -0 becomes +0, whichever of the two was met first.
    const float alpha = first ? 0.0f : Exp(m - m_new);
    const float p = seen ? Exp(score - m_new) : 0.0f;
    scores[lane] = p;
    weights[lane] = is_q8 ? p * v_scale : p;
    BARRIER();
    if (lane < LANE_SUMS) {
      // Of a position that is not seen: + 0, which changes nothing.
      float sum = 0.0f;
      for (int i = lane; i < SOFTMAX_TOKENS; i += LANE_SUMS) sum = sum + scores[i];
      sums[lane] = sum;
    }
    const int seen_begin = begin > group ? begin : group;
    const int seen_end = end < group + SOFTMAX_TOKENS ? end : group + SOFTMAX_TOKENS;
    for (int i = 0; i < MOST_OF_LANE; ++i) o[i] = o[i] * alpha;
    for (int t = seen_begin; t < seen_end; t = (t / BLOCK_TOKENS + 1) * BLOCK_TOKENS) {
      GLOBAL const uchar *block = HEAD_BLOCK(row, t, kv_head);
      const int block_begin = t / BLOCK_TOKENS * BLOCK_TOKENS;
      const int after = seen_end < block_begin + BLOCK_TOKENS ? seen_end - block_begin : BLOCK_TOKENS;
      for (int i = 0; i < MOST_OF_LANE; ++i) {
        const int d = lane + i * SOFTMAX_TOKENS;
        if (d < head_dim) {
          o[i] = AddValues(block, t - block_begin, after, weights + (block_begin - group), head_dim, d, is_q8, o[i]);
        }
      }
    }
    BARRIER();  // `sums` is whole; `scores` and `weights` are free again.
    float lane_sums[LANE_SUMS];
    for (int i = 0; i < LANE_SUMS; ++i) lane_sums[i] = sums[i];
    l = FMA(l, alpha, SumLanes(lane_sums));
    m = m_new;

    const int next = group + SOFTMAX_TOKENS;
    if (next >= end || next % SPLIT_TOKENS == 0) {
      if (merged == 0) {
        for (int i = 0; i < MOST_OF_LANE; ++i) all_o[i] = o[i];
        all_m = m;
        all_l = l;
      } else {
        const float m_both = MaxIgnoringNan(all_m, m);
        const float a = Exp(all_m - m_both);
        const float b = Exp(m - m_both);
        all_l = FMA(all_l, a, l * b);
        for (int i = 0; i < MOST_OF_LANE; ++i) all_o[i] = FMA(all_o[i], a, o[i] * b);
        all_m = m_both;
      }
      ++merged;
      m = -AS_FLOAT(RW_INF_BITS);
      l = 0.0f;
      for (int i = 0; i < MOST_OF_LANE; ++i) o[i] = 0.0f;
    }
  }

  if (has_sinks) {
    const float sink = AT(float, sinks)[head];
    const float m_both = MaxIgnoringNan(all_m, sink);
    const float a = Exp(all_m - m_both);
    all_l = FMA(all_l, a, Exp(sink - m_both));
    for (int i = 0; i < MOST_OF_LANE; ++i) all_o[i] = all_o[i] * a;
  }
  GLOBAL float *to = AT(float, out) + (ulong)row * (ulong)out_stride + at_head;
  for (int i = 0; i < MOST_OF_LANE; ++i) {
    const int d = lane + i * SOFTMAX_TOKENS;
    if (d < head_dim) to[d] = all_o[i] / all_l;
  }
}
