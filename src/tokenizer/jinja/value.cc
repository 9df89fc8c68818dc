#include "tokenizer/jinja/value.h"

#include <algorithm>

namespace ropeway::tokenizer::jinja {
namespace {

constexpr size_t kMaxWhyBytes = 200;
// Nested expressions, statements and macro calls. A level takes about a kilobyte of the stack, a
// few with sanitizers.
constexpr int kMaxLevels = 600;
// What a value takes besides its text.
constexpr size_t kValueBytes = 64;
// Comparing so many names costs as much as one byte.
constexpr size_t kLookupsPerByte = 16;
// Either takes about a millisecond.
constexpr int64_t kStepsToAsk = 8192;
constexpr size_t kBytesToAsk = size_t{1} << 20U;

// What the values of the rendering on this thread take. A rendering may change its thread wherever
// it asks whether it is stopped, so no code around that may know the variable's address: it is used
// in these two functions alone, which are not inlined.
thread_local size_t* live_bytes = nullptr;
[[gnu::noinline]] size_t* LiveBytes() { return live_bytes; }
[[gnu::noinline]] void SetLiveBytes(size_t* bytes) { live_bytes = bytes; }

int CheckedDepth(int depth) {
  if (depth > Value::kMaxDepth) throw std::length_error("lists are nested too deeply");
  return depth;
}

int ListDepth(const List& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.Depth());
  return CheckedDepth(depth + 1);
}

}  // namespace

void Reject(const std::string& message) { throw std::invalid_argument(message); }

void RequireDefined(const Value& value) {
  if (value.is_undefined()) Reject(value.why());
}

void RejectValue(const std::string& what, const Value& value) {
  RequireDefined(value);
  Reject(what + " does not take " + value.TypeName());
}

const std::string& StringOf(const char* what, const Value& value) {
  return StrOf(what, value).text;
}

const Str& StrOf(const char* what, const Value& value) {
  if (!value.is_string()) RejectValue(what, value);
  return value.str();
}

Str PartOf(const Str& whole, std::string_view part) {
  if (part.empty()) return {};
  const auto begin = static_cast<size_t>(part.data() - whole.text.data());
  return {std::string(part), SpansWithin(whole.quoted, begin, begin + part.size())};
}

bool AnyQuoted(const Str& whole, std::string_view part) {
  if (part.empty()) return false;
  const auto begin = static_cast<size_t>(part.data() - whole.text.data());
  const auto it = FirstSpanAfter(whole.quoted, begin);
  return it != whole.quoted.end() && it->begin < begin + part.size();
}

Str MadeFrom(std::string text, const Str& source) {
  Str made{std::move(text)};
  if (!source.quoted.empty()) AddSpan(0, made.text.size(), &made.quoted);
  return made;
}

Held::Held(size_t bytes) : live_(LiveBytes()), bytes_(bytes) {
  if (live_ != nullptr) *live_ += bytes_;
}

Value::StringData::StringData(Str its_str, bool safe)
    : str(std::move(its_str)),
      is_safe(safe),
      held(kValueBytes + str.text.size() + str.quoted.size() * sizeof(Span)) {}
Value::ListData::ListData(List its_items, int its_depth, bool tuple)
    : items(std::move(its_items)),
      depth(its_depth),
      is_tuple(tuple),
      held(kValueBytes + items.size() * sizeof(Value)) {}
Value::DictData::DictData(Dict its_entries, int its_depth)
    : entries(std::move(its_entries)),
      depth(its_depth),
      held(kValueBytes + entries.size() * 2 * sizeof(Value)) {}

Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value Value::Absent(std::string why) {
  if (why.size() > kMaxWhyBytes) why = why.substr(0, kMaxWhyBytes) + "...";
  return Value(Data(Undefined{std::move(why)}));
}

Value Value::Of(Str value) {
  return Value(Data(std::make_shared<const StringData>(std::move(value), false)));
}

Value Value::Safe(Str value) {
  return Value(Data(std::make_shared<const StringData>(std::move(value), true)));
}

Value Value::MakeList(List items, bool is_tuple) {
  const int depth = ListDepth(items);
  return Value(Data(std::make_shared<const ListData>(std::move(items), depth, is_tuple)));
}

Value Value::Of(List items) { return MakeList(std::move(items), false); }
Value Value::Tuple(List items) { return MakeList(std::move(items), true); }

Value Value::Of(Dict entries) {
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max(depth, value.Depth());
  depth = CheckedDepth(depth + 1);
  return Value(Data(std::make_shared<const DictData>(std::move(entries), depth)));
}

Value Value::Of(Callable callable) {
  CheckedDepth(callable.self.Depth() + 1);
  struct Counted {
    explicit Counted(Callable its) : callable(std::move(its)), held(sizeof(Counted)) {}
    const Callable callable;
    const Held held;
  };
  auto counted = std::make_shared<const Counted>(std::move(callable));
  const Callable* const it = &counted->callable;
  return Value(Data(CallablePtr(std::move(counted), it)));
}

Value Value::Of(std::shared_ptr<Loop> loop) {
  loop->depth = ListDepth(loop->items);
  loop->held.emplace(sizeof(Loop) + loop->items.size() * sizeof(Value));
  return Value(Data(LoopPtr(std::move(loop))));
}

