#include "model/model_config.h"

#include <algorithm>
#include <map>

namespace ropeway::model {
namespace {

// Groups of `size` layers that hold `layers` of them.
int32_t GroupsFor(size_t layers, int32_t size) {
  return (static_cast<int32_t>(layers) + size - 1) / size;
}

// The largest size whose groups waste at most an eighth of the memory on layers that are not there:
// each group costs the engine a block id for every 16 tokens.
int32_t GroupSize(const std::map<int32_t, std::vector<int32_t>>& layers_by_window) {
  int32_t least = 0;
  int32_t all = 0;
  for (const auto& [window, layers] : layers_by_window) {
    const auto count = static_cast<int32_t>(layers.size());
    least = least == 0 ? count : std::min(least, count);
    all += count;
  }
  for (int32_t size = least; size > 1; --size) {
    int32_t room = 0;
    for (const auto& [window, layers] : layers_by_window) {
      room += GroupsFor(layers.size(), size) * size;
    }
    if (8 * (room - all) <= all) return size;
  }
  return 1;
}

}  // namespace

KvGroups ModelConfig::kv_groups() const {
  std::map<int32_t, std::vector<int32_t>> layers_by_window;  // Ascending: those without one first.
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    layers_by_window[window(layer)].push_back(layer);
  }
  KvGroups groups;
  groups.layers = GroupSize(layers_by_window);
  groups.places.resize(static_cast<size_t>(num_layers));
  for (const auto& [window, layers] : layers_by_window) {
    const int32_t first = groups.count();
    const int32_t count = GroupsFor(layers.size(), groups.layers);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto at = static_cast<int32_t>(i);
      groups.places[static_cast<size_t>(layers[i])] = {first + at / groups.layers,
                                                       at % groups.layers};
    }
    groups.windows.insert(groups.windows.end(), static_cast<size_t>(count), window);
  }
  return groups;
}

}  // namespace ropeway::model
