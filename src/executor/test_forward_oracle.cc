#include "executor/test_forward_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace ropeway::executor {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

Vector WeightRow(const kernels::Matrix& m, int row) {
  std::vector<float> floats(static_cast<size_t>(m.k));
  kernels::UnpackRow(m, row, floats.data());
  return {floats.begin(), floats.end()};
}

// None of a matrix that the model does not have.
Rows OracleWeights(const kernels::Matrix& m) {
  Rows rows;
  if (m.panels == nullptr) return rows;
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

// RMSNorm, or LayerNorm where the model has it; x itself where there is no weight.
Vector Norm(const model::ModelConfig& config, const Vector& x, const float* weight,
            const float* bias) {
  if (weight == nullptr) return x;
  const auto n = static_cast<double>(x.size());
  const bool layer_norm = config.norm == model::NormKind::kLayer && bias != nullptr;
  const double mean = layer_norm ? std::accumulate(x.begin(), x.end(), 0.0) / n : 0.0;
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  const double scale = 1 / std::sqrt(squares / n + double{config.norm_eps});
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) * scale * double{weight[i]} + (layer_norm ? double{bias[i]} : 0.0);
  }
  return y;
}

Vector Add(Vector x, const float* bias) {
  for (size_t i = 0; i < x.size() && bias != nullptr; ++i) x[i] += double{bias[i]};
  return x;
}

// As the KV cache keeps them, in f16.
Vector Cached(Vector x) {
  for (double& value : x) {
    value = double{kernels::HalfToFloat(kernels::FloatToHalf(static_cast<float>(value)))};
  }
  return x;
}

void Rotate(const model::ModelConfig& config, const float* cos_sin, Vector* heads) {
  if (config.position == model::PositionKind::kLearned) return;
  const auto pairs = static_cast<size_t>(config.rope.dim / 2);
  const bool halves = config.position == model::PositionKind::kRopeNeox;
  for (size_t begin = 0; begin < heads->size(); begin += static_cast<size_t>(config.head_dim)) {
    for (size_t i = 0; i < pairs; ++i) {
      const double c = cos_sin[i];
      const double s = cos_sin[pairs + i];
      double& a = (*heads)[begin + (halves ? i : 2 * i)];
      double& b = (*heads)[begin + (halves ? pairs + i : 2 * i + 1)];
      const double rotated = a * c - b * s;
      b = a * s + b * c;
      a = rotated;
    }
  }
}

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double Activated(model::Activation activation, double gate, double up) {
  switch (activation) {
    case model::Activation::kSwiGlu:
      return gate * Sigmoid(gate) * up;
    case model::Activation::kGeGlu:
      return Gelu(gate) * up;
    case model::Activation::kGelu:
      return Gelu(up);
    case model::Activation::kExactGelu:
      return up * std::erfc(-up / std::sqrt(2.0)) / 2;
    case model::Activation::kSwiGluClamped:
      gate = std::min(gate, 7.0);
      return (std::clamp(up, -7.0, 7.0) + 1) * gate * Sigmoid(1.702 * gate);
  }
  return 0;
}

struct Network {
  explicit Network(const FfnWeights& w)
      : weights(&w),
        gate(OracleWeights(w.gate)),
        up(OracleWeights(w.up)),
        down(OracleWeights(w.down)) {}

  Vector Apply(model::Activation activation, const Vector& in) const {
    Vector hidden = Add(Times(up, in), weights->up_bias);
    const Vector gates = gate.empty() ? hidden : Add(Times(gate, in), weights->gate_bias);
    for (size_t i = 0; i < hidden.size(); ++i) {
      hidden[i] = Activated(activation, gates[i], hidden[i]);
    }
    return Add(Times(down, hidden), weights->down_bias);
  }

  const FfnWeights* weights;
  Rows gate, up, down;
};

struct Layer {
  Layer(const model::ModelConfig& c, const LayerWeights& l, int number)
      : config(c),
        weights(l),
        index(number),
        q(OracleWeights(l.q)),
        k(OracleWeights(l.k)),
        v(OracleWeights(l.v)),
        o(OracleWeights(l.o)),
        ffn(l),
        router(OracleWeights(l.router)),
        shared_gate(OracleWeights(l.shared_gate)),
        shared(l.shared) {
    for (const FfnWeights& expert : l.experts) experts.emplace_back(expert);
  }

  // One query head over the keys and values that it sees.
  Vector Attend(const double* query, size_t head) const {
    const auto dim = static_cast<size_t>(config.head_dim);
    const auto group = static_cast<size_t>(config.num_heads / config.num_kv_heads);
    const size_t offset = head / group * dim;
    const auto window = static_cast<size_t>(config.window(index));
    const size_t first = window > 0 && keys.size() > window ? keys.size() - window : 0;
    Vector p;
    double sum = weights.sinks != nullptr ? std::exp(double{weights.sinks[head]}) : 0.0;
    for (size_t t = first; t < keys.size(); ++t) {
      double score = 0;
      for (size_t d = 0; d < dim; ++d) score += query[d] * keys[t][offset + d];
      score *= double{config.attention_scale};
      const double cap = config.attention_soft_cap;
      if (cap > 0) score = cap * std::tanh(score / cap);
      p.push_back(std::exp(score));
      sum += p.back();
    }
    Vector out(dim);
    for (size_t t = first; t < keys.size(); ++t) {
      for (size_t d = 0; d < dim; ++d) out[d] += p[t - first] / sum * values[t][offset + d];
    }
    return out;
  }

