#include "model/ggml_types.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ropeway {
namespace {

// Numbers 4, 5, 31 to 33 and 36 to 38 were withdrawn; no file may use them.
constexpr auto kTypes = std::to_array<GgmlTypeInfo>({
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
});

constexpr std::array<std::pair<uint32_t, WeightType>, 5> kWeightTypes = {{
    {0, WeightType::kF32},
    {1, WeightType::kF16},
    {2, WeightType::kQ4_0},
    {3, WeightType::kQ4_1},
    {8, WeightType::kQ8_0},
}};

}  // namespace

const GgmlTypeInfo* FindGgmlType(uint32_t number) {
  const auto* at = std::ranges::find(kTypes, number, &GgmlTypeInfo::number);
  return at == kTypes.end() ? nullptr : &*at;
}

std::string GgmlTypeName(uint32_t number) {
  const GgmlTypeInfo* info = FindGgmlType(number);
  return info != nullptr ? info->name : "type " + std::to_string(number);
}

std::optional<WeightType> WeightTypeOf(uint32_t number) {
  for (const auto& [ggml, type] : kWeightTypes) {
    if (ggml == number) return type;
  }
  return std::nullopt;
}

uint32_t GgmlTypeOf(WeightType type) {
  for (const auto& [ggml, weight] : kWeightTypes) {
    if (weight == type) return ggml;
  }
  return ~uint32_t{0};
}

}  // namespace ropeway
