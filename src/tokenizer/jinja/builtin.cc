#include "tokenizer/jinja/builtin.h"

#include <algorithm>
#include <stdexcept>

namespace ropeway::jinja {
namespace {

struct Signature {
  std::vector<std::string_view> names;
  bool any_more = false;
  bool any_name = false;
};

Signature SignatureOf(const Builtin& builtin) {
  Signature signature;
  std::string_view left = builtin.parameters;
  while (!left.empty()) {
    const size_t end = std::min(left.find(' '), left.size());
    const std::string_view word = left.substr(0, end);
    if (word == "...") {
      signature.any_more = true;
    } else if (word == "**") {
      signature.any_name = true;
    } else {
      signature.names.push_back(word);
    }
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return signature;
}

// The place of the parameter called `name`; the number of parameters if there
// is none.
size_t SlotOf(const Signature& signature, std::string_view name) {
  const auto at = std::find(signature.names.begin(), signature.names.end(), name);
  return static_cast<size_t>(at - signature.names.begin());
}

}  // namespace

std::string SignatureError(const Builtin& builtin, size_t positional,
                           const std::vector<std::string_view>& names) {
  const Signature signature = SignatureOf(builtin);
  const size_t count = signature.names.size();
  if (positional > count && !signature.any_more) {
    return "does not take " + std::to_string(positional) + " arguments";
  }
  std::vector<bool> given(count);
  std::fill_n(given.begin(), std::min(positional, count), true);
  for (const std::string_view name : names) {
    const size_t slot = SlotOf(signature, name);
    if (slot == count && signature.any_name) continue;
    if (slot == count) return "does not take an argument named '" + std::string(name) + "'";
    if (given[slot]) return "takes '" + std::string(name) + "' once";
    given[slot] = true;
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (!given[i]) return "needs the argument '" + std::string(signature.names[i]) + "'";
  }
  return "";
}

Arguments::Arguments(const Builtin& builtin, CallArguments call) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : call.named) names.push_back(name);
  const std::string error = SignatureError(builtin, call.positional.size(), names);
  if (!error.empty()) throw std::invalid_argument("'" + std::string(builtin.name) + "' " + error);

  const Signature signature = SignatureOf(builtin);
  slots_.resize(signature.names.size());
  for (size_t i = 0; i < call.positional.size(); ++i) {
    if (i < slots_.size()) {
      slots_[i] = std::move(call.positional[i]);
    } else {
      rest_.push_back(std::move(call.positional[i]));
    }
  }
  for (auto& [name, value] : call.named) {
    const size_t slot = SlotOf(signature, name);
    if (slot < slots_.size()) {
      slots_[slot] = std::move(value);
    } else {
      named_.emplace_back(name, std::move(value));
    }
  }
}

const std::string& Arguments::Text(size_t i, const char* what) const {
  static const std::string kEmpty;
  return Has(i) ? StringOf(what, *slots_[i]) : kEmpty;
}

int64_t Arguments::Integer(size_t i, int64_t otherwise, const char* what) const {
  if (!Has(i)) return otherwise;
  if (!slots_[i]->is_integral()) RefuseValue(what, *slots_[i]);
  return slots_[i]->integer();
}

bool Arguments::Flag(size_t i, bool otherwise) const {
  return Given(i) ? slots_[i]->Truth() : otherwise;
}

void RefuseValue(const std::string& what, const Value& value) {
  if (value.is_undefined()) throw std::invalid_argument(value.why());
  throw std::invalid_argument(what + " does not take " + value.TypeName());
}

const std::string& StringOf(const char* what, const Value& value) {
  if (!value.is_string()) RefuseValue(what, value);
  return value.string();
}

}  // namespace ropeway::jinja
