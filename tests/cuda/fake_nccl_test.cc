// The fake NCCL refuses what NCCL refuses; without that, tests on it would show nothing.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/nccl/library.h"
#include "tests/cuda/nccl_ranks.h"
#include "tests/ranks/expect.h"

namespace nabla::tests {
namespace {

using device::CudaAddress;
using nccl::Comm;
using nccl::kInProgress;
using nccl::kInvalidArgument;
using nccl::kInvalidUsage;
using nccl::kOk;

/// Two ranks that one thread plays, each with a GPU.
class FakeNccl : public testing::Test {
 protected:
  struct Rank {
    device::CudaDevice device;
    device::CudaContext context = nullptr;
    device::CudaStream stream = nullptr;
    CudaAddress memory = 0;
    Comm comm = nullptr;
  };
  void SetUp() override {
    use_fakes(2);
    library_ = nccl::Library::open().value();
    for (int r = 0; r < 2; ++r) {
      Rank& of = ranks_[r];
      of.device = device::CudaDevice::open(r).value();
      ASSERT_EQ(cuda().context_retain(&of.context, r), 0);
      as(r);
      ASSERT_EQ(cuda().stream_create(&of.stream, 1), 0);
      ASSERT_EQ(cuda().memory_alloc(&of.memory, 64), 0);
      ASSERT_EQ(cuda().fill(of.memory, static_cast<unsigned char>(r + 1), 64, of.stream), 0);
    }
    ASSERT_EQ(fake().get_id(&id_), kOk);
  }
  void TearDown() override {
    for (int r = 0; r < 2; ++r) {
      as(r);
      if (ranks_[r].comm != nullptr) (void)fake().abort(ranks_[r].comm);
      (void)cuda().stream_destroy(ranks_[r].stream);
      (void)cuda().memory_free(ranks_[r].memory);
      (void)cuda().context_release(r);
    }
  }
  const device::CudaDriver& cuda() const { return *ranks_[0].device.driver; }
  const nccl::Library& fake() const { return *library_; }
  void as(int rank) const { ASSERT_EQ(cuda().context_set(ranks_[rank].context), 0); }

  int init(int rank, int number, int count = 2) {
    as(rank);
    nccl::Config config;
    return fake().init(&ranks_[rank].comm, count, id_, number, &config);
  }
  void connect() {
    for (int r = 0; r < 2; ++r) ASSERT_EQ(init(r, r), kInProgress);
    for (int r = 0; r < 2; ++r) ASSERT_EQ(after(r), kOk);
  }
  /// What a communicator comes to.
  int after(int rank) const {
    int status = kInProgress;
    for (int i = 0; i < 10 && status == kInProgress; ++i) EXPECT_EQ(fake().async_error(ranks_[rank].comm, &status), kOk);
    return status;
  }
  int add_up(int rank, size_t count, size_t at = 0) const {
    as(rank);
    auto* memory = reinterpret_cast<char*>(ranks_[rank].memory) + at;
    return fake().all_reduce(memory, memory, count, nccl::kInt8, nccl::kSum, ranks_[rank].comm, ranks_[rank].stream);
  }
  std::string why(int rank) const { return fake().last_error(ranks_[rank].comm); }

