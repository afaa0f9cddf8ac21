// Ranks in processes that share one fake GPU, each with a context of its own, over MPI: the state after training is that of ranks
// in threads, bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/format/file.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/ranks/digits.h"
#include "tests/ranks/expect.h"
#include "tests/ranks/job.h"

namespace nabla::tests {
namespace {

TEST(GpuRanksOverMpi, TrainToTheBitsOfThreads) {
  write_digits();
  ASSERT_EQ(std::system(("cli/nablac compile " + path("m.nir") + " --no-library --mesh dp=2,tp=2 --target sm_90a -o " +
                         path("gpu.nbundle") + " > /dev/null").c_str()), 0);
  auto bundle = format::FileBytes::map(path("gpu.nbundle"));
  ASSERT_TRUE(bundle.ok());
  std::string driver = std::filesystem::absolute("tests/cuda/fake_driver/libfake_cuda.so");
  Status ready = emulator::use_fake_gpu(std::string(format::as_text((*bundle)->bytes())), driver);
  ASSERT_TRUE(ready.ok()) << to_string(ready.errors());
  Outcome threads = Job("cli/nabla-run", train_digits("gpu", 3, {"--save-state", path("threads.safetensors")})).wait(200);
  EXPECT_EQ(threads.code, 0) << threads.err;
  EXPECT_HAS(threads.err, "4 ranks of mesh pod (dp=2, tp=2) on this machine, on Fake GPU\n");
  Outcome mpi =
      Job("cli/nabla-run", train_digits("gpu", 3, {"--engine", "mpi", "--save-state", path("mpi.safetensors")})).wait(200);
  EXPECT_EQ(mpi.code, 0) << mpi.err;
  EXPECT_HAS(mpi.err, "4 ranks of mesh pod (dp=2, tp=2) in several processes, on Fake GPU\n");
  expect_same_file("threads.safetensors", "mpi.safetensors");
  // One machine with two GPUs: its ranks take turns.
  Outcome two = Job("cli/nabla-run", train_digits("gpu", 3, {"--engine", "mpi", "--save-state", path("two.safetensors")}),
                    {.environment = {"NABLA_FAKE_CUDA_DEVICES=2"}}).wait(200);
  EXPECT_EQ(two.code, 0) << two.err;
  expect_same_file("threads.safetensors", "two.safetensors");
}

}  // namespace
}  // namespace nabla::tests
