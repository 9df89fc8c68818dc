// Builds a Model: lays out the arena, then repacks the weights on several threads.
#ifndef ROPEWAY_MODEL_MODEL_LOADER_H_
#define ROPEWAY_MODEL_MODEL_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/gguf.h"
#include "model/llama_tensors.h"
#include "model/model.h"
#include "ropeway/status.h"

namespace ropeway {

// Used once, by one thread; starts others inside Load only.
class ModelLoader {
 public:
  explicit ModelLoader(const GgufFile& file) : file_(file) {}

  // See Model::Load. May throw what the standard library throws where memory or threads are short.
  StatusOr<std::unique_ptr<Model>> Load(int threads, int32_t max_positions);

 private:
  // A piece of work: some panels of a matrix, or all of a norm.
  struct Job {
    const GgufTensor* tensor;
    int panel_begin;
    int panel_end;
    std::byte* to;  // Where the whole tensor begins in the arena.
  };

  Status MakeArena(const LlamaTensors& tensors);
  void PlaceAll(const LlamaTensors& tensors);
  std::byte* Place(const GgufTensor& tensor);
  Matrix PlaceMatrix(const GgufTensor& tensor);
  const float* PlaceNorm(const GgufTensor& tensor);
  void RunJob(const Job& job) const;
  Status FillRope(const LlamaTensors& tensors, int threads, int32_t max_positions);

  const GgufFile& file_;
  std::unique_ptr<Model> model_;
  std::byte* next_ = nullptr;  // The first free byte of the arena.
  std::vector<Job> jobs_;
};

}  // namespace ropeway

#endif  // ROPEWAY_MODEL_MODEL_LOADER_H_
