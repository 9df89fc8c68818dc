// Operations on rows against the reference table, by bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gpu/test_ops.h"
#include "kernels/kernels.h"
#include "kernels/reference.h"

namespace ropeway::gpu {
namespace {

using kernels::kReferenceKernels;
using testing::Download;
using testing::Number;
using testing::Numbers;
using testing::Rng;
using testing::TestRows;
using testing::Upload;

struct Shape {
  int rows;
  int n;
  int stride;
  int odd;  // As for Number.
};

std::string NameOf(const Shape& s) {
  return "rows " + std::to_string(s.rows) + ", n " + std::to_string(s.n) + ", odd " +
         std::to_string(s.odd);
}

// Rows within and beyond a group's lanes and its columns.
const Shape kShapes[] = {{0, 64, 64, 0},     {1, 1, 1, 0},        {3, 7, 9, 200},
                         {17, 64, 64, 100},  {64, 100, 103, 20},  {3, 255, 260, 50},
                         {3, 257, 257, 0},   {17, 576, 600, 0},   {2, 1024, 1024, 0},
                         {1, 2500, 2503, 0}, {3, 1025, 1030, 1},  {1, 4096, 4096, 0},
                         {64, 16, 17, 100},  {5, 512, 1000, 1000}};

class RowsTest : public testing::OpsTest {
 protected:
  TestRows Make(int rows, int stride, int odd = 0) {
    return TestRows(gpu_.get(), rng_, rows, stride, odd);
  }

