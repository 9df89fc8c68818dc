#include "server/run_watcher.h"

#include <utility>

namespace ropeway::server {
namespace {

// What a stream takes at once.
constexpr size_t kMostPieces = 256;

}  // namespace

RunWatcher::RunWatcher(std::shared_ptr<StoredRun> run, bool as_one, bool owns,
                       StoredRun::WakeFn wake)
    : run_(std::move(run)),
      as_one_(as_one),
      owns_(owns),
      wake_(std::move(wake)),
      signalled_(std::make_shared<std::atomic<bool>>(false)),
      places_(run_->size()) {
  watcher_ = run_->Watch([wake = wake_, signalled = signalled_] {
    if (!signalled->exchange(true)) wake();
  });
}

AnswerSource::Progress RunWatcher::Look(size_t choice) {
  *signalled_ = false;
  Progress progress = run_->Look(choice);
  // One that reads an answer that is known already sends its headers at once.
  if (!owns_) progress.admitted = true;
  return progress;
}

AnswerSource::Output RunWatcher::Take(size_t choice) {
  *signalled_ = false;
  Place& place = places_[choice];
  bool more = false;
  Output output = run_->Read(choice, as_one_, kMostPieces, &place.pieces, &more);
  if (output.end) place.ended = true;
  if (more && !signalled_->exchange(true)) wake_();
  return output;
}

void RunWatcher::Cancel() {
  if (watcher_ == 0) return;
  run_->Unwatch(std::exchange(watcher_, 0));
  if (owns_) run_->Leave();
}

}  // namespace ropeway::server
