#include "engine/prompt_encoder.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

// Encodes for a model of its own name; the requests differ in their senders.
class PromptEncoderTest : public testing::Test {
 protected:
  static Request From(const std::string& tenant, const std::string& scope,
                      const std::string& salt) {
    Request request;
    request.prompt = std::string(40, 'p');
    request.max_tokens = 4;
    request.tenant = tenant;
    request.cache_scope = scope;
    request.cache_salt = salt;
    return request;
  }

  static core::CoreRequest Encode(Request request, const std::string& model = "digest") {
    core::CacheRoot root;
    root.model_digest = model;
    root.kv_dtype = "f16";
    const PromptEncoder encoder(std::make_shared<ByteTokenizer>(), {}, 4096, root, nullptr,
                                nullptr);
    LiveRequest live;
    live.request = std::move(request);
    StatusOr<core::CoreRequest> core = encoder.Encode(&live);
    EXPECT_TRUE(core.ok()) << core.status().message();
    return core.ok() ? *std::move(core) : core::CoreRequest();
  }
};

TEST_F(PromptEncoderTest, EqualSendersShareAndAllOthersAreTold) {
  const std::vector<Request> all = {
      From("", "", ""),
      From("team-a", "", ""),
      From("team-b", "", ""),
      From("team-a", "", "x"),
      From("team-a", "s", ""),
      From("team-a", "s", "x"),
      From("team-a", "s", "y"),
      From("s", "", ""),
      From("s", "", "x"),
      From("team-a", "", "s"),
      From("team-a", "team-b", ""),
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const core::CoreRequest a = Encode(all[i]);
    ASSERT_EQ(a.block_names.size(), 2U);
    EXPECT_EQ(a.cache_root, Encode(all[i]).cache_root) << i;
    EXPECT_EQ(a.block_names, Encode(all[i]).block_names) << i;
    EXPECT_NE(a.cache_root, Encode(all[i], "another digest").cache_root) << i;
    for (size_t k = 0; k < i; ++k) {
      const core::CoreRequest b = Encode(all[k]);
      EXPECT_NE(a.cache_root, b.cache_root) << i << " and " << k;
      EXPECT_NE(a.block_names[0], b.block_names[0]) << i << " and " << k;
    }
  }
}

TEST_F(PromptEncoderTest, TenantsOfOneScopeShare) {
  EXPECT_EQ(Encode(From("team-a", "s", "x")).cache_root,
            Encode(From("team-b", "s", "x")).cache_root);
  EXPECT_NE(Encode(From("team-a", "s", "x")).cache_root,
            Encode(From("team-b", "s", "y")).cache_root);
}

TEST_F(PromptEncoderTest, SessionsAndLongRetentionKeepBlocksLonger) {
  Request request = From("team-a", "", "");
  EXPECT_EQ(Encode(request).retention, CacheRetention::kNormal);
  request.cache_retention = CacheRetention::kLong;
  EXPECT_EQ(Encode(request).retention, CacheRetention::kLong);
  request.cache_retention = CacheRetention::kNormal;
  request.session_id = "a session";
  EXPECT_EQ(Encode(request).retention, CacheRetention::kLong);
}

// The names that the front end makes are those that the core would.
TEST_F(PromptEncoderTest, NamesTheFullBlocksOfThePrompt) {
  const core::CoreRequest core = Encode(From("team-a", "", ""));
  EXPECT_EQ(core.block_names, core::ChainNames(core.cache_root, core.prompt));
  EXPECT_EQ(core.prompt.size(), 40U);
}

}  // namespace
}  // namespace ropeway::engine
