// What the thread tells xgrammar's parser. CMake puts calls of SpendWork, which bounds its work,
// into a copy of its sources.
//
// Grammars that a parser needs exponential or quadratic time for are easily written, and a client's
// schema decides over the grammar. Work is counted in states and not in time: the same grammar and
// the same tokens run out of it at the same place on every machine.
#ifndef ROPEWAY_THIRD_PARTY_XGRAMMAR_WORK_COUNTER_H_
#define ROPEWAY_THIRD_PARTY_XGRAMMAR_WORK_COUNTER_H_

#include <cstdint>
#include <exception>

namespace xgrammar {

// Thrown where the thread's work is used up. The matcher or compiler that threw it must not be used
// again.
struct OutOfWork : std::exception {
  const char* what() const noexcept override { return "out of work"; }
};

// What is left to the thread until it is set again. A unit is a state of the parser that is looked
// at.
inline thread_local int64_t work_left = INT64_MAX;

// Whether each rule of limited length of the grammar that the thread works with is all of a JSON
// string's text, so that nothing but a quotation mark follows it.
inline thread_local bool limits_in_strings = false;

// The most characters that such a rule may require.
inline constexpr int32_t kMostMinimum = 8;

inline void SpendWork(int64_t units = 1) {
  work_left -= units;
  if (work_left < 0) throw OutOfWork();
}

}  // namespace xgrammar

#endif  // ROPEWAY_THIRD_PARTY_XGRAMMAR_WORK_COUNTER_H_
