#include "kvcache/block_pool.h"

#include <cassert>
#include <string>

namespace ropeway {
namespace {

Status Broken(BlockId block, const char* what) {
  return {StatusCode::kInternal, "block " + std::to_string(block) + " " + what};
}

}  // namespace

BlockPool::BlockPool(int32_t num_blocks) : references_(static_cast<size_t>(num_blocks), 0) {
  free_.reserve(references_.size());
  for (BlockId block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

BlockId BlockPool::Take() {
  assert(!free_.empty());
  const BlockId block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  ++num_held_;
  return block;
}

void BlockPool::Ref(BlockId block) {
  assert(references(block) > 0);
  ++references_[static_cast<size_t>(block)];
}

void BlockPool::Unref(BlockId block) {
  assert(references(block) > 0);
  if (--references_[static_cast<size_t>(block)] > 0) return;
  --num_held_;
  free_.push_back(block);
}

Status BlockPool::CheckIntegrity() const {
  std::vector<bool> is_free(references_.size(), false);
  for (const BlockId block : free_) {
    if (block < 0 || block >= num_blocks()) return Broken(block, "on the free list does not exist");
    if (is_free[static_cast<size_t>(block)]) return Broken(block, "is on the free list twice");
    is_free[static_cast<size_t>(block)] = true;
  }
  int32_t held = 0;
  for (BlockId block = 0; block < num_blocks(); ++block) {
    const int32_t n = references(block);
    if (n < 0) return Broken(block, "has a negative reference count");
    if (n > 0 && is_free[static_cast<size_t>(block)]) return Broken(block, "is both held and free");
    if (n == 0 && !is_free[static_cast<size_t>(block)])
      return Broken(block, "is neither held nor free");
    if (n > 0) ++held;
  }
  if (held != num_held_) {
    return {StatusCode::kInternal, "the pool counts " + std::to_string(num_held_) +
                                       " held blocks, " + std::to_string(held) + " are"};
  }
  return {};
}

}  // namespace ropeway
