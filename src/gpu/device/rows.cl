// Operations on rows of floats. A group of lanes has one row, GROUP_X(), or a piece of it.

#define TILE 1024  // Elements of a row that are summed from shared memory at a time.

// The columns of this group's chunk, one for each of its lanes at a time.
#define FOR_COLUMNS(i, n) \
  for (int i = GROUP_Y() * CHUNK + LANE(); i < (n) && i < (GROUP_Y() + 1) * CHUNK; i += LANES())

// The group's row of the rows x.
#define ROW(x) (AT(float, x) + (ulong)GROUP_X() * (ulong)x##_stride)

// The sum of a row's elements, or of the squares of what they have above `less`: by virtual lanes, which are the
// group's first lanes, and the tree. All lanes load what these add up.
DEVICE float SumRow(GLOBAL const float *row, int n, int squares, float less, TO_SHARED float *tile, TO_SHARED float *sums) {
  float sum = 0.0f;
  for (int begin = 0; begin < n; begin += TILE) {
    const int count = n - begin < TILE ? n - begin : TILE;
    for (int i = LANE(); i < count; i += LANES()) tile[i] = row[begin + i];
    BARRIER();
    if (LANE() < LANE_SUMS) {
      if (squares) {
        for (int i = LANE(); i < count; i += LANE_SUMS) {
          const float d = tile[i] - less;
          sum = FMA(d, d, sum);
        }
      } else {
        for (int i = LANE(); i < count; i += LANE_SUMS) sum = sum + tile[i];
      }
      sums[LANE()] = sum;
    }
    BARRIER();
  }
  float all[LANE_SUMS];
  for (int i = 0; i < LANE_SUMS; ++i) all[i] = sums[i];
  BARRIER();  // `sums` is free again.
  return SumLanes(all);
}

KERNEL(ROW_LANES) rms_norm(VIEW(x), int x_stride, VIEW(weight), int n, float eps, VIEW(y), int y_stride) {
  SHARED float tile[TILE];
  SHARED float sums[LANE_SUMS];
  GLOBAL const float *from = ROW(x);
  GLOBAL const float *weights = AT(float, weight);
  GLOBAL float *to = ROW(y);
  const float mean = SumRow(from, n, 1, 0.0f, tile, sums) / (float)n;
  const float factor = 1.0f / SQRT(mean + eps);
  for (int i = LANE(); i < n; i += LANES()) to[i] = (from[i] * factor) * weights[i];
}

KERNEL(ROW_LANES) layer_norm(VIEW(x), int x_stride, VIEW(weight), VIEW(bias), int n, float eps, VIEW(y), int y_stride) {
  SHARED float tile[TILE];
  SHARED float sums[LANE_SUMS];
  GLOBAL const float *from = ROW(x);
  GLOBAL const float *weights = AT(float, weight);
  GLOBAL const float *biases = AT(float, bias);
  GLOBAL float *to = ROW(y);
  const float mean = SumRow(from, n, 0, 0.0f, tile, sums) / (float)n;
  const float variance = SumRow(from, n, 1, mean, tile, sums) / (float)n;
  const float factor = 1.0f / SQRT(variance + eps);
  for (int i = LANE(); i < n; i += LANES()) to[i] = FMA((from[i] - mean) * factor, weights[i], biases[i]);
}

// Column i of the row is its pair i: of head i / pairs, so that neighbours are read together.
KERNEL(ROW_LANES) rope(VIEW(x), int x_stride, int heads, int head_dim, int rope_dim, int halves, VIEW(cos_sin),
            int cos_sin_stride) {
  const int pairs = rope_dim / 2;
  GLOBAL const float *table = ROW(cos_sin);
  GLOBAL float *row = ROW(x);
  FOR_COLUMNS(i, heads * pairs) {
    const int pair = i % pairs;
    GLOBAL float *head = row + i / pairs * head_dim;
    const int first = halves ? pair : 2 * pair;
    const int second = halves ? pairs + pair : 2 * pair + 1;
    const float c = table[pair];
    const float s = table[pairs + pair];
    const float x0 = head[first];
    const float x1 = head[second];
    head[first] = FMA(x0, c, -(x1 * s));
    head[second] = FMA(x0, s, x1 * c);
  }
}

DEVICE float Silu(float x) { return x / (1.0f + Exp(-x)); }

DEVICE float Gelu(float x) {
  const float slope = FMA(x * x, RW_GELU_CUBIC, RW_GELU_LINEAR);
  return x / (1.0f + Exp(-(x * slope)));
}

