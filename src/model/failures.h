// What is wrong with a model: several failures, so that all of them can be told at once.
#ifndef ROPEWAY_MODEL_FAILURES_H_
#define ROPEWAY_MODEL_FAILURES_H_

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "ropeway/status.h"

namespace ropeway::model {

class Failures {
 public:
  static constexpr size_t kMost = 20;  // A person reads no more, and hostile files have millions.

  // OK is none. Of a field's failures the first is kept: the others follow from it.
  void Add(const Status& status) {
    if (!status.ok() && !full() && !Names(status.field())) all_.push_back(status);
  }

  void Add(const Failures& others) {
    for (const Status& status : others.all_) Add(status);
  }

  bool ok() const { return all_.empty(); }
  bool full() const { return all_.size() >= kMost; }
  bool Names(std::string_view field) const {
    return std::ranges::any_of(all_, [&](const Status& s) { return s.field() == field; });
  }
  const std::vector<Status>& all() const { return all_; }
  Status first() const { return ok() ? Status() : all_.front(); }

 private:
  std::vector<Status> all_;
};

}  // namespace ropeway::model

#endif  // ROPEWAY_MODEL_FAILURES_H_