  std::shared_ptr<const nccl::Library> library_;
  Rank ranks_[2];
  nccl::UniqueId id_{};
};

TEST_F(FakeNccl, AnExchangeIsOverWhenAllHaveCome) {
  connect();
  ASSERT_EQ(add_up(0, 64), kInProgress);
  EXPECT_EQ(cuda().stream_query(ranks_[0].stream), device::kCudaOk);  // nothing is in the stream yet
  ASSERT_EQ(after(0), kOk);
  EXPECT_EQ(cuda().stream_query(ranks_[0].stream), device::kCudaNotReady);
  ASSERT_EQ(add_up(1, 64), kInProgress);
  ASSERT_EQ(after(1), kOk);
  EXPECT_EQ(cuda().stream_synchronize(ranks_[1].stream), 0);
  char sum[64];
  as(0);
  EXPECT_EQ(cuda().stream_query(ranks_[0].stream), device::kCudaOk);
  EXPECT_EQ(cuda().copy_out(sum, ranks_[0].memory, 64, ranks_[0].stream), 0);
  EXPECT_EQ(cuda().stream_synchronize(ranks_[0].stream), 0);
  EXPECT_EQ(sum[0] + sum[63], 6);
}

TEST_F(FakeNccl, RanksThatDoNotFitTogetherDoNotConnect) {
  ASSERT_EQ(init(0, 0), kInProgress);
  EXPECT_EQ(init(1, 0), kInvalidUsage);
  EXPECT_EQ(why(1), "rank 0 comes twice");
  EXPECT_EQ(init(1, 1, 3), kInvalidUsage);
  EXPECT_EQ(why(1), "rank 1 is one of 3, others of 2");
  EXPECT_EQ(init(1, 2), kInvalidArgument);
  nccl::Config blocks;
  blocks.blocking = 1;
  EXPECT_EQ(fake().init(&ranks_[1].comm, 2, id_, 1, &blocks), kInvalidArgument);
  nccl::UniqueId nobodys{};
  nccl::Config config;
  EXPECT_EQ(fake().init(&ranks_[1].comm, 2, nobodys, 1, &config), kInvalidArgument);
  EXPECT_EQ(add_up(0, 64), kInvalidUsage);
  EXPECT_EQ(why(0), "ncclAllReduce while the communicator connects");
}

TEST_F(FakeNccl, TwoRanksOnOneGpuAreFound) {
  std::swap(ranks_[1].context, ranks_[0].context);
  ASSERT_EQ(init(0, 0), kInProgress);
  std::swap(ranks_[1].context, ranks_[0].context);
  Comm first = ranks_[0].comm;
  ASSERT_EQ(init(1, 1), kInProgress);
  EXPECT_EQ(after(1), kInvalidUsage);
  EXPECT_HAS(why(1), "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device");
  ranks_[0].comm = first;
}

TEST_F(FakeNccl, MembersThatCallOtherThingsAreFound) {
  connect();
  ASSERT_EQ(add_up(0, 64), kInProgress);
  ASSERT_EQ(after(0), kOk);
  EXPECT_EQ(cuda().stream_query(ranks_[0].stream), device::kCudaNotReady);
  ASSERT_EQ(add_up(1, 32), kInProgress);
  ASSERT_EQ(after(1), kOk);
  EXPECT_EQ(cuda().stream_query(ranks_[1].stream), device::kCudaNotReady);
  EXPECT_EQ(after(1), kInvalidUsage);
  EXPECT_HAS(why(1), "rank 1 calls ncclAllReduce of 32 elements of type 0 by 0 from 0, and rank 0 ncclAllReduce of 64 elements");
}

TEST_F(FakeNccl, CallsThatCannotBeNowAreRefused) {
  connect();
  EXPECT_EQ(add_up(0, 65), kInvalidArgument);
  EXPECT_HAS(why(0), "outside of the GPU's memory");
  EXPECT_EQ(add_up(0, 0), kInvalidArgument);
  as(1);
  auto* memory = reinterpret_cast<char*>(ranks_[0].memory);
  EXPECT_EQ(fake().send(memory, 1, nccl::kInt8, 1, ranks_[0].comm, ranks_[0].stream), kInvalidUsage);
  EXPECT_EQ(why(0), "ncclSend with another GPU than the communicator's");
  as(0);
  EXPECT_EQ(fake().send(memory, 1, nccl::kInt8, 0, ranks_[0].comm, ranks_[0].stream), kInvalidArgument);
  EXPECT_EQ(fake().group_end(), kInvalidUsage);
  ASSERT_EQ(add_up(0, 64), kInProgress);
  EXPECT_EQ(add_up(0, 64), kInvalidUsage);
  EXPECT_EQ(why(0), "ncclAllReduce while the call before is in progress");
  ASSERT_EQ(after(0), kOk);
  ASSERT_EQ(fake().abort(ranks_[0].comm), kOk);
  EXPECT_EQ(cuda().stream_synchronize(ranks_[0].stream), 0);  // what was under way has ended
  EXPECT_EQ(add_up(0, 64), kInvalidArgument);
  EXPECT_EQ(why(0), "ncclAllReduce of a communicator that is gone");
  EXPECT_EQ(fake().abort(ranks_[0].comm), kInvalidArgument);
  EXPECT_EQ(fake().destroy(ranks_[1].comm), kInvalidUsage);
}

TEST_F(FakeNccl, AMessageThatNobodyReceivesKeepsTheCommunicatorFromClosing) {
  connect();
  as(0);
  ASSERT_EQ(fake().send(reinterpret_cast<char*>(ranks_[0].memory), 8, nccl::kInt8, 1, ranks_[0].comm, ranks_[0].stream), kInProgress);
  ASSERT_EQ(after(0), kOk);
  EXPECT_EQ(cuda().stream_query(ranks_[0].stream), device::kCudaNotReady);
  ASSERT_EQ(fake().finalize(ranks_[0].comm), kInProgress);
  EXPECT_EQ(after(0), kInProgress);
  as(1);
  ASSERT_EQ(fake().recv(reinterpret_cast<char*>(ranks_[1].memory), 8, nccl::kInt8, 0, ranks_[1].comm, ranks_[1].stream), kInProgress);
  ASSERT_EQ(after(1), kOk);
  EXPECT_EQ(cuda().stream_synchronize(ranks_[1].stream), 0);
  as(0);
  EXPECT_EQ(cuda().stream_query(ranks_[0].stream), device::kCudaOk);
  EXPECT_EQ(after(0), kOk);
  EXPECT_EQ(fake().destroy(ranks_[0].comm), kOk);
  ranks_[0].comm = nullptr;
}

}  // namespace
}  // namespace nabla::tests