DEVICE float ExactGelu(float x) {
  // Written so that NaN stays NaN.
  const float minus = 0.0f - x;
  const float positive = 0.0f > x ? 0.0f : x;
  const float magnitude = minus > x ? minus : x;
  const float a = RW_TAIL_LIMIT < magnitude ? RW_TAIL_LIMIT : magnitude;
  const float t = 1.0f / FMA(a, RW_TAIL_SLOPE, 1.0f);
  float p = RW_TAIL_C8;
  p = FMA(p, t, RW_TAIL_C7);
  p = FMA(p, t, RW_TAIL_C6);
  p = FMA(p, t, RW_TAIL_C5);
  p = FMA(p, t, RW_TAIL_C4);
  p = FMA(p, t, RW_TAIL_C3);
  p = FMA(p, t, RW_TAIL_C2);
  p = FMA(p, t, RW_TAIL_C1);
  p = FMA(p, t, RW_TAIL_C0);
  const float tail = (p * t) * Exp(0.0f - (a * a) * 0.5f);
  return FMA(0.0f - a, tail, positive);
}

DEVICE float SwiGluClamped(float gate, float up) {
  // Written so that NaN stays NaN.
  const float g = RW_CLAMPED_LIMIT < gate ? RW_CLAMPED_LIMIT : gate;
  const float most = RW_CLAMPED_LIMIT < up ? RW_CLAMPED_LIMIT : up;
  const float u = -RW_CLAMPED_LIMIT > most ? -RW_CLAMPED_LIMIT : most;
  return (u + 1.0f) * (g / (1.0f + Exp(-(g * RW_CLAMPED_ALPHA))));
}

// `which`: in the order of gpu::Activation.
KERNEL(ROW_LANES) activate(int which, VIEW(gate), int gate_stride, VIEW(up), int up_stride, int n) {
  GLOBAL float *y = ROW(gate);
  GLOBAL const float *ups = ROW(up);
  FOR_COLUMNS(i, n) {
    const float u = ups[i];
    if (which == 0) {
      y[i] = Silu(y[i]) * u;
    } else if (which == 1) {
      y[i] = Gelu(y[i]) * u;
    } else if (which == 2) {
      y[i] = SwiGluClamped(y[i], u);
    } else if (which == 3) {
      y[i] = Gelu(u);
    } else {
      y[i] = ExactGelu(u);
    }
  }
}

KERNEL(ROW_LANES) add(VIEW(x), int x_stride, VIEW(y), int y_stride, int n) {
  GLOBAL float *to = ROW(x);
  GLOBAL const float *from = ROW(y);
  FOR_COLUMNS(i, n) to[i] = to[i] + from[i];
}

KERNEL(ROW_LANES) scale(VIEW(x), int x_stride, float factor, int n) {
  GLOBAL float *to = ROW(x);
  FOR_COLUMNS(i, n) to[i] = to[i] * factor;
}

KERNEL(ROW_LANES) gather(VIEW(x), int x_stride, VIEW(ids), int n, VIEW(y), int y_stride) {
  GLOBAL const float *from = AT(float, x) + (ulong)AT(int, ids)[GROUP_X()] * (ulong)x_stride;
  GLOBAL float *to = ROW(y);
  FOR_COLUMNS(i, n) to[i] = from[i];
}

KERNEL(ROW_LANES) sum_scaled(VIEW(x), int x_stride, VIEW(weights), int used, int has_last, VIEW(last), int last_stride,
                  VIEW(last_weights), int n, VIEW(y), int y_stride) {
  const ulong first = (ulong)GROUP_X() * (ulong)used;
  GLOBAL const float *from = AT(float, x) + first * (ulong)x_stride;
  GLOBAL const float *factors = AT(float, weights) + first;
  GLOBAL float *to = ROW(y);
  FOR_COLUMNS(i, n) {
    float sum = 0.0f;
    for (int j = 0; j < used; ++j) sum = FMA(factors[j], from[(ulong)j * (ulong)x_stride + i], sum);
    if (has_last) sum = FMA(AT(float, last_weights)[GROUP_X()], ROW(last)[i], sum);
    to[i] = sum;
  }
}

// e^x, but 0 for NaN, as Kernels::exp_weights has it.
DEVICE float ExpWeight(float x) { return IsNan(x) ? 0.0f : Exp(x); }

// One lane for each row.
KERNEL(ROW_LANES) sigmoid(VIEW(x), int x_stride, int rows) {
  const int row = GROUP_X() * LANES() + LANE();
  if (row >= rows) return;
  GLOBAL float *at = AT(float, x) + (ulong)row * (ulong)x_stride;
  *at = 1.0f / (1.0f + ExpWeight(-*at));
}

