// The KV cache's element format and attention over it: the definition.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/reference.h"

namespace ropeway::kernels::reference {
namespace {

constexpr int kMaxHeadDim = 256;

float FloatAt(const std::byte* base, size_t index) {
  float x = 0;
  std::memcpy(&x, base + 4 * index, 4);
  return x;
}

// One position of one block of one KV head (KvHeadBlockBytes has the layout).
class BlockView {
 public:
  BlockView(const AttentionArgs& args, int position)
      : block_(args.kv +
               static_cast<size_t>(args.blocks[position / base::kBlockTokens * args.block_step]) *
                   args.block_stride),
        slot_(static_cast<size_t>(position % base::kBlockTokens)),
        head_dim_(static_cast<size_t>(args.head_dim)),
        type_(args.kv_type) {}

  // The numbers as stored: of q8_0, not yet multiplied by the scale.
  float k(int d) const { return Element(static_cast<size_t>(d) * base::kBlockTokens + slot_); }
  float v(int d) const {
    return Element((base::kBlockTokens + slot_) * head_dim_ + static_cast<size_t>(d));
  }
  // For q8_0 only.
  float k_scale() const { return FloatAt(block_ + 2 * base::kBlockTokens * head_dim_, slot_); }
  float v_scale() const {
    return FloatAt(block_ + 2 * base::kBlockTokens * head_dim_, base::kBlockTokens + slot_);
  }

 private:
  float Element(size_t index) const {
    uint16_t half = 0;
    switch (type_) {
      case KvType::kF16:
        std::memcpy(&half, block_ + 2 * index, 2);
        return HalfToFloat(half);
      case KvType::kQ8_0:
        return static_cast<float>(static_cast<int8_t>(block_[index]));
    }
    std::abort();
  }

  const std::byte* block_;
  size_t slot_;
  size_t head_dim_;
  KvType type_;
};

float Score(const AttentionArgs& args, const float* q, int position) {
  const BlockView block(args, position);
  float score = 0.0F;
  for (int d = 0; d < args.head_dim; ++d) score = std::fma(q[d], block.k(d), score);
  if (args.kv_type == KvType::kQ8_0) score = score * block.k_scale();
  return args.soft_cap > 0.0F ? SoftCap(score, args.soft_cap) : score;
}

// The state after some positions: the weighted sum of V, the largest score, the sum of weights.
struct Partial {
  float* o;
  float m;
  float l;
};

// Positions [begin, end) of the softmax group that begins at `group`. `first`: the first group of
// the split in which the row sees a position.
void AddGroup(const AttentionArgs& args, const float* q, int group, int begin, int end, bool first,
              Partial* partial) {
  float score[kSoftmaxTokens];
  float m_new = partial->m;
  for (int t = begin; t < end; ++t) {
    score[t - group] = Score(args, q, t);
    m_new = MaxIgnoringNan(m_new, score[t - group]);
  }
  m_new = m_new + 0.0F;  // -0 becomes +0, whichever of the two was met first.
  const float alpha = first ? 0.0F : Exp(partial->m - m_new);
  float lanes[kLanes] = {};
  for (int t = begin - group; t < end - group; ++t) {
    score[t] = Exp(score[t] - m_new);
    lanes[t % kLanes] = lanes[t % kLanes] + score[t];
  }
  partial->m = m_new;
  partial->l = std::fma(partial->l, alpha, SumLanes(lanes));
  for (int d = 0; d < args.head_dim; ++d) partial->o[d] = partial->o[d] * alpha;
  for (int t = begin; t < end; ++t) {
    const BlockView block(args, t);
    float p = score[t - group];
    if (args.kv_type == KvType::kQ8_0) p = p * block.v_scale();
    for (int d = 0; d < args.head_dim; ++d) partial->o[d] = std::fma(p, block.v(d), partial->o[d]);
  }
}

}  // namespace

void StoreKv(KvType type, const float* k, const float* v, int head_dim, int slot,
             std::byte* block) {
  const size_t v_begin = static_cast<size_t>((base::kBlockTokens + slot) * head_dim);
  switch (type) {
    case KvType::kF16:
      for (int d = 0; d < head_dim; ++d) {
        const uint16_t k_half = FloatToHalf(k[d]);
        const uint16_t v_half = FloatToHalf(v[d]);
        std::memcpy(block + static_cast<size_t>(d * base::kBlockTokens + slot) * 2, &k_half, 2);
        std::memcpy(block + v_begin * 2 + d * 2, &v_half, 2);
      }
      return;
    case KvType::kQ8_0:
      int8_t q[kMaxHeadDim];
      std::byte* scales = block + size_t{2} * base::kBlockTokens * static_cast<size_t>(head_dim);
      const float k_scale = Quantise(k, head_dim, q);
      for (int d = 0; d < head_dim; ++d)
        block[d * base::kBlockTokens + slot] = static_cast<std::byte>(q[d]);
      const float v_scale = Quantise(v, head_dim, q);
      std::memcpy(block + v_begin, q, static_cast<size_t>(head_dim));
      std::memcpy(scales + slot * 4, &k_scale, 4);
      std::memcpy(scales + (base::kBlockTokens + slot) * 4, &v_scale, 4);
      return;
  }
}

void Attention(const AttentionArgs& args, int split, float* partial) {
  const int split_begin = split * kSplitTokens;
  for (int r = 0; r < args.rows; ++r) {
    const int after = args.end > 0 ? args.end : args.start + r + 1;
    const int first = args.window > 0 ? std::max(after - args.window, 0) : 0;
    const int begin = std::max(first, split_begin);
    const int end = std::min(after, split_begin + kSplitTokens);
    for (int h = 0; h < args.group; ++h) {
      float* out =
          partial + (static_cast<int64_t>(r) * args.group + h) * PartialFloats(args.head_dim);
      std::fill(out, out + PartialFloats(args.head_dim), 0.0F);
      Partial state = {out, -std::numeric_limits<float>::infinity(), 0.0F};
      float q[kMaxHeadDim];
      const float* from = args.q + r * args.q_stride + static_cast<int64_t>(h) * args.head_dim;
      for (int d = 0; d < args.head_dim; ++d) q[d] = from[d] * args.scale;
      for (int t = begin; t < end;) {
        const int group = t / kSoftmaxTokens * kSoftmaxTokens;
        const int group_end = std::min(end, group + kSoftmaxTokens);
        AddGroup(args, q, group, t, group_end, t == begin, &state);
        t = group_end;
      }
      out[args.head_dim] = state.m;
      out[args.head_dim + 1] = state.l;
    }
  }
}

void AttentionMerge(const float* partials, int splits, int64_t split_stride, int head_dim,
                    const float* sink, float* out) {
  int first = 0;  // The first split that saw a position.
  while (first + 1 < splits && partials[first * split_stride + head_dim + 1] == 0.0F) ++first;
  partials += first * split_stride;
  std::memcpy(out, partials, static_cast<size_t>(head_dim) * sizeof(float));
  float m_all = partials[head_dim];
  float l_all = partials[head_dim + 1];
  for (int s = 1; s < splits - first; ++s) {
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
  if (sink != nullptr) {
    const float m_new = MaxIgnoringNan(m_all, *sink);
    const float a = Exp(m_all - m_new);
    l_all = std::fma(l_all, a, Exp(*sink - m_new));
    for (int d = 0; d < head_dim; ++d) out[d] = out[d] * a;
  }
  for (int d = 0; d < head_dim; ++d) out[d] = out[d] / l_all;
}

}  // namespace ropeway::kernels::reference
