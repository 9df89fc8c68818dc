#include <gtest/gtest.h>

#include "engine/test_backend_contract.h"
#include "engine/test_fakes.h"

namespace ropeway::engine {
namespace {

struct EngineUnderTest {
  EngineUnderTest() {
    test.control->step_micros = 300;
    test.Start();
  }
  Backend* backend() { return test.engine.get(); }
  static Request Slowly() {
    Request request = TextRequest("abc");
    request.max_tokens = 4000;
    return request;
  }

  TestEngine test;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Engine, BackendContract, EngineUnderTest);

}  // namespace
}  // namespace ropeway::engine