int Value::Depth() const {
  if (is_list()) return std::get<ListPtr>(data_)->depth;
  if (is_dict()) return std::get<DictPtr>(data_)->depth;
  if (is_callable()) return callable().self.Depth() + 1;
  if (is_loop()) return loop().depth;
  return 0;
}

int64_t Value::integer() const {
  return is_bool() ? static_cast<int64_t>(std::get<bool>(data_)) : std::get<int64_t>(data_);
}

double Value::number() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(integer());
}

bool Value::Truth() const {
  if (is_integral()) return integer() != 0;
  if (is_float()) return number() != 0;
  if (is_string()) return !string().empty();
  if (is_list()) return !list().empty();
  if (is_dict()) return !dict().empty();
  if (is_loop()) return !loop().items.empty();
  return is_callable() || is_namespace();
}

const Value* Value::Find(std::string_view key) const {
  for (const auto& [name, value] : dict()) {
    if (name.is_string() && name.string() == key) return &value;
  }
  return nullptr;
}

const char* Value::TypeName() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (is_bool()) return "a boolean";
  if (is_integer()) return "an integer";
  if (is_float()) return "a float";
  if (is_string()) return "a string";
  if (is_list()) return is_tuple() ? "a tuple" : "a list";
  if (is_dict()) return "a dictionary";
  if (is_namespace()) return "a namespace";
  return is_loop() ? "a loop" : "a callable";
}

Context::Context(const Bounds& bounds, const std::tm& now, std::function<bool(size_t held)> stopped)
    : steps_(bounds.steps),
      bytes_(bounds.made),
      most_held_(bounds.held),
      ask_at_(bounds.steps - kStepsToAsk),
      ask_at_bytes_(bounds.made - std::min(bounds.made, kBytesToAsk)),
      now_(now),
      stopped_(std::move(stopped)) {
  SetLiveBytes(&live_);
}

Context::~Context() { SetLiveBytes(nullptr); }

Context::Deeper::Deeper(Context& context) : context_(context) {
  if (context_.depth_ >= kMaxLevels)
    throw std::length_error("the template's calls are nested too deeply");
  ++context_.depth_;
}

void Context::Step() {
  if (--steps_ < 0) throw std::length_error("the template takes too many steps");
  if (steps_ < ask_at_) AskWhetherStopped();
}

void Context::AskWhetherStopped() {
  ask_at_ = steps_ - kStepsToAsk;
  ask_at_bytes_ = bytes_ - std::min(bytes_, kBytesToAsk);
  if (!stopped_) return;
  SetLiveBytes(nullptr);
  const bool stopped = stopped_(live_);
  SetLiveBytes(&live_);
  if (stopped) throw Stopped();
}

void Context::Spend(size_t held, size_t made) {
  if (made > bytes_ || held > most_held_ - std::min(live_, most_held_)) {
    throw std::length_error("the template produces too much text");
  }
  bytes_ -= made;
  if (bytes_ < ask_at_bytes_) AskWhetherStopped();
}

void Context::ChargeLookups(size_t count) { Charge(count / kLookupsPerByte); }

Value Context::Copy(std::string_view text) {
  Charge(text.size() + kValueBytes);
  return Value::Of(text);
}

Value Context::Copy(Str made) {
  Charge(made.text.size() + made.quoted.size() * sizeof(Span) + kValueBytes);
  return Value::Of(std::move(made));
}

Value Context::Copy(const Str& whole, std::string_view part) {
  Charge(part.size() + kValueBytes);
  Str made = PartOf(whole, part);
  Charge(made.quoted.size() * sizeof(Span));
  return Value::Of(std::move(made));
}

Namespace* Context::NewNamespace() {
  Charge(kValueBytes);
  Keep(kValueBytes);
  return &namespaces_.emplace_back();
}

void StrBuilder::Add(std::string_view text) {
  context_->Keep(text.size());
  text_ += text;
}

Str StrBuilder::Take() {
  context_->Release(text_.size() + quoted_.size() * sizeof(Span));
  return {std::move(text_), std::move(quoted_)};
}

void StrBuilder::Add(std::string_view text, bool quoted) {
  if (quoted) {
    const size_t spans = quoted_.size();
    AddSpan(text_.size(), text_.size() + text.size(), &quoted_);
    context_->Charge((quoted_.size() - spans) * sizeof(Span));
    context_->Keep((quoted_.size() - spans) * sizeof(Span));
  }
  Add(text);
}

void StrBuilder::AddPart(const Str& whole, std::string_view part) {
  if (part.empty()) return;
  const auto begin = static_cast<size_t>(part.data() - whole.text.data());
  const size_t end = begin + part.size();
  const size_t spans = quoted_.size();
  for (auto it = FirstSpanAfter(whole.quoted, begin); it != whole.quoted.end() && it->begin < end;
       ++it) {
    AddSpan(text_.size() + std::max(it->begin, begin) - begin,
            text_.size() + std::min(it->end, end) - begin, &quoted_);
  }
  context_->ChargeCopy((quoted_.size() - spans) * sizeof(Span));
  context_->Keep((quoted_.size() - spans) * sizeof(Span));
  Add(part);
}

}  // namespace ropeway::tokenizer::jinja
