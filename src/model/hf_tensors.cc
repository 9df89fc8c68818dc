#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "model/hf_folder.h"

namespace ropeway::model {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

// Elements of a vector, at most: it is read into memory.
constexpr uint64_t kMaxVector = uint64_t{1} << 24;

// Names without their prefix and without ".weight" or ".bias", and those in GGUF.
constexpr auto kTopNames =
    std::to_array<NamePair>({{"embed_tokens", "token_embd"},
                             {"norm", "output_norm"},
                             {"lm_head", "output"},
                             {"wte", "token_embd"},
                             {"wpe", "position_embd"},
                             {"ln_f", "output_norm"},
                             {"embeddings.word_embeddings", "token_embd"},
                             {"embeddings.position_embeddings", "position_embd"},
                             {"embeddings.token_type_embeddings", "token_types"},
                             {"embeddings.LayerNorm", "token_embd_norm"}});
constexpr auto kLayerNames =
    std::to_array<NamePair>({{"input_layernorm", "attn_norm"},
                             {"self_attn.q_proj", "attn_q"},
                             {"self_attn.k_proj", "attn_k"},
                             {"self_attn.v_proj", "attn_v"},
                             {"self_attn.o_proj", "attn_output"},
                             {"self_attn.qkv_proj", "attn_qkv"},
                             {"self_attn.q_norm", "attn_q_norm"},
                             {"self_attn.k_norm", "attn_k_norm"},
                             {"self_attn.sinks", "attn_sinks"},
                             {"post_attention_layernorm", "ffn_norm"},
                             {"pre_feedforward_layernorm", "ffn_norm"},
                             {"post_feedforward_layernorm", "post_ffw_norm"},
                             {"mlp.gate_proj", "ffn_gate"},
                             {"mlp.up_proj", "ffn_up"},
                             {"mlp.down_proj", "ffn_down"},
                             {"mlp.gate_up_proj", "ffn_up"},  // Phi-3 keeps both in one.
                             {"mlp.gate", "ffn_gate_inp"},
                             {"mlp.router", "ffn_gate_inp"},
                             {"block_sparse_moe.gate", "ffn_gate_inp"},
                             {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                             {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                             {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
                             {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                             {"ln_1", "attn_norm"},
                             {"ln_2", "ffn_norm"},
                             {"attn.c_attn", "attn_qkv"},
                             {"attn.c_proj", "attn_output"},
                             {"mlp.c_fc", "ffn_up"},
                             {"mlp.c_proj", "ffn_down"},
                             {"attention.self.query", "attn_q"},
                             {"attention.self.key", "attn_k"},
                             {"attention.self.value", "attn_v"},
                             {"attention.output.dense", "attn_output"},
                             {"attention.output.LayerNorm", "attn_output_norm"},
                             {"intermediate.dense", "ffn_up"},
                             {"output.dense", "ffn_down"},
                             {"output.LayerNorm", "layer_output_norm"}});
// The tensors of one expert: their names follow its number.
constexpr auto kExpertNames = std::to_array<NamePair>({{"gate_proj", "ffn_gate_exps"},
                                                       {"up_proj", "ffn_up_exps"},
                                                       {"down_proj", "ffn_down_exps"},
                                                       {"w1", "ffn_gate_exps"},
                                                       {"w3", "ffn_up_exps"},
                                                       {"w2", "ffn_down_exps"}});

template <size_t kCount>
std::string_view NameIn(const std::array<NamePair, kCount>& table, std::string_view name) {
  const auto* at = std::ranges::find(table, name, &NamePair::first);
  return at == table.end() ? std::string_view() : at->second;
}

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// Takes "17." off.
std::optional<uint32_t> TakeIndex(std::string_view* text) {
  uint32_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || rest == end || *rest != '.') return std::nullopt;
  text->remove_prefix(static_cast<size_t>(rest - text->data()) + 1);
  return number;
}

std::optional<uint32_t> FloatTypeOf(const std::string& dtype) {
  if (dtype == "F32") return ggml_type::kF32;
  if (dtype == "F16") return ggml_type::kF16;
  if (dtype == "BF16") return ggml_type::kBf16;
  return std::nullopt;
}

// Kept as F32 in GGUF, where routing and positions are exact.
bool IsAlwaysF32(std::string_view name) {
  return !name.ends_with(".weight") || name.ends_with("ffn_gate_inp.weight") ||
         name.ends_with("ffn_gate_inp_shexp.weight") || name == "position_embd.weight" ||
         name == "token_types.weight";
}

class FolderTensors {
 public:
  FolderTensors(const HfModel& model, GgufFile::Builder* builder)
      : model_(model), arch_(*model.architecture), out_(*builder), bytes_(*builder->bytes()) {}

  Status Add(const std::vector<HfTensor>& tensors);

 private:
  bool Is(std::string_view gguf) const { return arch_.gguf == gguf; }
  // The name without what models put before it; empty: the tensor is not used.
  std::string_view Strip(std::string_view name) const;
  Status AddOne(std::string_view stripped, const HfTensor& t);
  Status AddOfLayer(uint32_t layer, std::string_view name, const HfTensor& t);
  Status AddNamed(const std::string& prefix, std::string_view gguf, std::string_view ending,
                  bool transposed, const HfTensor& t);
  Status AddVector(const std::string& name, const HfTensor& t);
  Status AddMatrix(const std::string& name, bool transposed, const HfTensor& t);
  Status KeepExpert(const std::string& prefix, std::string_view name, const HfTensor& t);
  Status AddExperts();
  Status AddFused(const std::string& prefix, std::string_view name, const HfTensor& t);
  Status AddFusedMatrix(const std::string& name, uint64_t part, uint64_t parts, const HfTensor& t);
  Status AddFusedBias(const std::string& name, uint64_t part, uint64_t parts, const HfTensor& t);
  Status AddMxfp4(const std::string& name, uint64_t part, uint64_t parts, const HfTensor& blocks,
                  const HfTensor& scales);
  void AddFactors(const char* name, const std::vector<float>& factors, const char* field);

  // The type of a tensor that is a float's; nullopt after *status was set.
  std::optional<uint32_t> TypeOf(const HfTensor& t, Status* status) const;
  Status Error(const HfTensor& t, const std::string& what,
               StatusCode code = StatusCode::kDataLoss) const {
    return out_.Error(code, TensorField(t.tensor.name), what);
  }
  Status ShapeError(const HfTensor& t, const std::string& expected) const {
    return Error(t, fmt::format("its shape is [{}]; expected {}", fmt::join(t.tensor.shape, ", "),
                                expected));
  }
  static std::string FieldOf(const HfTensor& t) { return TensorField(t.tensor.name); }

  const HfModel& model_;
  const HfArchitecture& arch_;
  GgufFile::Builder& out_;
  ModelBytes& bytes_;
  std::map<std::string_view, const HfTensor*> by_name_;  // Stripped.
  // Each expert's tensor, by the name of the tensor of all experts.
  std::map<std::string, std::vector<const HfTensor*>> experts_;
};

std::string_view FolderTensors::Strip(std::string_view name) const {
  if (std::string_view(arch_.name).ends_with("ForConditionalGeneration")) {
    for (const char* of_images : {"vision_tower.", "multi_modal_projector."}) {
      if (name.find(of_images) != name.npos) return {};
    }
    TakePrefix(&name, "model.language_model.") || TakePrefix(&name, "language_model.");
  }
  for (const char* unused : {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"}) {
    if (name.ends_with(unused)) return {};
  }
  if (Is("bert")) {
    TakePrefix(&name, "bert.");
    // What predicts words and sentences.
    for (const char* unused : {"pooler.", "cls.", "embeddings.position_ids"}) {
      if (name.starts_with(unused)) return {};
    }
    return name;
  }
  TakePrefix(&name, "model.") || TakePrefix(&name, "transformer.");
  if (name == "lm_head.weight" && model_.tied == true) return {};
  return name;
}

Status FolderTensors::Add(const std::vector<HfTensor>& tensors) {
  for (const HfTensor& t : tensors) {
    const std::string_view name = Strip(t.tensor.name);
    if (name.empty()) continue;
    if (t.tensor.bytes == 0) return Error(t, "has no elements");
    if (!by_name_.emplace(name, &t).second) return Error(t, "the name occurs twice");
  }
  for (const auto& [name, t] : by_name_) {
    if (Status status = AddOne(name, *t); !status.ok()) return status;
  }
  if (Status status = AddExperts(); !status.ok()) return status;
  if (model_.tied == false && by_name_.count("lm_head.weight") == 0) {
    return out_.Error(StatusCode::kDataLoss, TensorField("lm_head.weight"),
                      "the tensor is missing, but config.json \"tie_word_embeddings\" is false");
  }
  AddFactors("rope_freqs.weight", model_.rope_freqs, "rope_scaling");
  AddFactors("rope_factors_long.weight", model_.rope_long, "long_factor");
  AddFactors("rope_factors_short.weight", model_.rope_short, "short_factor");
  return {};
}

void FolderTensors::AddFactors(const char* name, const std::vector<float>& factors,
                               const char* field) {
  if (factors.empty()) return;
  const uint64_t begin = bytes_.AddMemory(
      {reinterpret_cast<const char*>(factors.data()), factors.size() * sizeof(float)});
  out_.AddTensor(name, {factors.size()}, ggml_type::kF32, begin, HfField("config.json", field));
}

Status FolderTensors::AddOne(std::string_view stripped, const HfTensor& t) {
  std::string_view name = stripped;
  if (TakePrefix(&name, "layers.") || TakePrefix(&name, "h.") ||
      TakePrefix(&name, "encoder.layer.")) {
    const std::optional<uint32_t> layer = TakeIndex(&name);
    if (layer && *layer < model_.layers) return AddOfLayer(*layer, name, t);
    return Error(t,
                 fmt::format("its layer does not exist: config.json has {} layers", model_.layers));
  }
  const size_t dot = name.rfind('.');
  const std::string_view ending = dot == name.npos ? "" : name.substr(dot);
  return AddNamed("", NameIn(kTopNames, name.substr(0, dot)), ending, false, t);
}

Status FolderTensors::AddOfLayer(uint32_t layer, std::string_view name, const HfTensor& t) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  if (TakePrefix(&name, "block_sparse_moe.experts.") || TakePrefix(&name, "mlp.experts.")) {
    return KeepExpert(prefix, name, t);
  }
  if (name == "self_attn.sinks") return AddNamed(prefix, "attn_sinks", ".weight", false, t);
  const size_t dot = name.rfind('.');
  const std::string_view ending = dot == name.npos ? "" : name.substr(dot);
  const std::string_view stem = name.substr(0, dot);
  std::string_view gguf = NameIn(kLayerNames, stem);
  const bool after = Is("gemma2") || Is("gemma3") || Is("gpt-oss");
  if (after && stem == "post_attention_layernorm") gguf = "post_attention_norm";
  const bool transposed = stem.starts_with("attn.c_") || stem.starts_with("mlp.c_");
  return AddNamed(prefix, gguf, ending, arch_.transposed && transposed, t);
}

Status FolderTensors::AddNamed(const std::string& prefix, std::string_view gguf,
                               std::string_view ending, bool transposed, const HfTensor& t) {
  // So the first files of BERT call them.
  if (Is("bert") && ending == ".gamma") ending = ".weight";
  if (Is("bert") && ending == ".beta") ending = ".bias";
  if (gguf.empty() || (ending != ".weight" && ending != ".bias")) {
    return Error(t, fmt::format("supported {} models have no such tensor", arch_.name),
                 StatusCode::kUnimplemented);
  }
  const std::string name = prefix + std::string(gguf) + std::string(ending);
  const size_t rank = t.tensor.shape.size();
  if (rank == 1) return AddVector(name, t);
  if (rank == 2) return AddMatrix(name, transposed, t);
  return ShapeError(t, "a vector or a matrix");
}

std::optional<uint32_t> FolderTensors::TypeOf(const HfTensor& t, Status* status) const {
  const std::optional<uint32_t> type = FloatTypeOf(t.tensor.dtype);
  if (!type) {
    *status =
        Error(t, fmt::format("type {} is not supported; BF16, F16 and F32 are", t.tensor.dtype),
              StatusCode::kUnimplemented);
  }
  return type;
}

Status FolderTensors::AddVector(const std::string& name, const HfTensor& t) {
  Status status;
  const std::optional<uint32_t> type = TypeOf(t, &status);
  if (!type) return status;
  const uint64_t count = t.tensor.bytes / SafeDtypeBytes(t.tensor.dtype);
  if (count > kMaxVector) return ShapeError(t, fmt::format("at most {} elements", kMaxVector));
  std::vector<std::byte> stored(static_cast<size_t>(t.tensor.bytes));
  status = bytes_.files()[t.file].Read(t.tensor.begin, stored);
  if (!status.ok()) return status;
  std::vector<float> values(static_cast<size_t>(count));
  WidenRow(*type, stored.data(), values);
  if (arch_.norm_plus_one && name.ends_with("norm.weight")) {
    for (float& value : values) value += 1.0F;
  }
  const bool of_heads = name.ends_with("attn_q.bias") || name.ends_with("attn_k.bias");
  if (arch_.rope_pairs && of_heads) {
    const size_t head = model_.head_dim;
    if (head == 0 || head % 2 != 0 || values.size() % head != 0) {
      return ShapeError(t, fmt::format("a multiple of the head's {} elements", head));
    }
    const std::vector<float> halves = values;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t in_head = i % head;
      values[i] = halves[i - in_head + in_head % 2 * (head / 2) + in_head / 2];
    }
  }
  std::string kept(values.size() * sizeof(float), '\0');
  std::memcpy(kept.data(), values.data(), kept.size());
  out_.AddTensor(name, {count}, ggml_type::kF32, bytes_.AddMemory(std::move(kept)), FieldOf(t));
  return {};
}

Status FolderTensors::AddMatrix(const std::string& name, bool transposed, const HfTensor& t) {
  Status status;
  const std::optional<uint32_t> type = TypeOf(t, &status);
  if (!type) return status;
  StoredMatrix m;
  m.file = t.file;
  m.at = t.tensor.begin;
  m.element_bytes = SafeDtypeBytes(t.tensor.dtype);
  m.rows = t.tensor.shape[0];
  m.columns = t.tensor.shape[1];
  m.row_stride = m.columns;
  if (transposed) {
    m.row_stride = 1;
    m.column_stride = m.columns;
    std::swap(m.rows, m.columns);
  }
  const bool of_heads = name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight");
  if (arch_.rope_pairs && of_heads) {
    m.rope_rows = model_.head_dim;
    if (m.rope_rows == 0 || m.rope_rows % 2 != 0 || m.rows % m.rope_rows != 0) {
      return ShapeError(t, fmt::format("a multiple of the head's {} rows", m.rope_rows));
    }
  }
  uint64_t begin = bytes_.AddMatrix(m);
  const bool widen = IsAlwaysF32(name) && *type != ggml_type::kF32;
  if (widen) {
    begin = bytes_.AddConverted({.from = begin,
                                 .rows = m.rows,
                                 .columns = m.columns,
                                 .stored = *type,
                                 .type = ggml_type::kF32});
  }
  out_.AddTensor(name, {m.columns, m.rows}, widen ? ggml_type::kF32 : *type, begin, FieldOf(t));
  return {};
}

// `name`: behind "experts.": of one expert ("3.gate_proj.weight"), or of all of them.
Status FolderTensors::KeepExpert(const std::string& prefix, std::string_view name,
                                 const HfTensor& t) {
  if (model_.experts == 0) return Error(t, "belongs to an expert, but config.json has no experts");
  std::string_view rest = name;
  const std::optional<uint32_t> number = TakeIndex(&rest);
  if (!number) return AddFused(prefix, name, t);
  if (*number >= model_.experts) {
    return Error(
        t, fmt::format("its expert does not exist: config.json has {} experts", model_.experts));
  }
  std::string_view gguf;
  if (rest.ends_with(".weight")) gguf = NameIn(kExpertNames, rest.substr(0, rest.size() - 7));
  if (gguf.empty()) return AddNamed(prefix, gguf, "", false, t);  // The error.
  auto& all = experts_[prefix + std::string(gguf) + ".weight"];
  all.resize(model_.experts);
  all[*number] = &t;
  return {};
}

// Joins the matrices of a layer's experts.
Status FolderTensors::AddExperts() {
  for (const auto& [name, all] : experts_) {
    const auto none = std::find(all.begin(), all.end(), nullptr);
    if (none != all.end()) {
      return out_.Error(StatusCode::kDataLoss, TensorField(name),
                        fmt::format("expert {} has no such tensor", none - all.begin()));
    }
    const HfTensor& first = *all.front();
    Status status;
    const std::optional<uint32_t> type = TypeOf(first, &status);
    if (!type) return status;
    if (first.tensor.shape.size() != 2) return ShapeError(first, "a matrix");
    const uint64_t begin = bytes_.size();
    for (const HfTensor* t : all) {
      if (t->tensor.shape != first.tensor.shape || t->tensor.dtype != first.tensor.dtype) {
        return Error(*t, "its type or shape differs from expert 0");
      }
      bytes_.AddRange(t->file, t->tensor.begin, t->tensor.bytes);
    }
    out_.AddTensor(name, {first.tensor.shape[1], first.tensor.shape[0], all.size()}, *type, begin,
                   FieldOf(first));
  }
  return {};
}

// Adds a tensor of all experts: gate and up together, or down. In gpt-oss rows alternate between
// gate and up; elsewhere all rows of gate come before all rows of up.
Status FolderTensors::AddFused(const std::string& prefix, std::string_view name,
                               const HfTensor& t) {
  if (name.ends_with(".weight")) name.remove_suffix(7);
  std::string_view kind = name;
  for (const char* ending : {"_blocks", "_scales", "_bias"}) {
    if (kind.ends_with(ending)) kind.remove_suffix(std::strlen(ending));
  }
  const bool both = kind == "gate_up_proj";
  if (!both && kind != "down_proj") return AddNamed(prefix, {}, "", false, t);  // The error.
  const std::string_view form = name.substr(kind.size());
  if (form == "_scales") return {};  // Added with its blocks.
  const HfTensor* scales = nullptr;
  if (form == "_blocks") {
    std::string sibling(Strip(t.tensor.name));
    sibling.replace(sibling.size() - 7, 7, "_scales");
    const auto at = by_name_.find(sibling);
    if (at == by_name_.end()) return Error(t, "the tensor of its scales is missing");
    scales = at->second;
  }
  const uint64_t parts = both ? 2 : 1;
  for (uint64_t part = 0; part < parts; ++part) {
    const char* gguf = !both ? "ffn_down_exps" : part == 0 ? "ffn_gate_exps" : "ffn_up_exps";
    const std::string weight = fmt::format("{}{}.weight", prefix, gguf);
    Status status;
    if (scales != nullptr) {
      status = AddMxfp4(weight, part, parts, t, *scales);
    } else if (form == "_bias") {
      status = AddFusedBias(fmt::format("{}{}.bias", prefix, gguf), part, parts, t);
    } else {
      status = AddFusedMatrix(weight, part, parts, t);
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status FolderTensors::AddFusedMatrix(const std::string& name, uint64_t part, uint64_t parts,
                                     const HfTensor& t) {
  Status status;
  const std::optional<uint32_t> type = TypeOf(t, &status);
  if (!type) return status;
  const std::vector<uint64_t>& shape = t.tensor.shape;
  const bool transposed = Is("gpt-oss");  // [experts, inputs, outputs].
  if (shape.size() != 3 || shape[0] != model_.experts || shape[transposed ? 2 : 1] % parts != 0) {
    return ShapeError(t, fmt::format("[{} experts, ...]", model_.experts));
  }
  StoredMatrix m;
  m.file = t.file;
  m.element_bytes = SafeDtypeBytes(t.tensor.dtype);
  m.rows = shape[transposed ? 2 : 1] / parts;
  m.columns = shape[transposed ? 1 : 2];
  m.row_stride = transposed ? parts : m.columns;
  m.column_stride = transposed ? m.rows * parts : 1;
  const uint64_t first = transposed ? part : part * m.rows * m.columns;
  const uint64_t begin = bytes_.size();
  for (uint64_t expert = 0; expert < shape[0]; ++expert) {
    const uint64_t element = expert * parts * m.rows * m.columns + first;
    m.at = t.tensor.begin + element * m.element_bytes;
    bytes_.AddMatrix(m);
  }
  out_.AddTensor(name, {m.columns, m.rows, shape[0]}, *type, begin, FieldOf(t));
  return {};
}

Status FolderTensors::AddFusedBias(const std::string& name, uint64_t part, uint64_t parts,
                                   const HfTensor& t) {
  Status status;
  const std::optional<uint32_t> type = TypeOf(t, &status);
  if (!type) return status;
  const std::vector<uint64_t>& shape = t.tensor.shape;
  if (shape.size() != 2 || shape[0] != model_.experts || shape[1] % parts != 0) {
    return ShapeError(t, fmt::format("[{} experts, ...]", model_.experts));
  }
  StoredMatrix m;
  m.file = t.file;
  m.element_bytes = SafeDtypeBytes(t.tensor.dtype);
  m.at = t.tensor.begin + part * m.element_bytes;
  m.rows = shape[0];
  m.columns = shape[1] / parts;
  m.row_stride = shape[1];
  m.column_stride = parts;
  // The last element of the last row must not lie behind the tensor: it does not, as part < parts.
  uint64_t begin = bytes_.AddMatrix(m);
  if (*type != ggml_type::kF32) {
    begin = bytes_.AddConverted({.from = begin,
                                 .rows = m.rows,
                                 .columns = m.columns,
                                 .stored = *type,
                                 .type = ggml_type::kF32});
  }
  out_.AddTensor(name, {m.columns, m.rows}, ggml_type::kF32, begin, FieldOf(t));
  return {};
}

Status FolderTensors::AddMxfp4(const std::string& name, uint64_t part, uint64_t parts,
                               const HfTensor& blocks, const HfTensor& scales) {
  const std::vector<uint64_t>& shape = blocks.tensor.shape;  // [experts, rows, blocks, 16]
  if (shape.size() != 4 || shape[0] != model_.experts || shape[1] % parts != 0 || shape[3] != 16 ||
      blocks.tensor.dtype != "U8") {
    return ShapeError(blocks, fmt::format("[{} experts, rows, blocks, 16] of U8", model_.experts));
  }
  if (scales.tensor.dtype != "U8" ||
      !std::ranges::equal(scales.tensor.shape, std::span(shape).first(3))) {
    return ShapeError(scales, "the shape of its blocks without the last dimension, and type U8");
  }
  const uint64_t begin = bytes_.size();
  for (uint64_t expert = 0; expert < shape[0]; ++expert) {
    const uint64_t first = (expert * shape[1] + part) * shape[2];  // Its first block.
    bytes_.AddMxfp4({.blocks_file = blocks.file,
                     .blocks_at = blocks.tensor.begin + first * 16,
                     .scales_file = scales.file,
                     .scales_at = scales.tensor.begin + first,
                     .rows = shape[1] / parts,
                     .columns = shape[2] * 32,
                     .row_stride = parts});
  }
  out_.AddTensor(name, {shape[2] * 32, shape[1] / parts, shape[0]}, ggml_type::kMxfp4, begin,
                 FieldOf(blocks));
  return {};
}

}  // namespace

Status AddHfTensors(const HfModel& model, const std::vector<HfTensor>& tensors,
                    GgufFile::Builder* builder) {
  return FolderTensors(model, builder).Add(tensors);
}

}  // namespace ropeway::model
