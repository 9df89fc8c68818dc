// The KV cache: how it is written, and attention over it. A block of 16 tokens of one layer and KV head is as
// kernels::KvHeadBlockBytes has it.

#define BLOCK_TOKENS 16
#define SOFTMAX_TOKENS 64
#define SPLIT_TOKENS 1024
#define MOST_HEAD_DIM 256

// The part of KV head `head` of a block. The pool's blocks are `block_lines` times 64 bytes apart, and the heads
// `head_bytes`.
#define HEAD_BLOCK(id, head) \
  (AT(uchar, pool) + (ulong)(id) * (ulong)block_lines * 64 + (ulong)(head) * (ulong)head_bytes)

// The largest magnitude of n elements, as bits. All lanes get it.
DEVICE uint LargestBits(GLOBAL const float *x, int n, TO_SHARED uint *largest) {
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
KERNEL(KV_LANES) store_kv(VIEW(k), int k_stride, VIEW(v), int v_stride, VIEW(slots), int head_dim, int is_q8, VIEW(pool),
                int head_bytes, int block_lines, VIEW(tables), VIEW(row_tables), int table_step, int table_first) {
  SHARED uint largest[KV_LANES];
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
  const int id = AT(int, tables)[AT(int, row_tables)[row] + position / BLOCK_TOKENS * table_step + table_first];
  GLOBAL uchar *block = HEAD_BLOCK(id, head);
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

// `attend` computes several queries at once, which share K and V: rows of one sequence, heads of one KV head. It takes
// one batch of positions after the other, of which each lane has FOUR, and then FOUR elements of the sums over V. Head
// sizes are multiples of BLOCK_TOKENS.
#define BATCH 256
#define BATCH_GROUPS (BATCH / SOFTMAX_TOKENS)
#define FOUR 4

// FOUR neighbouring numbers of K or V, as stored: `at` is a multiple of FOUR, counted in numbers.
DEVICE void LoadFour(GLOBAL const uchar *block, int at, int is_q8, float *x) {
  if (is_q8) {
    const uint word = ((GLOBAL const uint *)block)[at / 4];
    for (int i = 0; i < FOUR; ++i) x[i] = (float)(SCHAR)(word >> 8 * i);
  } else {
    GLOBAL const uint *words = (GLOBAL const uint *)block + at / 2;
    const uint low = words[0];
    const uint high = words[1];
    x[0] = HalfToFloat(low & 0xFFFFu);
    x[1] = HalfToFloat(low >> 16);
    x[2] = HalfToFloat(high & 0xFFFFu);
    x[3] = HalfToFloat(high >> 16);
  }
}

// scores[j * FOUR + i] of query j, scaled already, and the position in slot + i of the block.
DEVICE void Scores(GLOBAL const uchar *block, int slot, TO_SHARED const float *query, int queries, int head_dim, int is_q8,
                   float soft_cap, float *scores) {
  for (int i = 0; i < QUERIES * FOUR; ++i) scores[i] = 0.0f;
  for (int begin = 0; begin < head_dim; begin += BLOCK_TOKENS) {
    if (queries == 1) {
      for (int d = begin; d < begin + BLOCK_TOKENS; ++d) {
        float k[FOUR];
        LoadFour(block, d * BLOCK_TOKENS + slot, is_q8, k);
        for (int i = 0; i < FOUR; ++i) scores[i] = FMA(query[d * QUERIES], k[i], scores[i]);
      }
    } else {
      for (int d = begin; d < begin + BLOCK_TOKENS; ++d) {
        float k[FOUR];
        LoadFour(block, d * BLOCK_TOKENS + slot, is_q8, k);
        for (int j = 0; j < QUERIES; ++j) {
          for (int i = 0; i < FOUR; ++i) {
            scores[j * FOUR + i] = FMA(query[d * QUERIES + j], k[i], scores[j * FOUR + i]);
          }
        }
      }
    }
  }
  if (is_q8) {
    GLOBAL const float *k_scales = (GLOBAL const float *)(block + 2 * BLOCK_TOKENS * head_dim) + slot;
    for (int i = 0; i < QUERIES * FOUR; ++i) scores[i] = scores[i] * k_scales[i % FOUR];
  }
  if (soft_cap > 0.0f) {
    for (int i = 0; i < QUERIES * FOUR; ++i) scores[i] = SoftCap(scores[i], soft_cap);
  }
}

// sums[i] = fma(weight, element d + i of V, sums[i]) for the positions in the slots [slot, after) of the block, in
// order.
DEVICE void AddValues(GLOBAL const uchar *block, int slot, int after, TO_SHARED const float *weights, int head_dim, int d,
                      int is_q8, float *sums) {
  float v[FOUR];
  if (slot == 0 && after == BLOCK_TOKENS) {  // So many that a compiler loads ahead.
    for (int t = 0; t < BLOCK_TOKENS; ++t) {
      LoadFour(block, (BLOCK_TOKENS + t) * head_dim + d, is_q8, v);
      for (int i = 0; i < FOUR; ++i) sums[i] = FMA(weights[t], v[i], sums[i]);
    }
  } else {
    for (int t = slot; t < after; ++t) {
      LoadFour(block, (BLOCK_TOKENS + t) * head_dim + d, is_q8, v);
      for (int i = 0; i < FOUR; ++i) sums[i] = FMA(weights[t], v[i], sums[i]);
    }
  }
}

// The positions of [group, group + SOFTMAX_TOKENS) that query j sees are those from SEEN_BEGIN to before SEEN_END.
#define SEEN_BEGIN(j, group) (begins[j] > (group) ? begins[j] : (group))
#define SEEN_END(j, group) (after[j] < (group) + SOFTMAX_TOKENS ? after[j] : (group) + SOFTMAX_TOKENS)

// The first position that a row sees.
DEVICE int FirstSeen(int window, int end) { return window > 0 && end > window ? end - window : 0; }

// A partial is as kernels::PartialFloats has it: the sum over V, then m and l. That of query j in the group's slot:
#define PARTIAL_FLOATS(head_dim) (ulong)((head_dim) + PARTIAL_EXTRA)
#define PARTIAL_ROW(j) ((row + (j) / own_heads) * heads + head + (j) % own_heads)
#define PARTIAL(j) \
  (AT(float, partials) + ((ulong)PARTIAL_ROW(j) * (ulong)slots + (ulong)slot) * PARTIAL_FLOATS(head_dim))

// Adds another split's m and l to those of the splits before it. The sums over V are multiplied with these factors.
DEVICE void Merge(float m, float l, float *all_m, float *all_l, float *old_factor, float *new_factor) {
  const float m_both = MaxIgnoringNan(*all_m, m);
  *old_factor = Exp(*all_m - m_both);
  *new_factor = Exp(m - m_both);
  *all_l = FMA(*all_l, *old_factor, l * *new_factor);
  *all_m = m_both;
}

// A sink is one more position, whose V is 0: only the sum's old factor is used.
DEVICE void AddSink(float sink, float *all_m, float *all_l, float *old_factor) {
  float unused;
  Merge(sink, 1.0f, all_m, all_l, old_factor, &unused);
}

// Group (x, y) has row x % rows and the y-th `tile_heads` heads, counted for each KV head anew. It takes the next rows,
// too, as far as they are of its sequence and it has queries left; their own groups have nothing to do then.
//
// With one slot it takes all splits of the context, merges them, and writes `out`. With more it takes the splits whose
// number is x / rows modulo `slots`, and writes each one's partial for attend_merge: no row sees more than `slots`
// splits, so that each has a place of its own, [row][head][slot] in `partials`.
//
// A query's first lane, of its number, keeps the m and l of the current split and of those before it.
KERNEL(KV_LANES) attend(VIEW(q), int q_stride, VIEW(out), int out_stride, int rows, int heads, int tile_heads, int heads_of_kv,
              float factor, float soft_cap, int window, VIEW(ends), int has_sinks, VIEW(sinks), int head_dim, int is_q8,
              VIEW(pool), int head_bytes, int block_lines, VIEW(tables), VIEW(row_tables), int table_step,
              int table_first, int slots, VIEW(partials)) {
  SHARED float query[QUERIES * MOST_HEAD_DIM];
  SHARED float o[QUERIES * MOST_HEAD_DIM];      // Of the split. A lane has the same elements of it all the time.
  SHARED float all_o[QUERIES * MOST_HEAD_DIM];  // Of those before it.
  SHARED float scores[QUERIES * BATCH];         // Then exp(score - m).
  SHARED float weights[QUERIES * BATCH];        // What V is multiplied with.
  SHARED float partial[QUERIES * BATCH_GROUPS * LANE_SUMS];  // Of each softmax group.
  SHARED float group_max[QUERIES * BATCH_GROUPS];
  SHARED float group_sum[QUERIES * BATCH_GROUPS];
  SHARED float group_m[QUERIES * BATCH_GROUPS];
  SHARED float alphas[QUERIES * BATCH_GROUPS];
  SHARED float old_factor[QUERIES];  // At the end of a split: of what was before it,
  SHARED float new_factor[QUERIES];  // and of what it adds.
  // 0: it adds nothing; 1: it is the first one that does; 2: it is a later one; 3: attend_merge will know.
  SHARED int merge[QUERIES];
  SHARED int begins[QUERIES];
  SHARED int after[QUERIES];
  SHARED int blocks[BATCH / BLOCK_TOKENS];
  const int lane = LANE();

  const int tile_rows = QUERIES / tile_heads;
  const int row = GROUP_X() % rows;
  const int slot = GROUP_X() / rows;
  const int table = AT(int, row_tables)[row];
  if (row % tile_rows != 0 && AT(int, row_tables)[row - 1] == table) return;
  int own_rows = 1;
  while ((row + own_rows) % tile_rows != 0 && row + own_rows < rows && AT(int, row_tables)[row + own_rows] == table) {
    ++own_rows;
  }
  int end = 0;
  int begin = AT(int, ends)[row];
  for (int i = 0; i < own_rows; ++i) {
    const int row_end = AT(int, ends)[row + i];
    const int row_begin = FirstSeen(window, row_end);
    begin = row_begin < begin ? row_begin : begin;
    end = row_end > end ? row_end : end;
  }
  const int first_split = begin / SPLIT_TOKENS;
  const int own_split = first_split + (slot + slots - first_split % slots) % slots;
  int batch = (own_split == first_split ? begin : own_split * SPLIT_TOKENS) / BATCH * BATCH;
  if (slots > 1 && batch >= end) return;
  const int tiles = (heads_of_kv + tile_heads - 1) / tile_heads;
  const int kv_head = GROUP_Y() / tiles;
  const int tile_begin = GROUP_Y() % tiles * tile_heads;
  const int head = kv_head * heads_of_kv + tile_begin;
  const int own_heads = heads_of_kv - tile_begin < tile_heads ? heads_of_kv - tile_begin : tile_heads;
  const int queries = own_rows * own_heads;  // Query j is of row + j / own_heads and head + j % own_heads.

  if (lane < QUERIES) {
    const int row_end = lane < queries ? AT(int, ends)[row + lane / own_heads] : 0;
    after[lane] = row_end;
    begins[lane] = FirstSeen(window, row_end);
  }
  for (int e = lane; e < queries * head_dim; e += LANES()) {
    const int j = e / head_dim;
    query[e % head_dim * QUERIES + j] = AT(float, q)[(ulong)(row + j / own_heads) * (ulong)q_stride +
                                                     (ulong)((head + j % own_heads) * head_dim + e % head_dim)] *
                                        factor;
  }
  for (int e = FOUR * lane; e < queries * head_dim; e += FOUR * LANES()) {
    for (int i = 0; i < FOUR; ++i) o[e + i] = all_o[e + i] = 0.0f;
  }
  BARRIER();

  float m = -AS_FLOAT(RW_INF_BITS);
  float l = 0.0f;
  int empty = 1;  // The split has seen no position.
  float all_m = -AS_FLOAT(RW_INF_BITS);
  float all_l = 0.0f;
  int all_empty = 1;

  for (; batch < end; batch += BATCH) {
    const int position = batch + FOUR * lane;
    const int in_block = position % BLOCK_TOKENS;
    int seen = 0;        // A bit for each query and position.
    int block_seen = 0;  // Some query sees a position of this block.
    for (int j = 0; j < QUERIES; ++j) {
      for (int i = 0; i < FOUR; ++i) {
        seen |= (position + i >= begins[j] && position + i < after[j]) << (j * FOUR + i);
      }
      block_seen |= position - in_block + BLOCK_TOKENS > begins[j] && position - in_block < after[j];
    }
    int block_id = 0;
    if (block_seen) {
      block_id = AT(int, tables)[table + position / BLOCK_TOKENS * table_step + table_first];
      if (in_block == 0) blocks[FOUR * lane / BLOCK_TOKENS] = block_id;
    }
    float score[QUERIES * FOUR];
    float v_scale[FOUR] = {1.0f, 1.0f, 1.0f, 1.0f};
    for (int i = 0; i < QUERIES * FOUR; ++i) score[i] = 0.0f;
    if (seen) {
      GLOBAL const uchar *block = HEAD_BLOCK(block_id, kv_head);
      if (is_q8) {
        Scores(block, in_block, query, queries, head_dim, 1, soft_cap, score);
        GLOBAL const float *v_scales = (GLOBAL const float *)(block + 2 * BLOCK_TOKENS * head_dim) + BLOCK_TOKENS;
        for (int i = 0; i < FOUR; ++i) v_scale[i] = v_scales[in_block + i];
      } else {
        Scores(block, in_block, query, queries, head_dim, 0, soft_cap, score);
      }
    }
    for (int i = 0; i < QUERIES * FOUR; ++i) {
      scores[i / FOUR * BATCH + FOUR * lane + i % FOUR] = (seen >> i & 1) ? score[i] : -AS_FLOAT(RW_INF_BITS);
    }
    BARRIER();

    // m after each softmax group, and what the sums before it are multiplied with: from 16 maxima of each group of a
    // query, then one, then all of a query.
    for (int e = lane; e < queries * BATCH_GROUPS * LANE_SUMS; e += LANES()) {
      float most = -AS_FLOAT(RW_INF_BITS);
      for (int i = e % LANE_SUMS; i < SOFTMAX_TOKENS; i += LANE_SUMS) {
        most = MaxIgnoringNan(most, scores[e / LANE_SUMS * SOFTMAX_TOKENS + i]);
      }
      partial[e] = most;
    }
    BARRIER();
    if (lane < queries * BATCH_GROUPS) {
      float most = partial[lane * LANE_SUMS];
      for (int i = 1; i < LANE_SUMS; ++i) most = MaxIgnoringNan(most, partial[lane * LANE_SUMS + i]);
      group_max[lane] = most;
    }
    BARRIER();
    if (lane < queries) {
      for (int g = 0; g < BATCH_GROUPS; ++g) {
        const int group = batch + g * SOFTMAX_TOKENS;
        if (SEEN_BEGIN(lane, group) < SEEN_END(lane, group)) {
          // -0 becomes +0, whichever of the two was met first.
          const float m_new = MaxIgnoringNan(m, group_max[lane * BATCH_GROUPS + g]) + 0.0f;
          alphas[lane * BATCH_GROUPS + g] = empty ? 0.0f : Exp(m - m_new);
          group_m[lane * BATCH_GROUPS + g] = m_new;
          m = m_new;
          empty = 0;
        }
      }
    }
    BARRIER();
    for (int i = 0; i < QUERIES * FOUR; ++i) {
      const int at = i / FOUR * BATCH + FOUR * lane + i % FOUR;
      float p = 0.0f;
      if (seen >> i & 1) p = Exp(score[i] - group_m[at / SOFTMAX_TOKENS]);
      scores[at] = p;
      weights[at] = is_q8 ? p * v_scale[i % FOUR] : p;
    }
    BARRIER();

    for (int e = lane; e < queries * BATCH_GROUPS * LANE_SUMS; e += LANES()) {
      // Of a position that is not seen: + 0, which changes nothing.
      float sum = 0.0f;
      for (int i = e % LANE_SUMS; i < SOFTMAX_TOKENS; i += LANE_SUMS) {
        sum = sum + scores[e / LANE_SUMS * SOFTMAX_TOKENS + i];
      }
      partial[e] = sum;
    }
    for (int e = FOUR * lane; e < queries * head_dim; e += FOUR * LANES()) {
      const int j = e / head_dim;
      float sums[FOUR];
      for (int i = 0; i < FOUR; ++i) sums[i] = o[e + i];
      for (int g = 0; g < BATCH_GROUPS; ++g) {
        const int group = batch + g * SOFTMAX_TOKENS;
        const int seen_end = SEEN_END(j, group);
        int t = SEEN_BEGIN(j, group);
        if (t < seen_end) {
          for (int i = 0; i < FOUR; ++i) sums[i] = sums[i] * alphas[j * BATCH_GROUPS + g];
        }
        while (t < seen_end) {
          const int first = t / BLOCK_TOKENS * BLOCK_TOKENS;
          const int stop = seen_end - first < BLOCK_TOKENS ? seen_end - first : BLOCK_TOKENS;
          GLOBAL const uchar *block = HEAD_BLOCK(blocks[(first - batch) / BLOCK_TOKENS], kv_head);
          const int at = j * BATCH + (first - batch);
          if (is_q8) {
            AddValues(block, t - first, stop, weights + at, head_dim, e % head_dim, 1, sums);
          } else {
            AddValues(block, t - first, stop, weights + at, head_dim, e % head_dim, 0, sums);
          }
          t = first + stop;
        }
      }
      for (int i = 0; i < FOUR; ++i) o[e + i] = sums[i];
    }
    BARRIER();
    if (lane < queries * BATCH_GROUPS) {
      float lane_sums[LANE_SUMS];
      for (int i = 0; i < LANE_SUMS; ++i) lane_sums[i] = partial[lane * LANE_SUMS + i];
      group_sum[lane] = SumLanes(lane_sums);
    }
    BARRIER();
    if (lane < queries) {
      for (int g = 0; g < BATCH_GROUPS; ++g) {
        const int group = batch + g * SOFTMAX_TOKENS;
        if (SEEN_BEGIN(lane, group) < SEEN_END(lane, group)) {
          l = FMA(l, alphas[lane * BATCH_GROUPS + g], group_sum[lane * BATCH_GROUPS + g]);
        }
      }
    }

    // The split ends here.
    if (batch + BATCH >= end || (batch + BATCH) % SPLIT_TOKENS == 0) {
      if (lane < queries) {
        merge[lane] = empty ? 0 : slots > 1 ? 3 : all_empty ? 1 : 2;
        if (merge[lane] == 1) {
          all_m = m;
          all_l = l;
          all_empty = 0;
        } else if (merge[lane] == 2) {
          float a;
          float b;
          Merge(m, l, &all_m, &all_l, &a, &b);
          old_factor[lane] = a;
          new_factor[lane] = b;
        } else if (merge[lane] == 3) {
          GLOBAL float *to = PARTIAL(lane) + head_dim;
          to[0] = m;
          to[1] = l;
        }
        m = -AS_FLOAT(RW_INF_BITS);
        l = 0.0f;
        empty = 1;
      }
      BARRIER();
      for (int e = FOUR * lane; e < queries * head_dim; e += FOUR * LANES()) {
        const int j = e / head_dim;
        for (int i = e; i < e + FOUR; ++i) {
          if (merge[j] == 1) all_o[i] = o[i];
          if (merge[j] == 2) all_o[i] = FMA(all_o[i], old_factor[j], o[i] * new_factor[j]);
          if (merge[j] == 3) PARTIAL(j)[i % head_dim] = o[i];
          o[i] = 0.0f;
        }
      }
      batch += (slots - 1) * SPLIT_TOKENS;  // The splits of other groups.
      BARRIER();
    }
  }

  if (lane < queries) {
    if (has_sinks) {
      float a;
      AddSink(AT(float, sinks)[head + lane % own_heads], &all_m, &all_l, &a);
      old_factor[lane] = a;
    }
    new_factor[lane] = all_l;
  }
  BARRIER();
  if (slots > 1) return;
  for (int e = lane; e < queries * head_dim; e += LANES()) {
    const int j = e / head_dim;
    const float sum = has_sinks ? all_o[e] * old_factor[j] : all_o[e];
    AT(float, out)[(ulong)(row + j / own_heads) * (ulong)out_stride +
                   (ulong)((head + j % own_heads) * head_dim + e % head_dim)] = sum / new_factor[j];
  }
}

// Group (x, y) has row x and head y: merges the partials of the splits that the row sees.
KERNEL(KV_LANES) attend_merge(VIEW(partials), int slots, VIEW(out), int out_stride, int heads, int head_dim, int window,
                    VIEW(ends), int has_sinks, VIEW(sinks)) {
  const int row = GROUP_X();
  const int head = GROUP_Y();
  const int end = AT(int, ends)[row];
  const int first_split = FirstSeen(window, end) / SPLIT_TOKENS;
  GLOBAL const float *own =
      AT(float, partials) + (ulong)(row * heads + head) * (ulong)slots * PARTIAL_FLOATS(head_dim);

  float o[MOST_HEAD_DIM / KV_LANES];  // Every KV_LANES-th element, from the lane's number on.
  for (int i = 0; i < MOST_HEAD_DIM / KV_LANES; ++i) o[i] = 0.0f;
  float m = -AS_FLOAT(RW_INF_BITS);
  float l = 0.0f;
  for (int split = first_split; split * SPLIT_TOKENS < end; ++split) {
    GLOBAL const float *from = own + (ulong)(split % slots) * PARTIAL_FLOATS(head_dim);
    if (split == first_split) {
      m = from[head_dim];
      l = from[head_dim + 1];
      for (int i = 0; i < MOST_HEAD_DIM / KV_LANES; ++i) {
        const int e = LANE() + i * KV_LANES;
        if (e < head_dim) o[i] = from[e];
      }
    } else {
      float a;
      float b;
      Merge(from[head_dim], from[head_dim + 1], &m, &l, &a, &b);
      for (int i = 0; i < MOST_HEAD_DIM / KV_LANES; ++i) {
        const int e = LANE() + i * KV_LANES;
        if (e < head_dim) o[i] = FMA(o[i], a, from[e] * b);
      }
    }
  }
  if (has_sinks) {
    float a;
    AddSink(AT(float, sinks)[head], &m, &l, &a);
    for (int i = 0; i < MOST_HEAD_DIM / KV_LANES; ++i) o[i] = o[i] * a;
  }
  for (int i = 0; i < MOST_HEAD_DIM / KV_LANES; ++i) {
    const int e = LANE() + i * KV_LANES;
    if (e < head_dim) AT(float, out)[(ulong)row * (ulong)out_stride + (ulong)(head * head_dim + e)] = o[i] / l;
  }
}
