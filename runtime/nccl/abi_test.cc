// What library.h declares is what the toolkit's header does, where there is one.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>

#include "runtime/nccl/library.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

namespace nabla::nccl {

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && sizeof(Comm) == sizeof(ncclComm_t));
static_assert(sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int) && sizeof(ncclResult_t) == sizeof(int));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
#define NABLA_SAME_PLACE(ours, theirs) \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs) && sizeof(Config::ours) == sizeof(ncclConfig_t::theirs))
NABLA_SAME_PLACE(size, size);
NABLA_SAME_PLACE(magic, magic);
NABLA_SAME_PLACE(version, version);
NABLA_SAME_PLACE(blocking, blocking);
NABLA_SAME_PLACE(cga_cluster_size, cgaClusterSize);
NABLA_SAME_PLACE(min_ctas, minCTAs);
NABLA_SAME_PLACE(max_ctas, maxCTAs);
NABLA_SAME_PLACE(net_name, netName);
NABLA_SAME_PLACE(split_share, splitShare);
static_assert(kOk == ncclSuccess && kUnhandledCudaError == ncclUnhandledCudaError && kSystemError == ncclSystemError);
static_assert(kInternalError == ncclInternalError && kInvalidArgument == ncclInvalidArgument && kInvalidUsage == ncclInvalidUsage);
static_assert(kRemoteError == ncclRemoteError && kInProgress == ncclInProgress);
static_assert(kInt8 == ncclInt8 && kUint8 == ncclUint8 && kInt32 == ncclInt32 && kUint32 == ncclUint32 && kInt64 == ncclInt64);
static_assert(kUint64 == ncclUint64 && kFloat16 == ncclFloat16 && kFloat32 == ncclFloat32 && kFloat64 == ncclFloat64);
static_assert(kBfloat16 == ncclBfloat16 && kSum == ncclSum && kProd == ncclProd && kMax == ncclMax && kMin == ncclMin);

TEST(NcclAbi, ValuesThatTheLibraryLeavesToItselfAreThoseOfItsHeader) {
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.cga_cluster_size, theirs.cgaClusterSize);
  EXPECT_EQ(ours.min_ctas, theirs.minCTAs);
  EXPECT_EQ(ours.max_ctas, theirs.maxCTAs);
  EXPECT_EQ(ours.net_name, theirs.netName);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
  EXPECT_LE(static_cast<int>(ours.version), NCCL_VERSION_CODE);
}

// The library itself, which tells its version and makes ids without a GPU.
TEST(NcclAbi, TheLibraryHasAllFunctions) {
  ::unsetenv("NABLA_NCCL");
  auto library = Library::open();
  if (!library.ok()) GTEST_SKIP() << library.errors()[0].message;
  int code = 0;
  EXPECT_EQ((*library)->get_version(&code), kOk);
  EXPECT_EQ((*library)->version, fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100));
  UniqueId a{}, b{};
  EXPECT_EQ((*library)->get_id(&a), kOk);
  EXPECT_EQ((*library)->get_id(&b), kOk);
  EXPECT_NE(std::string(a.bytes, sizeof a.bytes), std::string(b.bytes, sizeof b.bytes));
  EXPECT_TRUE((*library)->text(kRemoteError, nullptr).starts_with("remote process exited or there was a network error (6)"))
      << (*library)->text(kRemoteError, nullptr);
}

}  // namespace nabla::nccl
#else
TEST(NcclAbi, NeedsTheHeader) { GTEST_SKIP() << "nccl.h is not there"; }
#endif