// A lane has four neighbouring elements, and eight lanes a block of 32.
KERNEL(ROW_LANES) pack(VIEW(x), int x_stride, int k, VIEW(levels), VIEW(scales), VIEW(sums)) {
  SHARED uint largest[ROW_LANES];
  SHARED int lane_sums[ROW_LANES];
  const int begin = GROUP_Y() * CHUNK + 4 * LANE();
  const int inside = begin < k;
  const int lane = LANE();
  float values[4];
  uint most = 0;
  for (int i = 0; i < 4; ++i) {
    values[i] = inside ? ROW(x)[begin + i] : 0.0f;
    const uint magnitude = AS_UINT(values[i]) & 0x7FFFFFFFu;
    most = magnitude > most ? magnitude : most;
  }
  largest[lane] = most;
  BARRIER();
  for (int i = lane / 8 * 8; i < lane / 8 * 8 + 8; ++i) most = largest[i] > most ? largest[i] : most;
  float inverse;
  const float block_scale = QuantScale(most, &inverse);
  uint word = 0;
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    // Without a factor all are 0, whatever they are: infinity times 0 is not.
    const int level = inverse == 0.0f ? 0 : RoundToInt(values[i] * inverse);
    word |= ((uint)level & 0xFFu) << (8 * i);
    sum += level;
  }
  lane_sums[lane] = sum;
  BARRIER();
  if (inside) {
    const ulong at = (ulong)GROUP_X() * (ulong)k + (ulong)begin;
    AT(uint, levels)[at / 4] = word;
    if (lane % 8 == 0) AT(float, scales)[at / 32] = block_scale;
    if (lane % 4 == 0) {
      AT(int, sums)[at / 16] = lane_sums[lane] + lane_sums[lane + 1] + lane_sums[lane + 2] + lane_sums[lane + 3];
    }
  }
}

// Whether expert a with this logit is chosen before expert b with that one. -1: there is no such expert.
DEVICE int ChosenBefore(float a, int a_id, float b, int b_id) {
  if (a_id < 0) return 0;
  if (b_id < 0) return 1;
  return a > b || (a == b && a_id < b_id);
}

// The experts are found one after the other, the next one by all lanes; the first lane keeps them in order.
KERNEL(ROW_LANES) choose_experts(VIEW(logits), int logits_stride, int count, int used, int normalized, VIEW(ids),
                      VIEW(weights)) {
  SHARED float best[ROW_LANES];
  SHARED int best_id[ROW_LANES];
  const int lane = LANE();
  GLOBAL const float *x = ROW(logits);
  GLOBAL int *chosen = AT(int, ids) + (ulong)GROUP_X() * (ulong)used;
  GLOBAL float *shares = AT(float, weights) + (ulong)GROUP_X() * (ulong)used;
  float last = 0.0f;
  int last_id = -1;
  float largest = x[0];
  for (int i = 0; i < used; ++i) {
    float own = 0.0f;
    int own_id = -1;
    for (int e = lane; e < count; e += LANES()) {
      // Chosen before are those up to the last one; without a last one, no number is left.
      const int left = !IsNan(x[e]) && (i == 0 || ChosenBefore(last, last_id, x[e], e));
      if (left && ChosenBefore(x[e], e, own, own_id)) {
        own = x[e];
        own_id = e;
      }
    }
    best[lane] = own;
    best_id[lane] = own_id;
    BARRIER();
    for (int half_ = LANES() / 2; half_ > 0; half_ /= 2) {
      if (lane < half_ && ChosenBefore(best[lane + half_], best_id[lane + half_], best[lane], best_id[lane])) {
        best[lane] = best[lane + half_];
        best_id[lane] = best_id[lane + half_];
      }
      BARRIER();
    }
    last = best[0];
    last_id = best_id[0];
    if (i == 0 && last_id >= 0) largest = last;
    BARRIER();  // `best` is free again.
    if (lane == 0) {
      int id = last_id;
      if (id < 0) {  // No number is left: the first that was not taken.
        id = 0;
        for (int j = 0; j < i; ++j) id += chosen[j] == id;
      }
      int at = i;
      for (; at > 0 && chosen[at - 1] > id; --at) chosen[at] = chosen[at - 1];
      chosen[at] = id;
    }
  }
  float sum = 0.0f;
  if (!normalized) {
    for (int begin = 0; begin < count; begin += LANES()) {
      const int tile = count - begin < LANES() ? count - begin : LANES();
      if (lane < tile) best[lane] = ExpWeight(x[begin + lane] - largest);
      BARRIER();
      for (int e = 0; e < tile; ++e) sum = sum + best[e];
      BARRIER();
    }
  }
  if (lane == 0) {
    for (int i = 0; i < used; ++i) {
      shares[i] = ExpWeight(x[chosen[i]] - largest);
      if (normalized) sum = sum + shares[i];
    }
    for (int i = 0; i < used; ++i) shares[i] = shares[i] / sum;
  }
}
