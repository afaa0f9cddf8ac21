#include "tests/cuda/nccl_ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace nabla::tests {

Status Store::put(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
  return Ok{};
}
Result<std::string> Store::get(const std::string& key, double timeout_s) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), [&] { return values_.count(key) > 0; }))
    return error(Code::kTooLate, "no rank has put `{}` into the store in {} s", key, timeout_s);
  return values_[key];
}

nccl::Meeting Store::meeting(double timeout_s) {
  return nccl::by_store([this](const std::string& key, const std::string& value) { return put(key, value); },
                        [this](const std::string& key, double limit_s) { return get(key, limit_s); }, timeout_s);
}

// Files come into their place whole. A key has slashes.
nccl::Meeting by_files(const std::string& folder, double timeout_s) {
  auto file = [=](std::string key) {
    std::replace(key.begin(), key.end(), '/', '+');
    return folder + "/" + key;
  };
  auto put = [=](const std::string& key, const std::string& value) -> Status {
    std::ofstream(file(key) + ".part") << value;
    std::filesystem::rename(file(key) + ".part", file(key));
    return Ok{};
  };
  auto get = [=](const std::string& key, double limit_s) -> Result<std::string> {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
    while (!std::filesystem::exists(file(key))) {
      if (std::chrono::steady_clock::now() > end)
        return error(Code::kTooLate, "no rank has put `{}` into {} in {} s", key, folder, limit_s);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream in(file(key));
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  return nccl::by_store(put, get, timeout_s);
}

bool nccl_has(const comm::CollectiveCall& call) {
  return call.reduction == format::Reduction::None || nccl::combines(call.reduction, call.dtype);
}

namespace {

nccl::RankOptions meeting_by(Store& store, nccl::RankOptions options) {
  options.meet = store.meeting(options.deadline_s);
  return options;
}

}  // namespace

GpuRank::GpuRank(const format::Ranks& table, nccl::RankOptions options, Store& store, const format::Program* program)
    : GpuRank(table, meeting_by(store, options), static_cast<int>(options.rank), program) {}

GpuRank::GpuRank(const format::Ranks& table, nccl::RankOptions options, int gpu, const format::Program* program)
    : rank_(options.rank), device_(device::CudaDevice::open(gpu).value()) {
  const device::CudaDriver& d = driver();
  NABLA_CHECK(d.context_retain(&context_, device_.device) == 0 && d.context_set(context_) == 0 && d.stream_create(&stream_, 1) == 0,
              "no GPU for rank {}", rank_);
  options.ranks = table.count();
  world_ = nccl::make_ranks(table, options).value();
  attached_ = end().attach(device_, stream_, program);
}
GpuRank::~GpuRank() {
  end().detach();
  (void)driver().stream_destroy(stream_);
  (void)driver().context_release(device_.device);
}

HostValues::~HostValues() {
  for (const Room& room : rooms_) (void)driver_.memory_free(room.at);
}

Result<size_t> HostValues::take(const void* from, uint64_t bytes) {
  auto free = std::find_if(rooms_.begin(), rooms_.end(), [&](const Room& r) { return !r.busy && r.bytes >= bytes; });
  if (free == rooms_.end()) {
    Room made{.bytes = std::max<uint64_t>(bytes, 1 << 16)};
    (void)NABLA_TRY(driver_.check("allocating", driver_.memory_alloc(&made.at, made.bytes)));
    free = rooms_.insert(rooms_.end(), made);
  }
  free->busy = true;
  if (bytes > 0) (void)NABLA_TRY(driver_.check("copying in", driver_.copy_in(free->at, from, bytes, rank_.stream())));
  return static_cast<size_t>(free - rooms_.begin());
}

Status HostValues::start(uint32_t ticket, const comm::CollectiveCall& call) {
  Back back;
  comm::CollectiveCall on_gpu = call;
  back.room[0] = NABLA_TRY(take(call.from, call.bytes));
  on_gpu.from = on_gpu.to = place(back.room[0]);
  back.to = call.to, back.bytes = call.bytes;
  if (call.from != call.to) {
    if (call.kind == format::CollectiveKind::AllGather) back.bytes *= members(call.group);
    if (call.kind == format::CollectiveKind::ReduceScatter) back.bytes /= members(call.group);
    ++back.bytes;  // the byte behind the result has to stay as it is
    back.room[1] = NABLA_TRY(take(call.to, back.bytes));
    on_gpu.to = place(back.room[1]);
  }
  open_[ticket] = back;
  return rank_.end().start(ticket, on_gpu);
}
Status HostValues::send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction* at) {
  Back back;
  back.room[0] = NABLA_TRY(take(from, bytes));
  open_[ticket] = back;
  return rank_.end().send(ticket, channel, place(back.room[0]), bytes, at);
}
Status HostValues::recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction* at) {
  Back back;
  back.room[0] = NABLA_TRY(take(to, bytes));
  back.to = to, back.bytes = bytes;
  open_[ticket] = back;
  return rank_.end().recv(ticket, channel, place(back.room[0]), bytes, at);
}
Status HostValues::wait(uint32_t ticket) {
  Back back = open_.at(ticket);
  open_.erase(ticket);
  (void)NABLA_TRY(rank_.end().wait(ticket));
  (void)NABLA_TRY(rank_.end().settle());
  size_t last = back.room[1] == SIZE_MAX ? back.room[0] : back.room[1];
  if (back.bytes > 0) (void)NABLA_TRY(driver_.check("copying out", driver_.copy_out(back.to, rooms_[last].at, back.bytes, rank_.stream())));
  for (size_t room : back.room)
    if (room != SIZE_MAX) rooms_[room].busy = false;
  return driver_.check("waiting", driver_.stream_synchronize(rank_.stream()));
}

void use_fakes(int gpus) {
  std::string here = fmt::format("{}/{}/tests/cuda/", std::getenv("TEST_SRCDIR"), std::getenv("TEST_WORKSPACE"));
  ::setenv("NABLA_CUDA_DRIVER", (here + "fake_driver/libfake_cuda.so").c_str(), 1);
  ::setenv("NABLA_NCCL", (here + "fake_nccl/libfake_nccl.so").c_str(), 1);
  ::setenv("NABLA_FAKE_CUDA_DEVICES", std::to_string(gpus).c_str(), 1);
  auto driver = device::CudaDriver::open();
  NABLA_CHECK(driver.ok() && (*driver)->init(0) == 0, "the fake driver is not there");
}

void in_threads(uint32_t ranks, const std::function<void(uint32_t)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r) threads.emplace_back([&, r] { body(r); });
  for (std::thread& t : threads) t.join();
}

}  // namespace nabla::tests
