// Sampling parameters that a body does not have are the model's.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/test_server.h"

namespace ropeway::server {
namespace {

class SamplingDefaultsTest : public ServerTest {
 protected:
  void SetUp() override {
    SamplingParams sampling;
    sampling.temperature = 0.6F;
    sampling.top_k = 40;
    sampling.repetition_penalty = 1.1F;
    backend_.set_sampling(sampling);
    ServerTest::SetUp();
  }

  // The parameters of the request that this body makes.
  SamplingParams Post(const std::string& path, const std::string& body) {
    TestClient client(port());
    const ClientReply reply = client.Post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const std::vector<Request> submitted = backend_.submitted();
    return submitted.empty() ? SamplingParams() : submitted.back().sampling;
  }
};

TEST_F(SamplingDefaultsTest, TheBodyGoesBeforeTheModel) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1)";
  const std::string completion = R"({"prompt": "x", "max_tokens": 1)";
  for (const auto& [path, body] :
       {std::pair{"/v1/chat/completions", chat}, std::pair{"/v1/completions", completion}}) {
    const SamplingParams silent = Post(path, body + "}");
    EXPECT_EQ(silent.temperature, 0.6F);
    EXPECT_EQ(silent.top_k, 40);
    EXPECT_EQ(silent.repetition_penalty, 1.1F);
    EXPECT_EQ(silent.top_p, 1.0F);
    EXPECT_EQ(silent.given, SamplingParams::kNoneGiven);
    const SamplingParams said =
        Post(path, body + R"(, "temperature": 0, "top_k": 0, "min_p": 0.1, "top_p": null})");
    EXPECT_EQ(said.temperature, 0.0F);
    EXPECT_EQ(said.top_k, 0);
    EXPECT_EQ(said.min_p, 0.1F);
    EXPECT_EQ(said.repetition_penalty, 1.1F);
    // null is not given.
    EXPECT_EQ(said.given,
              SamplingParams::kTemperature | SamplingParams::kTopK | SamplingParams::kMinP);
  }
}

TEST_F(SamplingDefaultsTest, EveryParameterThatABodyGivesIsNoted) {
  using P = SamplingParams;
  for (const auto& [field, bit] :
       {std::pair{R"("temperature": 0.5)", P::kTemperature}, std::pair{R"("top_k": 3)", P::kTopK},
        std::pair{R"("top_p": 0.5)", P::kTopP}, std::pair{R"("min_p": 0.5)", P::kMinP},
        std::pair{R"("typical_p": 0.5)", P::kTypicalP},
        std::pair{R"("presence_penalty": 1)", P::kPresencePenalty},
        std::pair{R"("frequency_penalty": 1)", P::kFrequencyPenalty},
        std::pair{R"("repetition_penalty": 2)", P::kRepetitionPenalty},
        std::pair{R"("seed": 7)", P::kSeed}}) {
    const std::string body = R"({"prompt": "x", "max_tokens": 1, )";
    EXPECT_EQ(Post("/v1/completions", body + field + "}").given, bit) << field;
  }
}

}  // namespace
}  // namespace ropeway::server
