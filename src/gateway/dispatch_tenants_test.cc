#include "gateway/dispatch_tenants.h"

#include <gtest/gtest.h>

namespace ropeway::gateway {
namespace {

TEST(DispatchTenantsTest, ATenantGoesWithItsLastRequest) {
  DispatchTenants tenants(4, 2);
  DispatchTenants::Tenant* const a = tenants.Enter("a", 1.0);
  EXPECT_EQ(tenants.Enter("a", 2.0), a);
  EXPECT_EQ(a->weight, 2.0) << "the newest request's";
  tenants.Leave("a");
  EXPECT_EQ(tenants.all().size(), 1U);
  tenants.Leave("a");
  EXPECT_TRUE(tenants.all().empty());
  EXPECT_EQ(tenants.newcomers(), 0);
}

TEST(DispatchTenantsTest, WhoRunsSomethingIsNoNewcomer) {
  DispatchTenants tenants(2, 3);
  DispatchTenants::Tenant* const a = tenants.Enter("a", 1.0);
  DispatchTenants::Tenant* const b = tenants.Enter("b", 1.0);
  EXPECT_EQ(tenants.newcomers(), 2);
  tenants.Enter("a", 1.0);
  tenants.CountAttempt(a, 2, 1);
  tenants.CountAttempt(a, 2, 1);
  EXPECT_EQ(tenants.newcomers(), 1);
  EXPECT_TRUE(tenants.expects_newcomers()) << "b has nothing that runs";
  EXPECT_EQ(a->there, MaskOf(2));
  tenants.CountAttempt(b, 0, 1);
  EXPECT_FALSE(tenants.expects_newcomers()) << "both that are expected run something";
  tenants.CountAttempt(a, 2, -1);
  EXPECT_EQ(a->there, MaskOf(2)) << "one is left";
  tenants.CountAttempt(a, 2, -1);
  EXPECT_EQ(a->there, ReplicaMask{0});
  EXPECT_TRUE(a->is_newcomer());
}

TEST(DispatchTenantsTest, SharesAreByWeightOfThoseThatAreThere) {
  DispatchTenants tenants(10, 1);
  DispatchTenants::Tenant* const a = tenants.Enter("a", 1.0);
  for (int i = 0; i < 7; ++i) tenants.Enter("a", 1.0);
  EXPECT_FALSE(tenants.HasItsShare(*a, 0)) << "the first one is always within it";
  for (int i = 0; i < 2; ++i) tenants.CountAttempt(a, 0, 1);
  EXPECT_FALSE(tenants.HasItsShare(*a, 8)) << "it is alone";
  tenants.Enter("b", 3.0);
  EXPECT_TRUE(tenants.HasItsShare(*a, 8)) << "a quarter of 8 places";
  EXPECT_FALSE(tenants.HasItsShare(*a, 12)) << "a quarter of 12";
  DispatchTenants one(1, 1);
  DispatchTenants::Tenant* const all = one.Enter("a", 1.0);
  one.Enter("b", 1.0);
  one.CountAttempt(all, 0, 1);
  EXPECT_FALSE(one.HasItsShare(*all, 1)) << "nothing is divided";
}

TEST(DispatchTenantsTest, ARecountTellsWhatIsWrong) {
  DispatchTenants counted(2, 2);
  DispatchTenants again(2, 2);
  for (DispatchTenants* tenants : {&counted, &again}) {
    DispatchTenants::Tenant* const a = tenants->Enter("a", 1.0);
    tenants->CountUrgent(a, 1);
    tenants->CountAttempt(a, 1, 1);
  }
  EXPECT_TRUE(counted.CountsAs(again));
  EXPECT_EQ(counted.urgent(), 1);
  again.CountUrgent(again.Enter("b", 1.0), 1);
  EXPECT_FALSE(counted.CountsAs(again));
}

}  // namespace
}  // namespace ropeway::gateway
