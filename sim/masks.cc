#include "masks.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "engine/test_executor.h"

namespace ropeway::sim {
namespace {

// Mostly microseconds. One constraint in six is slow everywhere, others at some positions.
base::Duration MaskTime(uint64_t seed, int32_t position) {
  base::SeededRandom random(base::Mix64(seed, static_cast<uint64_t>(position)));
  if (seed % 6 == 0) return std::chrono::microseconds(random.Between(1000, 10'000));
  if (!random.Chance(0.05)) return std::chrono::microseconds(random.Between(1, 200));
  return std::chrono::microseconds(random.Between(2000, 100'000));
}

// Mostly a few microseconds. Of one constraint in six every id is slow.
base::Duration AcceptTime(uint64_t seed, int32_t position) {
  base::SeededRandom random(base::Mix64(seed + 1, static_cast<uint64_t>(position)));
  return std::chrono::microseconds(seed % 6 == 1 ? random.Between(200, 3000)
                                                 : random.Between(1, 3));
}

// Mask and Accept of another state, with time and plants.
class TimedState final : public core::ConstraintState {
 public:
  TimedState(RequestId request, const engine::TestConstraint& constraint, Plant plant,
             base::VirtualClock* clock, std::vector<MaskWork>* work)
      : request_(request),
        seed_(constraint.options().seed),
        plant_(plant),
        clock_(clock),
        work_(work),
        state_(constraint.Begin()) {}

  Status Mask(std::span<uint32_t> words) override {
    has_masks_ = is_masked_ = true;
    Work(MaskWork::Kind::kMask, MaskTime(seed_, accepted_));
    if (plant_ == Plant::kStaleMask && !first_.empty()) {
      std::copy(first_.begin(), first_.end(), words.begin());
      return {};
    }
    Status status = state_->Mask(words);
    if (plant_ == Plant::kStaleMask) first_.assign(words.begin(), words.end());
    return status;
  }

  Status Accept(TokenId id) override {
    // What comes before the first mask was generated before a preemption.
    if (plant_ == Plant::kLostConstraint && !has_masks_) return {};
    const bool again = !std::exchange(is_masked_, false);
    Work(again ? MaskWork::Kind::kAcceptAgain : MaskWork::Kind::kAccept,
         AcceptTime(seed_, accepted_));
    ++accepted_;
    return state_->Accept(id);
  }

  bool complete() const override { return state_->complete(); }
  bool ended() const override { return state_->ended(); }
  size_t bytes() const override { return state_->bytes(); }

 private:
  void Work(MaskWork::Kind kind, base::Duration took) {
    clock_->Advance(took);
    work_->push_back({request_, kind, took});
  }

  const RequestId request_;
  const uint64_t seed_;
  const Plant plant_;
  base::VirtualClock* const clock_;
  std::vector<MaskWork>* const work_;
  const std::unique_ptr<core::ConstraintState> state_;
  int32_t accepted_ = 0;
  bool has_masks_ = false;
  bool is_masked_ = false;       // The next id is sampled under its mask.
  std::vector<uint32_t> first_;  // Plant::kStaleMask: the first mask.
};

}  // namespace

MaskSetup DrawMasks(uint64_t seed, Plant plant, int32_t longest) {
  MaskSetup setup;
  setup.seed = base::Mix64(seed, 5);
  setup.longest = longest;
  const bool planted = plant == Plant::kStaleMask || plant == Plant::kLostConstraint;
  if (plant != Plant::kNone && !planted) return setup;
  base::SeededRandom random(setup.seed);
  if (!planted && !random.Chance(0.3)) return setup;
  setup.share = random.Chance(0.5) ? 0.3 : 1.0;
  setup.group = random.Chance(0.5) ? 1 : 4;
  return setup;
}

void Constrain(const MaskSetup& setup, core::CoreRequest* request) {
  if (setup.share == 0) return;
  base::SeededRandom own(base::Mix64(setup.seed, request->id));
  if (!own.Chance(setup.share)) return;
  const uint64_t group = request->id / static_cast<uint64_t>(setup.group);
  engine::TestConstraint::Options options;
  options.seed = base::Mix64(setup.seed + 1, group);
  base::SeededRandom random(options.seed);
  options.vocab_size = engine::TestExecutor::kVocabSize;
  options.length = static_cast<int32_t>(random.Between(1, setup.longest));
  // Half of them end at what ends every output (IsEnd), the others at a token of their own.
  options.end = random.Chance(0.5) ? 7 : 8;
  options.complete_without = random.Chance(0.2);
  if (random.Chance(0.1)) {
    options.fails_at = static_cast<int32_t>(random.Between(0, options.length));
  } else if (random.Chance(0.1)) {
    options.empty_at = static_cast<int32_t>(random.Between(0, options.length - 1));
  }
  request->constraint = std::make_shared<engine::TestConstraint>(options);
}

ConstrainedTokens::ConstrainedTokens(const core::CoreRequest& request) {
  if (request.constraint == nullptr) return;
  state_ = request.constraint->Begin();
  words_.resize(request.constraint->mask_words());
}

std::optional<TokenId> ConstrainedTokens::Next(TokenId free) {
  if (state_ == nullptr) return free;
  if (state_->ended() || !state_->Mask(words_).ok()) return std::nullopt;
  const core::TokenMask mask{.words = words_, .ready = true};
  core::BatchItem item;
  item.mask = &mask;
  core::Sampled sampled;
  sampled.token = free;
  engine::ApplyTestMask(item, engine::TestExecutor::kVocabSize, &sampled);
  if (sampled.invalid || !state_->Accept(sampled.token).ok()) return std::nullopt;
  return sampled.token;
}

bool EndsOutput(const engine::TestConstraint& constraint, int32_t length) {
  const engine::TestConstraint::Options& options = constraint.options();
  return length == options.length + (options.complete_without ? 0 : 1);
}

class SimMasks::Timer final : public core::Constraint {
 public:
  Timer(RequestId request, std::shared_ptr<const core::Constraint> constraint, SimMasks* masks)
      : request_(request), constraint_(std::move(constraint)), masks_(masks) {}

  size_t mask_words() const override { return constraint_->mask_words(); }
  std::unique_ptr<core::ConstraintState> Begin() const override {
    return std::make_unique<TimedState>(request_,
                                        static_cast<const engine::TestConstraint&>(*constraint_),
                                        masks_->plant_, masks_->clock_, &masks_->work_);
  }

 private:
  const RequestId request_;
  const std::shared_ptr<const core::Constraint> constraint_;
  SimMasks* const masks_;
};

std::shared_ptr<const core::Constraint> SimMasks::Timed(
    RequestId request, std::shared_ptr<const core::Constraint> constraint) {
  if (constraint == nullptr) return nullptr;
  const uint64_t seed = static_cast<const engine::TestConstraint&>(*constraint).options().seed;
  const auto& shared = groups_.try_emplace(seed, std::move(constraint)).first->second;
  return std::make_shared<const Timer>(request, shared, this);
}

}  // namespace ropeway::sim
