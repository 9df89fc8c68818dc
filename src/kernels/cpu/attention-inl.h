// Attention over Vec; the meaning is that of reference_attention.cc. Included by one file of each
// instruction set, behind elementwise-inl.h.
//
// A tile is up to kTileQueries (row, head) pairs that share each read of K and V. Its pairs are in
// order of rows, so how many positions of a softmax group each sees never falls along the tile.
#ifndef ROPEWAY_KERNELS_CPU_ATTENTION_INL_H_
#define ROPEWAY_KERNELS_CPU_ATTENTION_INL_H_

#include "kernels/kernels.h"

namespace ropeway {
namespace {

// Register budgets: accumulators of 16 lanes held at a time.
#if RW_AVX512
enum { kTileQueries = 8, kScoreAccumulators = 16, kValueAccumulators = 16 };
#else
enum { kTileQueries = 4, kScoreAccumulators = 4, kValueAccumulators = 4 };
#endif
enum { kMaxHeadDim = 256, kGroupBlocks = kSoftmaxTokens / kKvBlockTokens };

struct AttentionTile {
  alignas(64) float q[kTileQueries][kMaxHeadDim];     // Scaled.
  alignas(64) float p[kTileQueries][kSoftmaxTokens];  // Scores, then their exponentials.
  float alpha[16];                                    // The old sums' factor.
  float* out[kTileQueries];                           // Entries of the partial result.
  int row[kTileQueries];
  int seen[kTileQueries];              // Positions of the present group that the query sees.
  const uint8_t* ahead[kGroupBlocks];  // What to prefetch while V of each block is read.
};

RW_INLINE const uint8_t* BlockAt(const AttentionArgs& args, int block) {
  return reinterpret_cast<const uint8_t*>(args.kv) +
         static_cast<size_t>(args.blocks[block]) * args.block_stride;
}

RW_INLINE void Prefetch(const uint8_t* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

// Scores of T queries against B whole blocks from `block` on; p columns from `column` on.
template <int T, int B>
static inline void ScoreBlocks(const AttentionArgs& args, int block, int column,
                               AttentionTile* tile) {
  const uint8_t* k[B];
  for (int b = 0; b < B; ++b) k[b] = BlockAt(args, block + b);
  Vec acc[T][B];
  for (int t = 0; t < T; ++t) {
    for (int b = 0; b < B; ++b) acc[t][b] = Zero();
  }
  const int head_dim = args.head_dim;
  for (int d = 0; d < head_dim; ++d) {
    Vec column_k[B];
    for (int b = 0; b < B; ++b) {
      column_k[b] = LoadHalf(k[b] + d * kKvBlockTokens * 2);
      // V lies right behind K, in as many bytes.
      if (d % 2 == 0) Prefetch(k[b] + (head_dim + d) * kKvBlockTokens * 2);
    }
    for (int t = 0; t < T; ++t) {
      const Vec q = Set1(tile->q[t][d]);
      for (int b = 0; b < B; ++b) acc[t][b] = Fma(q, column_k[b], acc[t][b]);
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int b = 0; b < B; ++b) Store(&tile->p[t][column + b * kKvBlockTokens], acc[t][b]);
  }
}

template <int T>
static inline void Scores(const AttentionArgs& args, int block, int count, AttentionTile* tile) {
  constexpr int kMost = kScoreAccumulators / T;
  constexpr int kAtOnce = kMost >= 4 ? 4 : (kMost >= 2 ? 2 : 1);
  int b = 0;
  for (; b + kAtOnce <= count; b += kAtOnce) {
    ScoreBlocks<T, kAtOnce>(args, block + b, b * kKvBlockTokens, tile);
  }
  for (; b < count; ++b) ScoreBlocks<T, 1>(args, block + b, b * kKvBlockTokens, tile);
}

// Turns the scores of each query that sees something into weights, and brings m, l and alpha up to
// date. Slots that a query does not see may hold anything: they are replaced, never multiplied.
static inline void Softmax(int queries, int head_dim, bool first, AttentionTile* tile) {
  const Vec nothing = Set1(NegativeInfinity());
  float m_new[16];
  float change[16];
  Store(m_new, Zero());
  Store(change, Zero());
  for (int t = 0; t < queries; ++t) {
    const int seen = tile->seen[t];
    if (seen <= 0) continue;
    Vec best = nothing;
    for (int i = 0; i < seen; i += 16) {
      best = MaxNum(KeepFirst(Load(&tile->p[t][i]), seen - i, nothing), best);
    }
    const float m_old = tile->out[t][head_dim];
    const float m = MaxLanes(best);
    m_new[t] = (m > m_old ? m : m_old) + 0.0F;
    change[t] = m_old - m_new[t];
  }
  Store(tile->alpha, first ? Zero() : Exp(Load(change)));
  for (int t = 0; t < queries; ++t) {
    const int seen = tile->seen[t];
    if (seen <= 0) continue;
    Vec lanes = Zero();
    for (int i = 0; i < seen; i += 16) {
      const Vec p = Exp(Sub(Load(&tile->p[t][i]), Set1(m_new[t])));
      Store(&tile->p[t][i], p);
      lanes = Add(lanes, KeepFirst(p, seen - i, Zero()));
    }
    float* state = tile->out[t] + head_dim;
    state[0] = m_new[t];
    state[1] = __builtin_fmaf(state[1], tile->alpha[t], SumLanes(lanes));
  }
}

// o += p * V for T queries from `query` on, C vectors of dimensions from `dim` on and the group's
// positions [begin, end). At begin == 0 the old o is scaled first.
template <int T, int C>
static inline void AddValues(const AttentionArgs& args, int block, int begin, int end, int query,
                             int dim, AttentionTile* tile) {
  Vec o[T][C];
  for (int t = 0; t < T; ++t) {
    for (int c = 0; c < C; ++c) {
      o[t][c] = Load(tile->out[query + t] + dim + 16 * c);
      if (begin == 0) o[t][c] = Mul(o[t][c], Set1(tile->alpha[query + t]));
    }
  }
  const size_t row_bytes = static_cast<size_t>(args.head_dim) * 2;
  for (int i = begin; i < end;) {
    const uint8_t* v = BlockAt(args, block + i / kKvBlockTokens) +
                       (kKvBlockTokens + i % kKvBlockTokens) * row_bytes +
                       static_cast<size_t>(dim) * 2;
    const int block_end = (i / kKvBlockTokens + 1) * kKvBlockTokens;
    const int stop = block_end < end ? block_end : end;
    const uint8_t* ahead = tile->ahead[i / kKvBlockTokens] + (i % kKvBlockTokens) * row_bytes +
                           static_cast<size_t>(dim) * 2;
    for (; i < stop; ++i, v += row_bytes, ahead += row_bytes) {
      for (int c = 0; c < C; c += 2) Prefetch(ahead + 32 * c);
      Vec value[C];
      for (int c = 0; c < C; ++c) value[c] = LoadHalf(v + 32 * c);
      for (int t = 0; t < T; ++t) {
        const Vec p = Set1(tile->p[query + t][i]);
        for (int c = 0; c < C; ++c) o[t][c] = Fma(p, value[c], o[t][c]);
      }
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int c = 0; c < C; ++c) Store(tile->out[query + t] + dim + 16 * c, o[t][c]);
  }
}

template <int T>
static inline void Values(const AttentionArgs& args, int block, int begin, int end, int query,
                          AttentionTile* tile) {
  constexpr int kMost = kValueAccumulators / T;
  constexpr int kAtOnce = kMost >= 4 ? 4 : (kMost >= 2 ? 2 : 1);
  int dim = 0;
  for (; dim + 16 * kAtOnce <= args.head_dim; dim += 16 * kAtOnce) {
    AddValues<T, kAtOnce>(args, block, begin, end, query, dim, tile);
  }
  for (; dim < args.head_dim; dim += 16) {
    AddValues<T, 1>(args, block, begin, end, query, dim, tile);
  }
}

// All groups of the split for one tile of T queries.
template <int T>
static void AttendTile(const AttentionArgs& args, int split_begin, AttentionTile* tile) {
  const int split_end = split_begin + kSplitTokens;
  const int last = args.start + tile->row[T - 1] + 1;
  const int end = last < split_end ? last : split_end;
  for (int begin = split_begin; begin < end; begin += kSoftmaxTokens) {
    const int most = end - begin < kSoftmaxTokens ? end - begin : kSoftmaxTokens;
    const int block = begin / kKvBlockTokens;
    for (int t = 0; t < T; ++t) {
      const int seen = args.start + tile->row[t] + 1 - begin;
      tile->seen[t] = seen < most ? seen : most;
    }
    // The next group's K, or where there is none, what is at hand anyway.
    for (int b = 0; b < kGroupBlocks; ++b) {
      const int next =
          begin + kSoftmaxTokens + b * kKvBlockTokens < end ? block + kGroupBlocks + b : block;
      tile->ahead[b] = BlockAt(args, next);
    }
    Scores<T>(args, block, (most + kKvBlockTokens - 1) / kKvBlockTokens, tile);
    Softmax(T, args.head_dim, begin == split_begin, tile);
    // All queries together as far as the first of them sees, then each alone.
    const int common = tile->seen[0] > 0 ? tile->seen[0] : 0;
    if (common > 0) Values<T>(args, block, 0, common, 0, tile);
    for (int t = 0; t < T; ++t) {
      if (tile->seen[t] > common) Values<1>(args, block, common, tile->seen[t], t, tile);
    }
  }
}

static void AttendAnyTile(const AttentionArgs& args, int split_begin, int queries,
                          AttentionTile* tile) {
  switch (queries) {
    case 1:
      return AttendTile<1>(args, split_begin, tile);
    case 2:
      return AttendTile<2>(args, split_begin, tile);
    case 3:
      return AttendTile<3>(args, split_begin, tile);
    case 4:
      return AttendTile<4>(args, split_begin, tile);
#if RW_AVX512
    case 5:
      return AttendTile<5>(args, split_begin, tile);
    case 6:
      return AttendTile<6>(args, split_begin, tile);
    case 7:
      return AttendTile<7>(args, split_begin, tile);
    case 8:
      return AttendTile<8>(args, split_begin, tile);
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
    AttendAnyTile(args, split * kSplitTokens, queries, &tile);
  }
}

static void AttentionMerge(const float* partials, int splits, int64_t split_stride, int head_dim,
                           float* out) {
  for (int d = 0; d < head_dim; d += 16) Store(out + d, Load(partials + d));
  float m_all = partials[head_dim];
  float l_all = partials[head_dim + 1];
  for (int s = 1; s < splits; ++s) {
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
  for (int d = 0; d < head_dim; d += 16) Store(out + d, Div(Load(out + d), Set1(l_all)));
}

RW_INLINE uint16_t ToHalf(float x) {
  return static_cast<uint16_t>(
      _mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0));
}

static void StoreKv(const float* k, const float* v, int head_dim, int slot, std::byte* block) {
  uint16_t* k_column = reinterpret_cast<uint16_t*>(block) + slot;
  uint16_t* v_row = reinterpret_cast<uint16_t*>(block) + (kKvBlockTokens + slot) * head_dim;
  for (int d = 0; d < head_dim; ++d) k_column[d * kKvBlockTokens] = ToHalf(k[d]);
  for (int d = 0; d < head_dim; d += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(v_row + d),
                     _mm256_cvtps_ph(_mm256_loadu_ps(v + d), _MM_FROUND_TO_NEAREST_INT));
  }
}

}  // namespace
}  // namespace ropeway

#endif  // ROPEWAY_KERNELS_CPU_ATTENTION_INL_H_
