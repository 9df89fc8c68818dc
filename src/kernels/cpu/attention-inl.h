// Attention over Vec; reference_attention.cc defines it. Included by one file per instruction set,
// after elementwise-inl.h.
//
// A tile is up to kTileQueries (row, head) pairs that share each read of K and V. Its pairs are in
// order of rows, so that the first one is the first to see a position, and to see it no more.
#ifndef ROPEWAY_KERNELS_CPU_ATTENTION_INL_H_
#define ROPEWAY_KERNELS_CPU_ATTENTION_INL_H_

#include "kernels/kernels.h"

namespace ropeway::kernels {
namespace {

// Register budgets: accumulators of 16 lanes held at once.
#if RW_AVX512
enum { kTileQueries = 8, kScoreAccumulators = 16, kValueAccumulators = 16 };
#else
enum { kTileQueries = 4, kScoreAccumulators = 4, kValueAccumulators = 4 };
#endif
enum { kMaxHeadDim = 256, kGroupBlocks = kSoftmaxTokens / base::kBlockTokens };

// Blocks are scattered in memory, so the hardware cannot predict the next one. Each is prefetched
// so many blocks ahead into the second-level cache (for the first there are too few miss buffers).
enum { kBlocksAhead = 8 };

// Arrays of Vec stay in registers only if every loop over them is unrolled.
#define RW_UNROLL _Pragma("GCC unroll 16")

// How the types of the cache differ. A block's K and V have 16 * kBytes bytes per dimension each;
// if kScaled, the scales of each position follow.
struct HalfKv {
  enum { kBytes = 2, kScaled = 0 };
  RW_INLINE Vec Numbers(const uint8_t* at) { return LoadHalf(at); }
};
struct Int8Kv {
  enum { kBytes = 1, kScaled = 1 };
  RW_INLINE Vec Numbers(const uint8_t* at) { return LoadInt8(at); }
};

struct AttentionTile {
  alignas(64) float q[kTileQueries][kMaxHeadDim];     // Scaled.
  alignas(64) float p[kTileQueries][kSoftmaxTokens];  // Scores, then their exponentials.
  float alpha[16];                                    // The old sums' factor.
  float* out[kTileQueries];                           // Entries of the partial result.
  int row[kTileQueries];
  // The query sees the positions [from, seen) of the current group; none: both are 0.
  int from[kTileQueries];
  int seen[kTileQueries];
  bool begun[kTileQueries];            // The query saw a position of the split before.
  const uint8_t* block[kGroupBlocks];  // Of the current group.
  const uint8_t* ahead[kGroupBlocks];  // What to prefetch while each of them is read.
};

RW_INLINE const uint8_t* BlockAt(const AttentionArgs& args, int block) {
  return reinterpret_cast<const uint8_t*>(args.kv) +
         static_cast<size_t>(args.blocks[block * args.block_step]) * args.block_stride;
}

RW_INLINE void PrefetchFar(const uint8_t* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
}

// K's scales of a block; V's follow 16 floats later.
template <class Kv>
RW_INLINE const float* ScalesAt(const uint8_t* block, int head_dim) {
  return reinterpret_cast<const float*>(block + 2 * base::kBlockTokens * Kv::kBytes * head_dim);
}

// Scores of T queries against the group's blocks [first, first + B).
template <class Kv, int T, int B>
static __attribute__((noinline)) void ScoreBlocks(int head_dim, int first, AttentionTile* tile) {
  enum { kStep = base::kBlockTokens * Kv::kBytes, kPerLine = 64 / kStep };
  const uint8_t* k[B];
  const uint8_t* ahead[B];
  RW_UNROLL
  for (int b = 0; b < B; ++b) {
    k[b] = tile->block[first + b];
    ahead[b] = tile->ahead[first + b];
    if (Kv::kScaled) {
      PrefetchFar(ahead[b] + 2 * kStep * head_dim);
      PrefetchFar(ahead[b] + 2 * kStep * head_dim + 64);
    }
  }
  Vec acc[T][B];
  RW_UNROLL
  for (int t = 0; t < T; ++t) {
    RW_UNROLL
    for (int b = 0; b < B; ++b) acc[t][b] = Zero();
  }
  for (int d = 0; d < head_dim; d += kPerLine) {
    RW_UNROLL
    for (int b = 0; b < B; ++b) PrefetchFar(ahead[b] + d * kStep);
    RW_UNROLL
    for (int j = 0; j < kPerLine; ++j) {
      Vec column[B];
      RW_UNROLL
      for (int b = 0; b < B; ++b) column[b] = Kv::Numbers(k[b] + (d + j) * kStep);
      RW_UNROLL
      for (int t = 0; t < T; ++t) {
        const Vec q = Set1(tile->q[t][d + j]);
        RW_UNROLL
        for (int b = 0; b < B; ++b) acc[t][b] = Fma(q, column[b], acc[t][b]);
      }
    }
  }
  if (Kv::kScaled) {
    Vec scale[B];
    RW_UNROLL
    for (int b = 0; b < B; ++b) scale[b] = Load(ScalesAt<Kv>(k[b], head_dim));
    RW_UNROLL
    for (int t = 0; t < T; ++t) {
      RW_UNROLL
      for (int b = 0; b < B; ++b) acc[t][b] = Mul(acc[t][b], scale[b]);
    }
  }
  RW_UNROLL
  for (int t = 0; t < T; ++t) {
    RW_UNROLL
    for (int b = 0; b < B; ++b) Store(&tile->p[t][(first + b) * base::kBlockTokens], acc[t][b]);
  }
}

template <class Kv, int T>
static inline void Scores(int head_dim, int blocks, AttentionTile* tile) {
  constexpr int kMost = kScoreAccumulators / T;
  constexpr int kAtOnce = kMost >= 4 ? 4 : (kMost >= 2 ? 2 : 1);
  int b = 0;
  for (; b + kAtOnce <= blocks; b += kAtOnce) ScoreBlocks<Kv, T, kAtOnce>(head_dim, b, tile);
  for (; b < blocks; ++b) ScoreBlocks<Kv, T, 1>(head_dim, b, tile);
}

static inline void CapScores(int queries, int blocks, float cap, AttentionTile* tile) {
  for (int t = 0; t < queries; ++t) {
    for (int i = 0; i < blocks * base::kBlockTokens; i += 16) {
      Store(&tile->p[t][i], SoftCap(Load(&tile->p[t][i]), cap));
    }
  }
}

// Lanes [from, seen) of a; `fill` in the others.
RW_INLINE Vec KeepSeen(Vec a, int from, int seen, Vec fill) {
  const Vec kept = KeepFirst(a, seen, fill);
  return from > 0 ? KeepFirst(fill, from, kept) : kept;
}

// Turns the scores of each query that sees a position into weights, and updates m, l and alpha.
// Slots that a query does not see may hold anything: they are replaced, never multiplied. If V has
// scales, the weights are multiplied by them.
template <class Kv>
static inline void Softmax(int queries, int head_dim, AttentionTile* tile) {
  const Vec nothing = Set1(NegativeInfinity());
  float m_new[16];
  float change[16];
  Store(m_new, Zero());
  Store(change, Zero());
  for (int t = 0; t < queries; ++t) {
    const int seen = tile->seen[t];
    const int from = tile->from[t];
    if (seen <= 0) continue;
    Vec best = nothing;
    for (int i = from / 16 * 16; i < seen; i += 16) {
      best = MaxNum(KeepSeen(Load(&tile->p[t][i]), from - i, seen - i, nothing), best);
    }
    const float m_old = tile->out[t][head_dim];
    const float m = MaxLanes(best);
    m_new[t] = (m > m_old ? m : m_old) + 0.0F;
    change[t] = m_old - m_new[t];
  }
  Store(tile->alpha, Exp(Load(change)));
  for (int t = 0; t < queries; ++t) {
    const int seen = tile->seen[t];
    const int from = tile->from[t];
    if (seen <= 0) continue;
    if (!tile->begun[t]) tile->alpha[t] = 0.0F;
    tile->begun[t] = true;
    Vec lanes = Zero();
    for (int i = from / 16 * 16; i < seen; i += 16) {
      Vec p = Exp(Sub(Load(&tile->p[t][i]), Set1(m_new[t])));
      lanes = Add(lanes, KeepSeen(p, from - i, seen - i, Zero()));
      if (Kv::kScaled) {
        const float* scales = ScalesAt<Kv>(tile->block[i / base::kBlockTokens], head_dim);
        p = Mul(p, Load(scales + base::kBlockTokens));
      }
      Store(&tile->p[t][i], p);
    }
    float* state = tile->out[t] + head_dim;
    state[0] = m_new[t];
    state[1] = __builtin_fmaf(state[1], tile->alpha[t], SumLanes(lanes));
  }
}

// o += p * V for T queries from `query` on, C vectors of dimensions from `dim` on and the group's
// positions [begin, end). `rescale`: the old o is scaled first.
template <class Kv, int T, int C>
static __attribute__((noinline)) void AddValues(int head_dim, int begin, int end, int query,
                                                bool rescale, int dim, AttentionTile* tile) {
  enum { kStep = 16 * Kv::kBytes, kVecsPerLine = 64 / kStep };
  Vec o[T][C];
  RW_UNROLL
  for (int t = 0; t < T; ++t) {
    RW_UNROLL
    for (int c = 0; c < C; ++c) {
      o[t][c] = Load(tile->out[query + t] + dim + 16 * c);
      if (rescale) o[t][c] = Mul(o[t][c], Set1(tile->alpha[query + t]));
    }
  }
  const size_t row_bytes = static_cast<size_t>(head_dim) * Kv::kBytes;
  for (int i = begin; i < end;) {
    const int b = i / base::kBlockTokens;
    const size_t offset = (base::kBlockTokens + i % base::kBlockTokens) * row_bytes +
                          static_cast<size_t>(dim) * Kv::kBytes;
    const uint8_t* v = tile->block[b] + offset;
    const uint8_t* ahead = tile->ahead[b] + offset;
    const int block_end = (b + 1) * base::kBlockTokens;
    const int stop = block_end < end ? block_end : end;
    for (; i < stop; ++i, v += row_bytes, ahead += row_bytes) {
      RW_UNROLL
      for (int c = 0; c < C; c += kVecsPerLine) PrefetchFar(ahead + kStep * c);
      Vec value[C];
      RW_UNROLL
      for (int c = 0; c < C; ++c) value[c] = Kv::Numbers(v + kStep * c);
      RW_UNROLL
      for (int t = 0; t < T; ++t) {
        const Vec p = Set1(tile->p[query + t][i]);
        RW_UNROLL
        for (int c = 0; c < C; ++c) o[t][c] = Fma(p, value[c], o[t][c]);
      }
    }
  }
  RW_UNROLL
  for (int t = 0; t < T; ++t) {
    RW_UNROLL
    for (int c = 0; c < C; ++c) Store(tile->out[query + t] + dim + 16 * c, o[t][c]);
  }
}

template <class Kv, int T>
static inline void Values(int head_dim, int begin, int end, int query, bool rescale,
                          AttentionTile* tile) {
  constexpr int kMost = kValueAccumulators / T;
  constexpr int kAtOnce = kMost >= 4 ? 4 : (kMost >= 2 ? 2 : 1);
  int dim = 0;
  for (; dim + 16 * kAtOnce <= head_dim; dim += 16 * kAtOnce) {
    AddValues<Kv, T, kAtOnce>(head_dim, begin, end, query, rescale, dim, tile);
  }
  for (; dim < head_dim; dim += 16) {
    AddValues<Kv, T, 1>(head_dim, begin, end, query, rescale, dim, tile);
  }
}

// The values of all queries that see a position of the group: of all together where all see it, and
// of each alone before and after, so that each adds up its positions in order.
template <class Kv, int T>
static inline void GroupValues(int head_dim, AttentionTile* tile) {
  int low = 0;
  int high = kSoftmaxTokens;
  for (int t = 0; t < T; ++t) {
    if (tile->from[t] > low) low = tile->from[t];
    if (tile->seen[t] < high) high = tile->seen[t];
  }
  const bool together = low < high;
  // Where windows begin within the group, each query has a part of its own to begin with.
  for (int t = 0; t < T && (!together || low > 0); ++t) {
    const int end = together ? low : tile->seen[t];
    if (tile->seen[t] > 0) Values<Kv, 1>(head_dim, tile->from[t], end, t, true, tile);
  }
  if (!together) return;
  Values<Kv, T>(head_dim, low, high, 0, low == 0, tile);
  for (int t = 0; t < T; ++t) {
    if (tile->seen[t] > high) Values<Kv, 1>(head_dim, high, tile->seen[t], t, false, tile);
  }
}

// The end of the positions that the row sees.
RW_INLINE int EndSeen(const AttentionArgs& args, int row) {
  return args.end > 0 ? args.end : args.start + row + 1;
}

// Finds the addresses of the group's blocks [block, block + count), and what to prefetch with each:
// the block kBlocksAhead later, in this problem or, after its end, in the next one; the block
// itself if there is none, or if `far` is false because an earlier tile did it. The first `hidden`
// blocks are seen by no query and need not exist: another one stands for them.
static inline void FindBlocks(const AttentionArgs& args, int block, int hidden, int count, bool far,
                              AttentionTile* tile) {
  const int own = (EndSeen(args, args.rows - 1) + base::kBlockTokens - 1) / base::kBlockTokens;
  const int distance = own < kBlocksAhead ? own : kBlocksAhead;
  for (int b = 0; b < count; ++b) {
    const int later = block + b + distance;
    tile->block[b] = BlockAt(args, block + (b < hidden ? hidden : b));
    tile->ahead[b] = tile->block[b];
    if (!far) continue;
    if (later < own) {
      tile->ahead[b] = BlockAt(args, later);
    } else if (later - own < args.next_count) {
      tile->ahead[b] = reinterpret_cast<const uint8_t*>(args.next_kv) +
                       static_cast<size_t>(args.next_blocks[(later - own) * args.block_step]) *
                           args.block_stride;
    }
  }
}

// The first position that the row sees.
RW_INLINE int FirstSeen(const AttentionArgs& args, int row) {
  const int first = args.start + row + 1 - args.window;
  return args.window > 0 && first > 0 ? first : 0;
}

// All groups of the split in which one of the tile's T queries sees a position.
template <class Kv, int T>
static void AttendTile(const AttentionArgs& args, int split_begin, bool far, AttentionTile* tile) {
  const int head_dim = args.head_dim;
  const int split_end = split_begin + kSplitTokens;
  const int last = EndSeen(args, tile->row[T - 1]);
  const int end = last < split_end ? last : split_end;
  const int first = FirstSeen(args, tile->row[0]);
  int begin = first > split_begin ? first / kSoftmaxTokens * kSoftmaxTokens : split_begin;
  for (int t = 0; t < T; ++t) tile->begun[t] = false;
  for (; begin < end; begin += kSoftmaxTokens) {
    const int most = end - begin < kSoftmaxTokens ? end - begin : kSoftmaxTokens;
    const int blocks = (most + base::kBlockTokens - 1) / base::kBlockTokens;
    for (int t = 0; t < T; ++t) {
      const int own_end = EndSeen(args, tile->row[t]) - begin;
      const int seen = own_end < most ? own_end : most;
      const int hidden = FirstSeen(args, tile->row[t]) - begin;
      const int from = hidden > 0 ? hidden : 0;
      tile->from[t] = from < seen ? from : 0;
      tile->seen[t] = from < seen ? seen : 0;
    }
    const int hidden_blocks = first > begin ? (first - begin) / base::kBlockTokens : 0;
    FindBlocks(args, begin / base::kBlockTokens, hidden_blocks, blocks, far, tile);
    Scores<Kv, T>(head_dim, blocks, tile);
    if (args.soft_cap > 0.0F) CapScores(T, blocks, args.soft_cap, tile);
    Softmax<Kv>(T, head_dim, tile);
    GroupValues<Kv, T>(head_dim, tile);
  }
}

template <class Kv>
static void AttendAnyTile(const AttentionArgs& args, int split_begin, int queries, bool far,
                          AttentionTile* tile) {
  switch (queries) {
    case 1:
      return AttendTile<Kv, 1>(args, split_begin, far, tile);
    case 2:
      return AttendTile<Kv, 2>(args, split_begin, far, tile);
    case 3:
      return AttendTile<Kv, 3>(args, split_begin, far, tile);
    case 4:
      return AttendTile<Kv, 4>(args, split_begin, far, tile);
#if RW_AVX512
    case 5:
      return AttendTile<Kv, 5>(args, split_begin, far, tile);
    case 6:
      return AttendTile<Kv, 6>(args, split_begin, far, tile);
    case 7:
      return AttendTile<Kv, 7>(args, split_begin, far, tile);
    case 8:
      return AttendTile<Kv, 8>(args, split_begin, far, tile);
#endif
    default:
      return;
  }
}

static void Attention(const AttentionArgs& args, int split, float* partial) {
  const int total = args.rows * args.group;
  const int head_dim = args.head_dim;
  const int64_t entry = head_dim + 16;
  AttentionTile tile;
  for (int first = 0; first < total; first += kTileQueries) {
    const int queries = total - first < kTileQueries ? total - first : kTileQueries;
    for (int t = 0; t < queries; ++t) {
      const int row = (first + t) / args.group;
      const int head = (first + t) % args.group;
      const float* q = args.q + row * args.q_stride + static_cast<int64_t>(head) * head_dim;
      tile.row[t] = row;
      tile.out[t] = partial + (first + t) * entry;
      for (int d = 0; d < head_dim; d += 16) {
        Store(&tile.q[t][d], Mul(Load(q + d), Set1(args.scale)));
        Store(tile.out[t] + d, Zero());
      }
      Store(tile.out[t] + head_dim, Zero());
      tile.out[t][head_dim] = NegativeInfinity();
    }
    switch (args.kv_type) {
      case KvType::kQ8_0:
        AttendAnyTile<Int8Kv>(args, split * kSplitTokens, queries, first == 0, &tile);
        break;
      case KvType::kF16:
        AttendAnyTile<HalfKv>(args, split * kSplitTokens, queries, first == 0, &tile);
        break;
    }
  }
}

static void AttentionMerge(const float* partials, int splits, int64_t split_stride, int head_dim,
                           const float* sink, float* out) {
  int first = 0;  // The first split that saw a position.
  while (first + 1 < splits && partials[first * split_stride + head_dim + 1] == 0.0F) ++first;
  partials += first * split_stride;
  for (int d = 0; d < head_dim; d += 16) Store(out + d, Load(partials + d));
  float m_all = partials[head_dim];
  float l_all = partials[head_dim + 1];
  for (int s = 1; s < splits - first; ++s) {
    const float* o = partials + s * split_stride;
    const float m = o[head_dim];
    const float l = o[head_dim + 1];
    if (l == 0.0F) continue;
    const float m_new = m > m_all ? m : m_all;
    const float a = ScalarExp(m_all - m_new);
    const float b = ScalarExp(m - m_new);
    l_all = __builtin_fmaf(l_all, a, l * b);
    for (int d = 0; d < head_dim; d += 16) {
      Store(out + d, Fma(Load(out + d), Set1(a), Mul(Load(o + d), Set1(b))));
    }
    m_all = m_new;
  }
  if (sink != nullptr) {
    const float m_new = *sink > m_all ? *sink : m_all;
    const float a = ScalarExp(m_all - m_new);
    l_all = __builtin_fmaf(l_all, a, ScalarExp(*sink - m_new));
    for (int d = 0; d < head_dim; d += 16) Store(out + d, Mul(Load(out + d), Set1(a)));
  }
  for (int d = 0; d < head_dim; d += 16) Store(out + d, Div(Load(out + d), Set1(l_all)));
}

// n numbers as int8 with the returned scale: the rules for activations, with all n as one block.
static float QuantiseKvRow(const float* x, int n, int8_t* q) {
  // As integers, magnitudes are ordered as their values, NaN above infinity.
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i max = _mm256_setzero_si256();
  for (int i = 0; i < n; i += 8) {
    const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
    max = _mm256_max_epi32(max, _mm256_and_si256(bits, magnitude));
  }
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  const int32_t bits = _mm_cvtsi128_si32(four);
  if (bits >= RW_INF_BITS || bits < RW_QUANT_MIN_BITS) {
    for (int i = 0; i < n; ++i) q[i] = 0;
    return bits >= RW_INF_BITS ? BitsToFloat(RW_NAN_BITS) : 0.0F;
  }
  const float largest = BitsToFloat(static_cast<uint32_t>(bits));
  const __m256 inverse = _mm256_set1_ps(127.0F / largest);
  for (int i = 0; i < n; i += 16) {
    const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), inverse));
    const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8), inverse));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(q + i),
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  return largest / 127.0F;
}

