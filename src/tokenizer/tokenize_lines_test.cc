#include "tokenizer/tokenize_lines.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tokenizer/make_tokenizer.h"
#include "tokenizer/test_vocabulary.h"

namespace ropeway::tokenizer {
namespace {

class TokenizeLinesTest : public testing::Test {
 protected:
  TokenizeLinesTest() {
    Vocabulary vocabulary = MakeVocabulary("gpt-2", {"h i"}, {"<s>"});
    vocabulary.bos = 257;
    vocabulary.add_bos = true;
    tokenizer_ = *MakeTokenizer(std::move(vocabulary));
  }

  Status Run(const std::string& input) {
    std::istringstream in(input);
    std::ostringstream out;
    Status status = TokenizeLines(*tokenizer_, in, out);
    output_ = out.str();
    return status;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::string output_;
};

TEST_F(TokenizeLinesTest, OneLineOutForOneLineIn) {
  ASSERT_TRUE(Run("{\"text\": \"hi\"}\n\n"
                  "{\"base64\": \"/wA=\", \"add_special\": false}\n"
                  "{\"text\": \"<s>\", \"add_special\": false, \"parse_special\": false}")
                  .ok());
  EXPECT_EQ(output_,
            "{\"ids\":[257,256],\"text_base64\":\"PHM+aGk=\"}\n"
            "{\"ids\":[255,0],\"text_base64\":\"/wA=\"}\n"
            "{\"ids\":[60,115,62],\"text_base64\":\"PHM+\"}\n");
}

TEST_F(TokenizeLinesTest, Base64OfEveryLength) {
  for (const char* base64 : {"", "YQ==", "YWI=", "YWJj", "YWJjZA=="}) {
    ASSERT_TRUE(Run(std::string("{\"base64\":\"") + base64 + "\",\"add_special\":false}").ok());
    EXPECT_NE(output_.find(std::string("\"text_base64\":\"") + base64 + "\""), std::string::npos);
  }
}

TEST_F(TokenizeLinesTest, AWrongLineIsNamed) {
  for (const char* line :
       {"x", "[]", "{}", "{\"text\":1}", "{\"base64\":\"a\"}", "{\"base64\":\"@@@@\"}",
        "{\"text\":\"a\",\"base64\":\"\"}", "{\"text\":\"a\",\"other\":1}"}) {
    const Status status = Run(std::string("{\"text\":\"a\"}\n") + line);
    EXPECT_EQ(status.message().rfind("line 2:", 0), 0U) << line;
  }
}

}  // namespace
}  // namespace ropeway::tokenizer
