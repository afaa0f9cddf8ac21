// Ranks in threads, each with a GPU of the fake driver and its end of the engine `nccl`, over the fake library.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device/cuda_driver.h"
#include "runtime/nccl/ranks.h"

namespace nabla::tests {

/// The store by which ranks find each other, without processes.
class Store {
 public:
  Status put(const std::string& key, const std::string& value);
  Result<std::string> get(const std::string& key, double timeout_s);
  /// By this store, which outlives it.
  nccl::Meeting meeting(double timeout_s);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// The same by files of a folder, for processes.
nccl::Meeting by_files(const std::string& folder, double timeout_s);

/// Does the engine have calls like this one?
bool nccl_has(const comm::CollectiveCall& call);

/// One rank of the grid, attached to a GPU, in the thread that makes it.
class GpuRank {
 public:
  /// With `options.meet`. `table` outlives it.
  GpuRank(const format::Ranks& table, nccl::RankOptions options, int gpu, const format::Program* program = nullptr);
  /// On GPU `rank`, where ranks meet by `store`.
  GpuRank(const format::Ranks& table, nccl::RankOptions options, Store& store, const format::Program* program = nullptr);
  ~GpuRank();
  /// What attaching gave.
  const Status& attached() const { return attached_; }
  comm::StreamCommunicator& end() { return *world_->rank(rank_).on_stream(); }
  comm::World& world() { return *world_; }
  const device::CudaDriver& driver() const { return *device_.driver; }
  device::CudaStream stream() const { return stream_; }

 private:
  uint32_t rank_;
  device::CudaDevice device_;
  device::CudaContext context_ = nullptr;
  device::CudaStream stream_ = nullptr;
  std::unique_ptr<comm::World> world_;
  Status attached_ = Ok{};
};

/// An end whose values are the host's: each exchange copies them to the GPU, and waits for it to copy them back.
class HostValues final : public comm::Communicator {
 public:
  explicit HostValues(GpuRank& rank) : rank_(rank), driver_(rank.driver()) {}
  ~HostValues() override;
  Status start(uint32_t ticket, const comm::CollectiveCall& call) override;
  Status send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction* at) override;
  Status recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction* at) override;
  Status wait(uint32_t ticket) override;
  uint32_t members(uint32_t group) const override { return rank_.world().rank(rank_.world().here()[0]).members(group); }

 private:
  struct Room {
    device::CudaAddress at = 0;
    uint64_t bytes = 0;
    bool busy = false;
  };
  struct Back {
    size_t room[2] = {SIZE_MAX, SIZE_MAX};  ///< in use until the wait; the last one comes back
    void* to = nullptr;
    uint64_t bytes = 0;
  };
  Result<size_t> take(const void* from, uint64_t bytes);
  void* place(size_t room) const { return reinterpret_cast<void*>(rooms_[room].at); }

  GpuRank& rank_;
  const device::CudaDriver& driver_;
  std::vector<Room> rooms_;
  std::map<uint32_t, Back> open_;  // by ticket
};

/// Lets NABLA_CUDA_DRIVER and NABLA_NCCL be the fakes, with so many GPUs.
void use_fakes(int gpus);
/// Calls `body` in a thread per rank.
void in_threads(uint32_t ranks, const std::function<void(uint32_t)>& body);

}  // namespace nabla::tests