static void StoreQuantisedKv(const float* k, const float* v, int head_dim, int slot,
                             uint8_t* block) {
  int8_t q[kMaxHeadDim];
  float* scales = reinterpret_cast<float*>(block + 2 * base::kBlockTokens * head_dim);
  scales[slot] = QuantiseKvRow(k, head_dim, q);
  for (int d = 0; d < head_dim; ++d) {
    block[d * base::kBlockTokens + slot] = static_cast<uint8_t>(q[d]);
  }
  scales[base::kBlockTokens + slot] = QuantiseKvRow(
      v, head_dim, reinterpret_cast<int8_t*>(block) + (base::kBlockTokens + slot) * head_dim);
}

static void StoreHalfKv(const float* k, const float* v, int head_dim, int slot, uint16_t* block) {
  uint16_t* k_column = block + slot;
  uint16_t* v_row = block + (base::kBlockTokens + slot) * head_dim;
  uint16_t half[kMaxHeadDim];
  for (int d = 0; d < head_dim; d += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(half + d),
                     _mm256_cvtps_ph(_mm256_loadu_ps(k + d), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(v_row + d),
                     _mm256_cvtps_ph(_mm256_loadu_ps(v + d), _MM_FROUND_TO_NEAREST_INT));
  }
  for (int d = 0; d < head_dim; ++d) k_column[d * base::kBlockTokens] = half[d];
}

static void StoreKv(KvType type, const float* k, const float* v, int head_dim, int slot,
                    std::byte* block) {
  switch (type) {
    case KvType::kF16:
      return StoreHalfKv(k, v, head_dim, slot, reinterpret_cast<uint16_t*>(block));
    case KvType::kQ8_0:
      return StoreQuantisedKv(k, v, head_dim, slot, reinterpret_cast<uint8_t*>(block));
  }
}

}  // namespace
}  // namespace ropeway::kernels

#endif  // ROPEWAY_KERNELS_CPU_ATTENTION_INL_H_
