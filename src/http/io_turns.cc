#include "http/io_turns.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <utility>

namespace ropeway::http {

// One request's wish; the queue may hold it for longer than its coroutine lives.
struct IoTurns::Wish {
  std::shared_ptr<SocketStream> stream;
  bool granted = false;
  bool left = false;  // Its coroutine no longer waits for it.
};

void IoTurns::Turn::End() {
  if (wish_ == nullptr) return;
  const std::shared_ptr<Wish> wish = std::move(wish_);
  wish->left = true;
  if (!wish->granted) return;  // Next passes it.
  base::FairQueue::Handle* const running = &turns_->running_;
  const base::Duration took = turns_->clock_.Now() - running->front().began;
  turns_->queue_.Return(running, took, true);
  running->clear();
  turns_->Next();
}

void IoTurns::Next() {
  while (running_.empty()) {
    running_ = queue_.Take();
    if (running_.empty()) return;
    running_.front().began = clock_.Now();
    if (running_.front().piece().done) return;
    queue_.Return(&running_, base::Duration{}, true);
    running_.clear();
  }
}

boost::asio::awaitable<void> IoTurns::Begin(base::Flow flow, std::shared_ptr<SocketStream> stream,
                                            Turn* turn) {
  auto wish = std::make_shared<Wish>();
  wish->stream = stream;
  std::function<base::PieceEnd()> grant = [wish] {
    if (wish->left) return false;
    wish->granted = true;
    wish->stream->Signal();
    return true;
  };
  queue_.Add(flow, std::move(grant), base::SharedBudget::Hold());
  turn->turns_ = this;
  turn->wish_ = wish;
  Next();
  // A request that got its turn at once also waits for one round of the event loop. Requests whose
  // bytes are here by now join the queue in that round, so the next turn is given fairly.
  const boost::asio::any_io_executor executor = stream->executor();
  if (wish->granted) co_await boost::asio::post(executor, boost::asio::use_awaitable);
  while (!wish->granted) co_await stream->Wait(SocketStream::Deadline::max());
  // What others did since it was granted is not its time.
  running_.front().began = clock_.Now();
}

}  // namespace ropeway::http
