#include "model/model.h"

#include <exception>
#include <string>

#include "model/model_loader.h"

namespace ropeway {

StatusOr<std::unique_ptr<Model>> Model::Load(const GgufFile& file, int threads,
                                             int32_t max_positions) {
  try {
    return ModelLoader(file).Load(threads, max_positions);
  } catch (const std::exception& error) {  // No memory, or no threads.
    return Status(StatusCode::kResourceExhausted,
                  file.path() + ": cannot be loaded: " + error.what());
  }
}

Model::~Model() = default;

}  // namespace ropeway