  Rng rng_{7};
};

TEST_F(RowsTest, RmsNorm) {
  for (const Shape& s : kShapes) {
    TestRows x = Make(s.rows, s.stride, s.odd);
    TestRows weight = Make(1, s.n);
    TestRows y = Make(s.rows, s.stride + 3);
    ops_->RmsNorm(x.rows(), weight.view(), s.rows, s.n, 1e-5F, y.rows());
    for (int r = 0; r < s.rows; ++r) {
      kReferenceKernels.rms_norm(x.row(r), weight.row(0), s.n, 1e-5F, y.row(r));
    }
    EXPECT_TRUE(y.Match()) << NameOf(s);
    EXPECT_TRUE(x.Match()) << NameOf(s);
    ops_->RmsNorm(x.rows(), weight.view(), s.rows, s.n, 1e-6F, x.rows());
    for (int r = 0; r < s.rows; ++r) {
      kReferenceKernels.rms_norm(x.row(r), weight.row(0), s.n, 1e-6F, x.row(r));
    }
    EXPECT_TRUE(x.Match()) << NameOf(s) << ", in place";
  }
}

TEST_F(RowsTest, LayerNorm) {
  for (const Shape& s : kShapes) {
    TestRows x = Make(s.rows, s.stride, s.odd);
    TestRows weight = Make(1, s.n);
    TestRows bias = Make(1, s.n);
    TestRows y = Make(s.rows, s.stride + 1);
    ops_->LayerNorm(x.rows(), weight.view(), bias.view(), s.rows, s.n, 1e-12F, y.rows());
    for (int r = 0; r < s.rows; ++r) {
      kReferenceKernels.layer_norm(x.row(r), weight.row(0), bias.row(0), s.n, 1e-12F, y.row(r));
    }
    EXPECT_TRUE(y.Match()) << NameOf(s);
    ops_->LayerNorm(x.rows(), weight.view(), bias.view(), s.rows, s.n, 1e-5F, x.rows());
    for (int r = 0; r < s.rows; ++r) {
      kReferenceKernels.layer_norm(x.row(r), weight.row(0), bias.row(0), s.n, 1e-5F, x.row(r));
    }
    EXPECT_TRUE(x.Match()) << NameOf(s) << ", in place";
  }
}

TEST_F(RowsTest, Rope) {
  struct {
    int rows, heads, head_dim, rope_dim;
  } const shapes[] = {{0, 2, 64, 64},   {1, 1, 16, 16},  {3, 9, 64, 64},
                      {17, 3, 128, 96}, {64, 5, 80, 20}, {2, 32, 256, 256}};
  for (const auto& s : shapes) {
    for (const bool halves : {false, true}) {
      TestRows x = Make(s.rows, s.heads * s.head_dim + 7, 500);
      TestRows cos_sin = Make(s.rows, s.rope_dim + 2, 200);
      ops_->Rope(x.rows(), s.rows, s.heads, s.head_dim, s.rope_dim, halves, cos_sin.rows());
      const auto rope = halves ? kReferenceKernels.rope_halves : kReferenceKernels.rope;
      for (int r = 0; r < s.rows; ++r) {
        rope(x.row(r), s.heads, s.head_dim, s.rope_dim, cos_sin.row(r));
      }
      EXPECT_TRUE(x.Match()) << "rows " << s.rows << ", head_dim " << s.head_dim << halves;
    }
  }
}

TEST_F(RowsTest, Activate) {
  for (const Shape& s : kShapes) {
    for (int which = 0; which < 5; ++which) {
      const auto activation = static_cast<Activation>(which);
      TestRows gate = Make(s.rows, s.stride, s.odd);
      TestRows up = Make(s.rows, s.stride + 5, s.odd);
      ops_->Activate(activation, gate.rows(), up.rows(), s.rows, s.n);
      for (int r = 0; r < s.rows; ++r) {
        float* g = gate.row(r);
        const float* u = up.row(r);
        switch (activation) {
          case Activation::kSwiGlu:
            kReferenceKernels.swiglu(g, u, s.n, g);
            break;
          case Activation::kGeGlu:
            kReferenceKernels.geglu(g, u, s.n, g);
            break;
          case Activation::kSwiGluClamped:
            kReferenceKernels.swiglu_clamped(g, u, s.n, g);
            break;
          case Activation::kGelu:
            kReferenceKernels.gelu(u, s.n, g);
            break;
          case Activation::kExactGelu:
            kReferenceKernels.exact_gelu(u, s.n, g);
            break;
        }
      }
      EXPECT_TRUE(gate.Match()) << NameOf(s) << ", activation " << which;
    }
  }
}

TEST_F(RowsTest, AddAndScale) {
  for (const Shape& s : kShapes) {
    TestRows x = Make(s.rows, s.stride, s.odd);
    TestRows y = Make(s.rows, s.stride + 1, s.odd);
    ops_->Add(x.rows(), y.rows(), s.rows, s.n);
    for (int r = 0; r < s.rows; ++r) kReferenceKernels.add(x.row(r), y.row(r), s.n);
    EXPECT_TRUE(x.Match()) << NameOf(s);
    ops_->Scale(x.rows(), 0.3F, s.rows, s.n);
    for (int r = 0; r < s.rows; ++r) kReferenceKernels.scale(x.row(r), 0.3F, s.n);
    EXPECT_TRUE(x.Match()) << NameOf(s);
    EXPECT_TRUE(y.Match()) << NameOf(s);
  }
}

TEST_F(RowsTest, Gather) {
  for (const Shape& s : kShapes) {
    constexpr int kFrom = 9;
    TestRows x = Make(kFrom, s.stride, s.odd);
    TestRows y = Make(s.rows, s.stride + 1);
    std::vector<int32_t> ids = {-1};
    for (int r = 0; r < s.rows; ++r) ids.push_back(static_cast<int32_t>(rng_() % kFrom));
    const auto device_ids = Upload(gpu_.get(), ids);
    ops_->Gather(x.rows(), View{device_ids.get(), 4}, s.rows, s.n, y.rows());
    for (int r = 0; r < s.rows; ++r) {
      std::copy_n(x.row(ids[static_cast<size_t>(r) + 1]), s.n, y.row(r));
    }
    EXPECT_TRUE(y.Match()) << NameOf(s);
  }
}

TEST_F(RowsTest, SumScaled) {
  for (const Shape& s : kShapes) {
    for (const int used : {1, 2, 8}) {
      for (const bool with_last : {false, true}) {
        TestRows x = Make(s.rows * used, s.stride, s.odd);
        TestRows weights = Make(s.rows, used, s.odd);
        TestRows last = Make(s.rows, s.stride + 2, s.odd);
        TestRows last_weights = Make(s.rows, 1);
        TestRows y = Make(s.rows, s.stride + 1);
        ops_->SumScaled(x.rows(), weights.view(), used, with_last ? last.rows() : Rows{},
                        with_last ? last_weights.view() : View{}, s.rows, s.n, y.rows());
        for (int r = 0; r < s.rows; ++r) {
          std::fill_n(y.row(r), s.n, 0.0F);
          for (int i = 0; i < used; ++i) {
            kReferenceKernels.add_scaled(y.row(r), x.row(r * used + i), weights.row(r)[i], s.n);
          }
          if (with_last) {
            kReferenceKernels.add_scaled(y.row(r), last.row(r), *last_weights.row(r), s.n);
          }
        }
        EXPECT_TRUE(y.Match()) << NameOf(s) << ", used " << used;
      }
    }
  }
}

TEST_F(RowsTest, Sigmoid) {
  for (const int rows : {0, 1, 3, 17, 64, 65, 300}) {
    for (const int stride : {1, 16}) {
      TestRows x = Make(rows, stride, 300);
      ops_->Sigmoid(x.rows(), rows);
      for (int r = 0; r < rows; ++r) {
        // As executor::ExpertLayer has it.
        const float minus = -*x.row(r);
        float e = 0.0F;
        kReferenceKernels.exp_weights(&minus, 1, 0.0F, 1.0F,
                                      -std::numeric_limits<float>::infinity(), &e);
        *x.row(r) = 1.0F / (1.0F + e);
      }
      EXPECT_TRUE(x.Match()) << rows;
    }
  }
}

TEST_F(RowsTest, Pack) {
  struct {
    int rows, k, odd;
  } const shapes[] = {{0, 64, 0},   {1, 32, 0},    {3, 96, 30},  {17, 256, 5},
                      {64, 288, 1}, {5, 1536, 10}, {9, 64, 500}, {1, 4096, 0}};
  for (const auto& s : shapes) {
    TestRows x = Make(s.rows, s.k + 3, s.odd);
    for (int r = 0; r < s.rows; ++r) {  // Blocks of dust and of nothing but it, and ties.
      float* block = x.row(r) + static_cast<size_t>(rng_()) % static_cast<size_t>(s.k / 32) * 32;
      const float factor = std::exp2(-static_cast<float>(rng_() % 110));
      for (int i = 0; i < 32; ++i) block[i] = factor * static_cast<float>(i % 9 - 4);
    }
    x.Send();
    const size_t blocks = static_cast<size_t>(s.rows * s.k / 32);
    // One block of guards before and behind.
    std::vector<int8_t> levels((blocks + 2) * 32, 99);
    std::vector<float> scales(blocks + 2, 99.0F);
    std::vector<int32_t> sums((blocks + 2) * 2, 99);
    const auto device_levels = Upload(gpu_.get(), levels);
    const auto device_scales = Upload(gpu_.get(), scales);
    const auto device_sums = Upload(gpu_.get(), sums);
    ops_->Pack(x.rows(), s.rows, s.k,
               {{device_levels.get(), 32}, {device_scales.get(), 4}, {device_sums.get(), 8}});
    for (size_t b = 0; b < blocks; ++b) {
      const int block = static_cast<int>(b);
      int8_t* q = levels.data() + (b + 1) * 32;
      scales[b + 1] =
          kernels::reference::Quantise(x.row(block / (s.k / 32)) + block % (s.k / 32) * 32, 32, q);
      for (size_t part = 0; part < 2; ++part) {
        int32_t* sum = &sums[(b + 1) * 2 + part];
        *sum = 0;
        for (size_t i = 0; i < 16; ++i) *sum += q[part * 16 + i];
      }
    }
    EXPECT_EQ(levels, Download<int8_t>(gpu_.get(), {device_levels.get(), 0}, levels.size()));
    EXPECT_TRUE(testing::AllSameBits(
        scales, Download<float>(gpu_.get(), {device_scales.get(), 0}, scales.size())));
    EXPECT_EQ(sums, Download<int32_t>(gpu_.get(), {device_sums.get(), 0}, sums.size()));
  }
}

// As executor::ChooseExperts has it, which this room cannot call.
void ChooseExperts(const float* logits, int count, int used, bool normalized, int32_t* ids,
                   float* weights) {
  std::vector<float> scratch(logits, logits + count);
  const auto of = [&scratch](int32_t id) -> float& { return scratch[static_cast<size_t>(id)]; };
  for (int32_t i = 0; i < used; ++i) {
    int32_t best = kReferenceKernels.argmax(scratch.data(), count);
    if (std::isnan(of(best))) {
      best = 0;
      while (std::find(ids, ids + i, best) != ids + i) ++best;
    }
    ids[i] = best;
    of(best) = std::numeric_limits<float>::quiet_NaN();
  }
  const float largest = logits[ids[0]];
  std::sort(ids, ids + used);
  kReferenceKernels.exp_weights(logits, count, largest, 1.0F,
                                -std::numeric_limits<float>::infinity(), scratch.data());
  float sum = 0.0F;
  if (normalized) {
    for (int32_t i = 0; i < used; ++i) sum = sum + of(ids[i]);
  } else {
    for (int32_t e = 0; e < count; ++e) sum = sum + of(e);
  }
  for (int32_t i = 0; i < used; ++i) weights[i] = of(ids[i]) / sum;
}

TEST_F(RowsTest, ChooseExperts) {
  struct {
    int rows, count, used;
    bool ties;
    int odd;
  } const shapes[] = {{0, 8, 2, false, 0},     {1, 1, 1, false, 0},     {17, 8, 2, false, 0},
                      {64, 60, 4, false, 50},  {40, 64, 8, true, 0},    {33, 65, 8, true, 300},
                      {17, 128, 8, false, 20}, {64, 8, 4, true, 800},   {9, 300, 10, true, 900},
                      {20, 4, 4, false, 1000}, {64, 512, 10, false, 0}, {3, 100, 100, true, 500}};
  for (const auto& s : shapes) {
    for (const bool normalized : {false, true}) {
      TestRows logits = Make(s.rows, s.count + 3, s.odd);
      for (int r = 0; r < s.rows; ++r) {
        float* x = logits.row(r);
        if (s.ties) {
          for (int e = 0; e < s.count; ++e) x[e] = std::round(x[e]);
        }
        if (s.odd > 0 && r % 5 == 0) {  // Few numbers, or none.
          for (int e = 0; e < s.count; ++e) {
            if (e != r) x[e] = std::numeric_limits<float>::quiet_NaN();
          }
        }
      }
      logits.Send();
      const size_t uses = static_cast<size_t>(s.rows * s.used);
      std::vector<int32_t> ids(uses + 2, 99);
      std::vector<float> weights(uses + 2, 99.0F);
      const auto device_ids = Upload(gpu_.get(), ids);
      const auto device_weights = Upload(gpu_.get(), weights);
      ops_->ChooseExperts(logits.rows(), s.rows, s.count, s.used, normalized, {device_ids.get(), 4},
                          {device_weights.get(), 4});
      for (int r = 0; r < s.rows; ++r) {
        ChooseExperts(logits.row(r), s.count, s.used, normalized, ids.data() + 1 + r * s.used,
                      weights.data() + 1 + r * s.used);
      }
      EXPECT_EQ(ids, Download<int32_t>(gpu_.get(), {device_ids.get(), 0}, ids.size()))
          << "count " << s.count << ", used " << s.used;
      EXPECT_TRUE(testing::AllSameBits(
          weights, Download<float>(gpu_.get(), {device_weights.get(), 0}, weights.size())))
          << "count " << s.count << ", used " << s.used;
    }
  }
}

}  // namespace
}  // namespace ropeway::gpu
