#include "loadgen/random_prompts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"

namespace ropeway::loadgen {
namespace {

constexpr std::array kWords = {
    "time", "year",   "people",  "way",    "day",      "man",    "thing",   "woman",
    "life", "child",  "world",   "school", "state",    "family", "group",   "hand",
    "part", "place",  "case",    "week",   "company",  "system", "program", "question",
    "work", "number", "night",   "point",  "home",     "water",  "room",    "mother",
    "area", "money",  "story",   "fact",   "month",    "lot",    "right",   "study",
    "book", "eye",    "job",     "word",   "business", "issue",  "side",    "kind",
    "head", "house",  "service", "friend", "father",   "power",  "hour",    "game",
    "line", "end",    "member",  "law",    "car",      "city",   "name",    "team"};

// Streams of numbers for different purposes must differ.
constexpr uint64_t kPromptStream = 1;
constexpr uint64_t kArrivalStream = 2;

uint64_t StreamSeed(uint64_t seed, uint64_t stream, int run_num, int seq) {
  return base::Mix64(base::Mix64(base::Mix64(seed, stream), static_cast<uint64_t>(run_num)),
                     static_cast<uint64_t>(seq));
}

}  // namespace

Prompt RandomPrompts::Make(int run_num, int seq, int tokens) const {
  base::SeededRandom random(StreamSeed(seed_, kPromptStream, run_num, seq));
  Prompt prompt;
  if (as_ids_) {
    prompt.ids.reserve(static_cast<size_t>(tokens));
    for (int i = 0; i < tokens; ++i) {
      prompt.ids.push_back(static_cast<int32_t>(random.Between(kFirstId, kLastId)));
    }
    return prompt;
  }
  const int words = std::max(1, tokens - overhead_);
  for (int i = 0; i < words; ++i) {
    if (i > 0) prompt.text += ' ';
    prompt.text += kWords[random.Below(kWords.size())];
  }
  return prompt;
}

std::vector<double> PoissonArrivals(uint64_t seed, int run_num, int count, double rate) {
  base::SeededRandom random(StreamSeed(seed, kArrivalStream, run_num, 0));
  std::vector<double> arrivals;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    arrivals.push_back(at);
    const double uniform = std::ldexp(static_cast<double>(random.Next64() >> 11), -53);
    at += -std::log1p(-uniform) / rate;
  }
  return arrivals;
}

}  // namespace ropeway::loadgen
