// The KV cache's element format and attention over it: the definition.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/half.h"
#include "kernels/reference.h"

namespace ropeway::reference {
namespace {

constexpr int kMaxHeadDim = 256;

uint16_t HalfAt(const std::byte* base, size_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, base + 2 * index, 2);
  return bits;
}

const std::byte* BlockOf(const AttentionArgs& args, int position) {
  return args.kv + static_cast<size_t>(args.blocks[position / kKvBlockTokens]) * args.block_stride;
}

float Score(const AttentionArgs& args, const float* q, int position) {
  const std::byte* block = BlockOf(args, position);
  const size_t slot = static_cast<size_t>(position % kKvBlockTokens);
  float score = 0.0F;
  for (int d = 0; d < args.head_dim; ++d) {
    const float k = HalfToFloat(HalfAt(block, static_cast<size_t>(d) * kKvBlockTokens + slot));
    score = std::fma(q[d], k, score);
  }
  return score;
}

// What is known after some positions: the weighted sum of V, the largest score, the sum of weights.
struct Partial {
  float* o;
  float m;
  float l;
};

// Positions [begin, end) of one softmax group; end - begin <= kSoftmaxTokens.
void AddGroup(const AttentionArgs& args, const float* q, int begin, int end, bool first,
              Partial* partial) {
  float score[kSoftmaxTokens];
  float m_new = partial->m;
  for (int t = begin; t < end; ++t) {
    score[t - begin] = Score(args, q, t);
    m_new = MaxIgnoringNan(m_new, score[t - begin]);
  }
  m_new = m_new + 0.0F;  // -0 becomes +0, whichever of the two was met first.
  const float alpha = first ? 0.0F : Exp(partial->m - m_new);
  float lanes[kLanes] = {};
  for (int t = 0; t < end - begin; ++t) {
    score[t] = Exp(score[t] - m_new);
    lanes[t % kLanes] = lanes[t % kLanes] + score[t];
  }
  partial->m = m_new;
  partial->l = std::fma(partial->l, alpha, SumLanes(lanes));
  for (int d = 0; d < args.head_dim; ++d) partial->o[d] = partial->o[d] * alpha;
  for (int t = begin; t < end; ++t) {
    const std::byte* v = BlockOf(args, t) + static_cast<size_t>(args.head_dim) * kKvBlockTokens * 2;
    const size_t slot = static_cast<size_t>(t % kKvBlockTokens);
    for (int d = 0; d < args.head_dim; ++d) {
      const float value = HalfToFloat(
          HalfAt(v, slot * static_cast<size_t>(args.head_dim) + static_cast<size_t>(d)));
      partial->o[d] = std::fma(score[t - begin], value, partial->o[d]);
    }
  }
}

}  // namespace

void StoreKv(const float* k, const float* v, int head_dim, int slot, std::byte* block) {
  std::byte* v_row = block + (static_cast<size_t>(head_dim) * kKvBlockTokens +
                              static_cast<size_t>(slot) * static_cast<size_t>(head_dim)) *
                                 2;
  for (int d = 0; d < head_dim; ++d) {
    const uint16_t k_half = FloatToHalf(k[d]);
    const uint16_t v_half = FloatToHalf(v[d]);
    std::memcpy(block + static_cast<size_t>(d * kKvBlockTokens + slot) * 2, &k_half, 2);
    std::memcpy(v_row + d * 2, &v_half, 2);
  }
}

void Attention(const AttentionArgs& args, int split, float* partial) {
  const int split_begin = split * kSplitTokens;
  for (int r = 0; r < args.rows; ++r) {
    const int end = std::min(args.start + r + 1, split_begin + kSplitTokens);
    for (int h = 0; h < args.group; ++h) {
      float* out =
          partial + (static_cast<int64_t>(r) * args.group + h) * PartialFloats(args.head_dim);
      std::fill(out, out + PartialFloats(args.head_dim), 0.0F);
      Partial state = {out, -std::numeric_limits<float>::infinity(), 0.0F};
      float q[kMaxHeadDim];
      const float* from = args.q + r * args.q_stride + static_cast<int64_t>(h) * args.head_dim;
      for (int d = 0; d < args.head_dim; ++d) q[d] = from[d] * args.scale;
      for (int t = split_begin; t < end; t += kSoftmaxTokens) {
        AddGroup(args, q, t, std::min(end, t + kSoftmaxTokens), t == split_begin, &state);
      }
      out[args.head_dim] = state.m;
      out[args.head_dim + 1] = state.l;
    }
  }
}

void AttentionMerge(const float* partials, int splits, int64_t split_stride, int head_dim,
                    float* out) {
  std::memcpy(out, partials, static_cast<size_t>(head_dim) * sizeof(float));
  float m_all = partials[head_dim];
  float l_all = partials[head_dim + 1];
  for (int s = 1; s < splits; ++s) {
    const float* o = partials + s * split_stride;
    const float m = o[head_dim];
    const float l = o[head_dim + 1];
    if (l == 0.0F) continue;  // Saw no position.
    const float m_new = MaxIgnoringNan(m_all, m);
    const float a = Exp(m_all - m_new);
    const float b = Exp(m - m_new);
    l_all = std::fma(l_all, a, l * b);
    for (int d = 0; d < head_dim; ++d) out[d] = std::fma(out[d], a, o[d] * b);
    m_all = m_new;
  }
  for (int d = 0; d < head_dim; ++d) out[d] = out[d] / l_all;
}

}  // namespace ropeway::reference
