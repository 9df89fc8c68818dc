#include "load_generator.h"

#include <sys/resource.h>

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

namespace ropeway::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string Body(const LoadOptions& options, int seq) {
  std::mt19937_64 random(options.seed * 1'000'003 + static_cast<uint64_t>(seq));
  std::uniform_int_distribution<int> id(options.first_token_id, options.last_token_id);
  Json prompt = Json::array();
  for (int i = 0; i < options.prompt_tokens; ++i) prompt.push_back(id(random));
  return Json{{"prompt", prompt}, {"max_tokens", options.output_tokens},
              {"temperature", 0}, {"ignore_eos", true},
              {"stream", true},   {"stream_options", {{"include_usage", true}}}}
      .dump();
}

// Reads a stream of server-sent events into a record.
class EventReader {
 public:
  EventReader(LoadRecord* record, Clock::time_point start) : record_(record), start_(start) {}

  void Append(std::string_view bytes) {
    pending_.append(bytes);
    size_t begin = 0;
    for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      Line(std::string_view(pending_).substr(begin, end - begin));
    }
    pending_.erase(0, begin);
  }

  bool done() const { return done_; }

 private:
  void Line(std::string_view line) {
    if (!line.starts_with("data: ")) return;
    line.remove_prefix(6);
    if (line.starts_with("[DONE]")) {
      done_ = true;
      return;
    }
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_discarded()) return;
    if (event.contains("error")) record_->error = event["error"].dump();
    if (event.contains("usage") && event["usage"].is_object()) {
      record_->input_tokens = event["usage"].value("prompt_tokens", 0);
      record_->output_tokens = event["usage"].value("completion_tokens", 0);
    }
    if (!event.contains("choices") || event["choices"].empty()) return;
    if (event["choices"][0].value("text", "").empty()) return;
    const double now = Since(start_);
    if (record_->ttft == 0) {
      record_->ttft = now;
    } else {
      record_->gaps.push_back(now - last_);
    }
    last_ = now;
  }

  LoadRecord* record_;
  Clock::time_point start_;
  std::string pending_;
  double last_ = 0;
  bool done_ = false;
};

void Ask(const LoadOptions& options, LoadRecord* record) {
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  socket.connect({asio::ip::make_address(options.host), static_cast<uint16_t>(options.port)});
  socket.set_option(asio::ip::tcp::no_delay(true));
  http::request<http::string_body> request(http::verb::post, "/v1/completions", 11);
  request.set(http::field::host, options.host);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  request.body() = Body(options, record->seq);
  request.prepare_payload();
  const Clock::time_point start = Clock::now();
  http::write(socket, request);

  boost::beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  http::read_header(socket, buffer, parser);
  record->status = static_cast<int>(parser.get().result_int());
  EventReader events(record, start);
  std::string chunk(16384, '\0');
  while (!parser.is_done()) {
    parser.get().body().data = chunk.data();
    parser.get().body().size = chunk.size();
    boost::system::error_code error;
    http::read_some(socket, buffer, parser, error);
    if (error && error != http::error::need_buffer) throw boost::system::system_error(error);
    events.Append(std::string_view(chunk).substr(0, chunk.size() - parser.get().body().size));
  }
  record->latency = Since(start);
  if (record->status != 200) record->error = "HTTP " + std::to_string(record->status);
  if (record->error.empty() && !events.done()) record->error = "the stream ended early";
}

}  // namespace

LoadReport RunClosedLoop(const LoadOptions& options) {
  LoadReport report;
  report.records.resize(static_cast<size_t>(options.requests));
  const double cpu = CpuSeconds();
  const Clock::time_point start = Clock::now();
  std::atomic<int> next = 0;
  {
    std::vector<std::jthread> users;
    for (int u = 0; u < options.users; ++u) {
      users.emplace_back([&] {
        for (int seq; (seq = next.fetch_add(1)) < options.requests;) {
          LoadRecord& record = report.records[static_cast<size_t>(seq)];
          record.seq = seq;
          record.start = Since(start);
          try {
            Ask(options, &record);
          } catch (const std::exception& e) {
            record.error = e.what();
          }
        }
      });
    }
  }
  report.wall_seconds = Since(start);
  report.cpu_seconds = CpuSeconds() - cpu;
  return report;
}

}  // namespace ropeway::bench
