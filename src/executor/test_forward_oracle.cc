#include "executor/test_forward_oracle.h"

#include <cmath>
#include <numeric>

namespace ropeway::executor {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

Vector WeightRow(const kernels::Matrix& m, int row) {
  std::vector<float> floats(static_cast<size_t>(m.k));
  kernels::UnpackRow(m, row, floats.data());
  return {floats.begin(), floats.end()};
}

Rows OracleWeights(const kernels::Matrix& m) {
  Rows rows;
  for (int row = 0; row < m.n; ++row) rows.push_back(WeightRow(m, row));
  return rows;
}

Vector Times(const Rows& m, const Vector& x) {
  Vector y;
  for (const Vector& row : m) {
    y.push_back(std::inner_product(row.begin(), row.end(), x.begin(), 0.0));
  }
  return y;
}

Vector Norm(const Vector& x, const float* weight, double eps) {
  const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * double{weight[i]};
  return y;
}

void Rotate(Vector* heads, size_t head_dim, size_t rope_dim, const float* cos_sin) {
  for (size_t begin = 0; begin < heads->size(); begin += head_dim) {
    for (size_t i = 0; i < rope_dim / 2; ++i) {
      const double c = cos_sin[i];
      const double s = cos_sin[rope_dim / 2 + i];
      double& a = (*heads)[begin + 2 * i];
      double& b = (*heads)[begin + 2 * i + 1];
      const double rotated = a * c - b * s;
      b = a * s + b * c;
      a = rotated;
    }
  }
}

// One query head over all keys and values so far.
Vector Attend(const double* q, const Rows& keys, const Rows& values, size_t offset, size_t dim) {
  Vector p;
  for (const Vector& key : keys) {
    double score = 0;
    for (size_t d = 0; d < dim; ++d) score += q[d] * key[offset + d];
    p.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  Vector out(dim);
  for (size_t t = 0; t < p.size(); ++t) {
    for (size_t d = 0; d < dim; ++d) out[d] += p[t] / sum * values[t][offset + d];
  }
  return out;
}

struct Layer {
  explicit Layer(const model::LayerWeights& l)
      : q(OracleWeights(l.q)),
        k(OracleWeights(l.k)),
        v(OracleWeights(l.v)),
        o(OracleWeights(l.o)),
        gate(OracleWeights(l.gate)),
        up(OracleWeights(l.up)),
        down(OracleWeights(l.down)),
        attention_norm(l.attention_norm),
        ffn_norm(l.ffn_norm) {}

  // x after the layer, at the position behind the keys so far.
  void Apply(const model::ModelConfig& config, const float* cos_sin, Vector* x) {
    const auto dim = static_cast<size_t>(config.head_dim);
    const auto rope_dim = static_cast<size_t>(config.rope.dim);
    const auto group = static_cast<size_t>(config.num_heads / config.num_kv_heads);
    const Vector in = Norm(*x, attention_norm, double{config.norm_eps});
    Vector queries = Times(q, in);
    Vector key = Times(k, in);
    Rotate(&queries, dim, rope_dim, cos_sin);
    Rotate(&key, dim, rope_dim, cos_sin);
    keys.push_back(key);
    values.push_back(Times(v, in));
    Vector heads;
    for (size_t h = 0; h < static_cast<size_t>(config.num_heads); ++h) {
      const Vector head = Attend(queries.data() + h * dim, keys, values, h / group * dim, dim);
      heads.insert(heads.end(), head.begin(), head.end());
    }
    const Vector attended = Times(o, heads);
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] += attended[i];
    const Vector ffn_in = Norm(*x, ffn_norm, double{config.norm_eps});
    Vector hidden = Times(gate, ffn_in);
    const Vector ups = Times(up, ffn_in);
    for (size_t i = 0; i < ups.size(); ++i) {
      hidden[i] = hidden[i] / (1 + std::exp(-hidden[i])) * ups[i];
    }
    const Vector out = Times(down, hidden);
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] += out[i];
  }

  Rows q, k, v, o, gate, up, down;
  const float* attention_norm;
  const float* ffn_norm;
  Rows keys, values;
};

}  // namespace

std::vector<std::vector<double>> OracleLogits(const model::Model& model,
                                              const std::vector<TokenId>& tokens) {
  const model::ModelConfig& config = model.config();
  std::vector<Layer> layers(model.layers().begin(), model.layers().end());
  const Rows output = OracleWeights(model.output());
  Rows logits;
  for (size_t position = 0; position < tokens.size(); ++position) {
    Vector x = WeightRow(model.token_embedding(), tokens[position]);
    for (Layer& layer : layers) {
      layer.Apply(config, model.rope_row(static_cast<int32_t>(position)), &x);
    }
    logits.push_back(Times(output, Norm(x, model.output_norm(), double{config.norm_eps})));
  }
  return logits;
}

double CenteredCosine(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace ropeway::executor
