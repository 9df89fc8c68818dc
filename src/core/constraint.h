// The seam between the engine and what holds a sequence's output to a form.
#ifndef ROPEWAY_CORE_CONSTRAINT_H_
#define ROPEWAY_CORE_CONSTRAINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ropeway/request.h"
#include "ropeway/status.h"

namespace ropeway::core {

// Where one output stands in its constraint: a function of the constraint and of the accepted ids.
// It is never saved; accepting the same ids again gives the same state. After an error it is dead:
// each call returns an error. Thread rule: one thread at a time.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;

  // Sets bit (id & 31) of word (id >> 5) for each token that may come next, and clears all others.
  // REQUIRES: words.size() == Constraint::mask_words(); !ended().
  virtual Status Mask(std::span<uint32_t> words) = 0;

  // Goes on behind `id`. kInvalidArgument: it is not allowed here.
  virtual Status Accept(TokenId id) = 0;

  // Whether the output may end here.
  virtual bool complete() const = 0;
  // Whether a token that ends the output was accepted.
  virtual bool ended() const = 0;
  // The memory that it takes, about.
  virtual size_t bytes() const = 0;
};

// Const and thread-safe; the sequences of many requests may share one.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // The words of a mask.
  virtual size_t mask_words() const = 0;

  // The state of an empty output. The constraint must outlive it. Throws std::bad_alloc.
  virtual std::unique_ptr<ConstraintState> Begin() const = 0;
};

}  // namespace ropeway::core

#endif  // ROPEWAY_CORE_CONSTRAINT_H_
