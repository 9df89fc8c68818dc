#include "tokenizer/split_patterns.h"

#include <algorithm>
#include <utility>

namespace ropeway::tokenizer {
namespace {

constexpr std::string_view kDigit = R"(\p{N})";

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// OpenAI's o200k, of gpt-oss and Llama 4.
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Mistral's.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Falcon's. Punctuation in `tokenizers` is Unicode 8's punctuation and ASCII's symbols. (A run is
// taken without a way back, which would take memory for each character.)
constexpr std::string_view kFalconPunctuation =
    R"((?:[^\P{P}\x{61D}\x{9FD}\x{A76}\x{C77}\x{C84}\x{1B7D}\x{1B7E}\x{2E43}-\x{2E4F})"
    R"(\x{2E52}-\x{2E5D}\x{10EAD}\x{10F55}-\x{10F59}\x{10F86}-\x{10F89}\x{1144B}-\x{1144F})"
    R"(\x{1145A}\x{1145B}\x{1145D}\x{11660}-\x{1166C}\x{116B9}\x{1183B}\x{11944}-\x{11946})"
    R"(\x{119E2}\x{11A3F}-\x{11A46}\x{11A9A}-\x{11A9C}\x{11A9E}-\x{11AA2}\x{11C41}-\x{11C45})"
    R"(\x{11C70}\x{11C71}\x{11EF7}\x{11EF8}\x{11FFF}\x{12FF1}\x{12FF2}\x{16E97}-\x{16E9A})"
    R"(\x{16FE2}\x{1E95E}\x{1E95F}]++|[$+<=>^`|~]++)++)";
// It splits the letters of bytes. These letters are numbers too: superscripts and fractions.
constexpr std::string_view kFalconNumbers = R"([0-9\xB2\xB3\xB9\xBC-\xBE]+)";
constexpr std::string_view kFalconThreeDigits = "[0-9][0-9][0-9]";

// DeepSeek's.
constexpr std::string_view kNewline = R"([\r\n])";
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepSeekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
// \s+$, which would look at the whole of a run of spaces from each of its spaces.
constexpr std::string_view kSpacesAtEnd = R"((?<!\s)\s++\z)";
constexpr std::string_view kDeepSeekScripts =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kUpToThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kHanAndKana =
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<SplitFamily>& Families() {
  static const std::vector<SplitFamily> families = {
      {"gpt-2", {{kGpt2}}},
      {"smollm", {{kDigit}, {kGpt2}}},
      {"llama-bpe", {{kLlama3}}, /*ignore_merges=*/true, /*adds_bos=*/true},
      {"dbrx", {{kLlama3}}},
      {"glm4", {{kLlama3}}, /*ignore_merges=*/true},
      {"qwen2", {{kQwen2}}},
      {"qwen35", {{kQwen35}}},
      {"gpt-4o", {{kO200k}}},
      {"tekken", {{kTekken}}, /*ignore_merges=*/true, /*adds_bos=*/true},
      {"falcon",
       {{kFalconPunctuation},
        {kGpt2},
        {kFalconNumbers, SplitUnit::kBytes},
        {kFalconThreeDigits, SplitUnit::kBytes}}},
      {"deepseek-llm",
       {{kNewline},
        {kDeepSeekLetters},
        {kDeepSeekPunctuation},
        {kSpacesAtEnd},
        {kDeepSeekScripts},
        {kDigit}}},
      {"deepseek-coder",
       {{kNewline}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {kDeepSeekScripts}, {kDigit}}},
      {"deepseek-v3", {{kUpToThreeDigits}, {kHanAndKana}, {kDeepSeek3}}},
  };
  return families;
}

// Other names that converters have used.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"", "gpt-2"},
    {"default", "gpt-2"},
    {"phi-2", "gpt-2"},
    {"mpt", "gpt-2"},
    {"olmo", "gpt-2"},
    {"jais", "gpt-2"},
    {"exaone4", "gpt-2"},
    {"trillion", "gpt-2"},
    {"gigachat", "gpt-2"},
    {"a.x-4.0", "gpt-2"},
    {"mellum", "gpt-2"},
    {"modern-bert", "gpt-2"},
    {"roberta-bpe", "gpt-2"},
    {"granite-docling", "gpt-2"},
    {"starcoder", "smollm"},
    {"refact", "smollm"},
    {"command-r", "smollm"},
    {"codeshell", "smollm"},
    {"exaone", "smollm"},
    {"minerva-7b", "smollm"},
    {"mellum2", "smollm"},
    {"llama3", "llama-bpe"},
    {"llama-v3", "llama-bpe"},
    {"falcon3", "llama-bpe"},
    {"falcon-h1", "llama-bpe"},
    {"pixtral", "llama-bpe"},
    {"midm-2.0", "llama-bpe"},
    {"lfm2", "llama-bpe"},
    {"smaug-bpe", "dbrx"},
    {"chatglm-bpe", "dbrx"},
    {"glm5", "glm4"},
    {"deepseek-r1-qwen", "qwen2"},
    {"stablelm2", "qwen2"},
    {"hunyuan", "qwen2"},
    {"megrez", "qwen2"},
    {"grok-2", "qwen2"},
    {"llama4", "gpt-4o"},
    {"kanana2", "gpt-4o"},
    {"hunyuan-dense", "deepseek-v3"},
    {"joyai-llm", "deepseek-v3"},
};

}  // namespace

const SplitFamily* FindSplitFamily(std::string_view name) {
  for (const auto& [alias, meant] : kAliases) {
    if (name == alias) {
      name = meant;
      break;
    }
  }
  const std::vector<SplitFamily>& families = Families();
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const SplitFamily& family) { return family.name == name; });
  return found == families.end() ? nullptr : &*found;
}

bool IsFamilyExpression(std::string_view expression) {
  for (const SplitFamily& family : Families()) {
    for (const SplitExpression& each : family.expressions) {
      if (each.unit == SplitUnit::kCharacters && each.text == expression) return true;
    }
  }
  return false;
}

bool MatchesAllText(std::string_view expression) {
  const std::vector<SplitFamily>& families = Families();
  return std::any_of(families.begin(), families.end(), [&](const SplitFamily& family) {
    return family.expressions.size() == 1 && family.expressions.front().text == expression;
  });
}

std::string SplitFamilyNames() {
  std::string names;
  for (const SplitFamily& family : Families()) {
    names.append(names.empty() ? "" : ", ").append(family.name);
  }
  return names;
}

}  // namespace ropeway::tokenizer