  void PrepareHeads(const float* norm, const float* cos_sin, Vector* heads) const {
    const auto dim = static_cast<int64_t>(config.head_dim);
    for (auto at = heads->begin(); norm != nullptr && at != heads->end(); at += dim) {
      const Vector head = Norm(config, Vector(at, at + dim), norm, nullptr);
      std::copy(head.begin(), head.end(), at);
    }
    Rotate(config, cos_sin, heads);
  }

  // What the experts add for this row.
  Vector Mix(const Vector& in) const {
    const Vector logits = Add(Times(router, in), weights.router_bias);
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    const auto used = static_cast<size_t>(config.experts.used);
    double sum = 0;
    for (size_t i = 0; i < (config.experts.normalized ? used : logits.size()); ++i) {
      sum += std::exp(logits[order[i]]);
    }
    Vector out(in.size());
    const auto add = [&](const Network& expert, double weight) {
      const Vector its = expert.Apply(config.activation, in);
      for (size_t i = 0; i < out.size(); ++i) out[i] += weight * its[i];
    };
    for (size_t i = 0; i < used; ++i) add(experts[order[i]], std::exp(logits[order[i]]) / sum);
    if (!shared_gate.empty()) add(shared, Sigmoid(Times(shared_gate, in)[0]));
    return out;
  }

  void AddTo(Vector* x, Vector y, const float* post_norm) const {
    if (post_norm != nullptr) y = Norm(config, y, post_norm, nullptr);
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] += y[i];
  }

  // Adds the key and the value of the next position.
  void See(const float* cos_sin, const Vector& x) {
    const Vector in = Norm(config, x, weights.attention_norm, weights.attention_norm_bias);
    Vector key = Add(Times(k, in), weights.k_bias);
    PrepareHeads(weights.k_norm, cos_sin, &key);
    keys.push_back(Cached(key));
    values.push_back(Cached(Add(Times(v, in), weights.v_bias)));
  }

  // x after the layer, given the keys so far.
  void Apply(const float* cos_sin, Vector* x) const {
    const Vector in = Norm(config, *x, weights.attention_norm, weights.attention_norm_bias);
    Vector queries = Add(Times(q, in), weights.q_bias);
    PrepareHeads(weights.q_norm, cos_sin, &queries);
    Vector heads;
    for (size_t h = 0; h < static_cast<size_t>(config.num_heads); ++h) {
      const Vector head = Attend(queries.data() + h * static_cast<size_t>(config.head_dim), h);
      heads.insert(heads.end(), head.begin(), head.end());
    }
    AddTo(x, Add(Times(o, heads), weights.o_bias), weights.attention_post_norm);
    *x = Norm(config, *x, weights.attention_out_norm, weights.attention_out_norm_bias);
    const Vector ffn_in = Norm(config, *x, weights.ffn_norm, weights.ffn_norm_bias);
    AddTo(x, experts.empty() ? ffn.Apply(config.activation, ffn_in) : Mix(ffn_in),
          weights.ffn_post_norm);
    *x = Norm(config, *x, weights.ffn_out_norm, weights.ffn_out_norm_bias);
  }

  const model::ModelConfig& config;
  const LayerWeights& weights;
  int index;
  Rows q, k, v, o;
  Network ffn;
  Rows router, shared_gate;
  Network shared;
  std::vector<Network> experts;
  Rows keys, values;
};

}  // namespace

std::vector<std::vector<double>> OracleHidden(const Weights& weights,
                                              const std::vector<TokenId>& tokens) {
  const model::ModelConfig& config = weights.config();
  std::vector<Layer> layers;
  for (const LayerWeights& layer : weights.layers()) {
    layers.emplace_back(config, layer, static_cast<int>(layers.size()));
  }
  Rows rows;
  const bool is_long = static_cast<int32_t>(tokens.size()) > config.long_rope_above();
  for (size_t position = 0; position < tokens.size(); ++position) {
    Vector x = WeightRow(weights.token_embedding(), tokens[position]);
    for (double& value : x) value *= double{config.embedding_scale};
    x = Add(x, weights.type_embedding());
    if (config.position == model::PositionKind::kLearned) {
      const Vector at = WeightRow(weights.position_embedding(), static_cast<int>(position));
      for (size_t i = 0; i < x.size(); ++i) x[i] += at[i];
    }
    rows.push_back(Norm(config, x, weights.embedding_norm(), weights.embedding_norm_bias()));
  }
  for (Layer& layer : layers) {
    const auto rope = [&](size_t position) {
      return weights.model()->rope_row(layer.index, static_cast<int32_t>(position), is_long);
    };
    // In an encoder every row sees all.
    for (size_t i = 0; !config.causal && i < rows.size(); ++i) layer.See(rope(i), rows[i]);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (config.causal) layer.See(rope(i), rows[i]);
      layer.Apply(rope(i), &rows[i]);
    }
  }
  for (Vector& x : rows) x = Norm(config, x, weights.output_norm(), weights.output_norm_bias());
  return rows;
}

std::vector<std::vector<double>> OracleLogits(const Weights& weights,
                                              const std::vector<TokenId>& tokens) {
  const Rows output = OracleWeights(weights.output());
  const double cap = weights.config().logit_soft_cap;
  Rows logits;
  for (const Vector& hidden : OracleHidden(weights, tokens)) {
    Vector row = Times(output, hidden);
    for (double& logit : row) logit = cap > 0 ? cap * std::tanh(logit / cap) : logit;
    logits.push_back(std::move(row));
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
