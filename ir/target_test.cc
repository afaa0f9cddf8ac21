// What is said of names that are no target.
#include "ir/target.h"

#include <gtest/gtest.h>

#include "ir/gpus.h"

namespace nabla::ir {
namespace {

std::string refusal(const std::string& name) {
  Result<Target> target = find_target(name);
  return target.ok() ? "none" : code_name(target.errors()[0].code) + " " + target.errors()[0].message;
}
std::string help(const std::string& name) { return find_target(name).errors()[0].help; }

TEST(Target, AGpuThatIsNoTargetGetsTheOneWhoseCodeRunsThere) {
  EXPECT_EQ(refusal("sm_87"), "E0404 unknown target `sm_87`; code for `sm_86` runs there");
  EXPECT_EQ(refusal("sm_91"), "E0404 unknown target `sm_91`; code for `sm_90` runs there");
  EXPECT_EQ(refusal("sm_103"), "E0404 unknown target `sm_103`; code for `sm_100` runs there");
  EXPECT_EQ(refusal("sm_110"), "E0404 unknown target `sm_110`; code for `compute_80` runs there");
  EXPECT_EQ(help("sm_110"), "--target compute_80");
  EXPECT_EQ(refusal("sm_130"),
            "E0404 unknown target `sm_130`: no GPU of this number is known; code for `compute_80` runs on every later GPU");
  EXPECT_EQ(refusal("sm_75"), "E0404 unknown target `sm_75`: code is generated for GPUs from sm_80 on");
  EXPECT_EQ(help("sm_75"),
            "the targets are cpu, cpu:native, cpu:x86-64-v3, cpu:x86-64-v4, compute_80, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, "
            "sm_100a, sm_120");
}

TEST(Target, AGpuMayBeCalledByItsName) {
  EXPECT_EQ(refusal("h100"), "E0404 unknown target `h100`; code for `sm_90a` runs there");
  EXPECT_EQ(refusal("A100"), "E0404 unknown target `A100`; code for `sm_80` runs there");
  EXPECT_EQ(refusal("rtx 40"), "E0404 unknown target `rtx 40`; code for `sm_89` runs there");
  EXPECT_EQ(help("H200"), "--target sm_90a:H200");
  EXPECT_EQ(help("NVIDIA GeForce RTX 4090"), "--target sm_89:RTX 4090");
  EXPECT_EQ(help("rtx 40"), "--target sm_89");
  EXPECT_EQ(refusal("40"), "E0404 unknown target `40`") << "a part of a name";
}

// One target is for GPUs with different memories: shares of a peak are those of the GPU in the machine.
TEST(Gpus, AreFoundByTheNamesThatDriversGiveThem) {
  auto memory = [](const char* name) {
    const GpuModel* model = find_gpu(name);
    return model != nullptr ? model->memory_gbs : 0;
  };
  EXPECT_EQ(memory("NVIDIA H200"), 4800);
  EXPECT_EQ(memory("NVIDIA H100 80GB HBM3"), 3350);
  EXPECT_EQ(memory("NVIDIA H100 PCIe"), 2039);
  EXPECT_EQ(memory("NVIDIA A100-SXM4-40GB"), 1555);
  EXPECT_EQ(memory("NVIDIA A100-SXM4-80GB"), 2039);
  EXPECT_EQ(memory("NVIDIA A100 80GB PCIe"), 1935);
  EXPECT_EQ(memory("NVIDIA GeForce RTX 4090"), 1008);
  EXPECT_EQ(memory("NVIDIA L4"), 300);
  EXPECT_EQ(memory("NVIDIA L40S"), 864);
  EXPECT_EQ(memory("NVIDIA GH200 480GB"), 4000);
  for (const char* other : {"Fake GPU", "", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H20", "Tesla T4"})
    EXPECT_EQ(memory(other), 0) << other;
  for (const std::string& name : target_names())
    if (Target target = find_target(name).value(); target.is_cuda() && !target.cuda.ptx)
      for (const char* gpu : {"A100", "A10", "RTX 4090", "H100", "H200", "B200", "RTX 5090"})
        if (const GpuModel* model = find_gpu(gpu); model->compute == target.cuda.compute) {
          EXPECT_NEAR(model->tensor_tflops / target.cuda.tensor_tflops, 1, 0.15) << name << " " << gpu;
        }
}

// Predictions are for one of the GPUs that run a target's code; the target's name says for which.
TEST(Gpus, ATargetNamesTheOneThatItsTimesAreFor) {
  auto predicted = [](const char* name) -> std::string {
    const GpuModel* model = predicted_gpu(find_target(name).value());
    return model != nullptr ? model->name : "";
  };
  EXPECT_EQ(predicted("sm_90a"), "H100");
  EXPECT_EQ(predicted("sm_90a:H200"), "H200");
  EXPECT_EQ(predicted("sm_89:rtx-4090"), "RTX 4090");
  EXPECT_EQ(predicted("compute_80"), "A100");
  EXPECT_EQ(predicted("sm_86"), "");
  EXPECT_EQ(predicted("sm_86:A10"), "A10");
  const Target h100 = find_target("sm_90a").value(), h200 = find_target("sm_90a:H200").value();
  EXPECT_EQ(h200.name, "sm_90a");
  EXPECT_NEAR(h200.cuda.copy_gbs / h100.cuda.copy_gbs, 4800.0 / 3350, 0.01);
  EXPECT_EQ(h200.cuda.block_shared_bytes, h100.cuda.block_shared_bytes);
  EXPECT_NEAR(h200.cuda.clock_ghz, h100.cuda.clock_ghz, 0.01);
  const Target a30 = find_target("sm_80:A30").value();
  EXPECT_EQ(a30.cuda.multiprocessors, 56);
  EXPECT_EQ(a30.threads, 56 * 2048);
  EXPECT_EQ(find_targets("sm_80:A30, sm_90a:H200 ,cpu").value()[1].cuda.gpus, "H200");
  // Figures of the table of targets are those of the model that they are said to be of.
  for (const std::string& name : target_names())
    if (Target target = find_target(name).value(); const GpuModel* model = target.is_cuda() ? predicted_gpu(target) : nullptr) {
      EXPECT_EQ(model->compute, target.cuda.compute) << name;
      EXPECT_EQ(model->multiprocessors, target.cuda.multiprocessors) << name;
      EXPECT_NEAR(0.9 * model->memory_gbs / target.cuda.copy_gbs, 1, 0.03) << name;
      EXPECT_NEAR(model->f32_tflops / target.cuda.f32_tflops, 1, 0.01) << name;
    }
}

TEST(Gpus, OneThatATargetIsNotForIsRefused) {
  EXPECT_EQ(refusal("sm_90a:H20"), "E0404 `sm_90a:H20`: no data sheet is known of a GPU `H20`");
  EXPECT_EQ(refusal("sm_90a:"), "E0404 `sm_90a:`: no data sheet is known of a GPU ``");
  EXPECT_EQ(help("sm_100:B300"), "the names are sm_100:B200");
  EXPECT_EQ(refusal("sm_90a:B200"), "E0404 `sm_90a:B200`: B200 has compute capability 10.0, and the target has 9.0");
  EXPECT_EQ(refusal("compute_80:A100"), "E0404 `compute_80:A100`: times of compute_80 are predicted for an A100 alone");
  EXPECT_EQ(help("compute_80:A100"), "--target compute_80");
  EXPECT_EQ(refusal("sm_90b:H200"), "E0404 unknown target `sm_90b:H200`; code for `sm_90a` runs there");
  EXPECT_EQ(refusal("sm_90a:H100 x"), "E0404 `sm_90a:H100 x`: no data sheet is known of a GPU `H100 x`");
  EXPECT_EQ(find_targets("sm_90a:H100,sm_90a:H200").errors()[0].message, "the list of targets has `sm_90a` twice");
}

// A number that no GPU can have says nothing of GPUs.
TEST(Target, AMistypedNameGetsTheNearest) {
  EXPECT_EQ(refusal("sm_90b"), "E0404 unknown target `sm_90b`; did you mean `sm_90`?");
  EXPECT_EQ(refusal("SM_90A"), "E0404 unknown target `SM_90A`; did you mean `sm_90a`?");
  EXPECT_EQ(refusal("sm_090"), "E0404 unknown target `sm_090`; did you mean `sm_90`?");
  EXPECT_EQ(refusal("cpu:x86-64-v5"), "E0404 unknown target `cpu:x86-64-v5`; did you mean `cpu:x86-64-v3`?");
  for (const char* name : {"sm_", "cuda", "sm_9999999999999999999", "sm_2147483648"}) {
    EXPECT_EQ(refusal(name), fmt::format("E0404 unknown target `{}`", name));
    EXPECT_EQ(help(name), help("sm_75"));
  }
  EXPECT_EQ(refusal("sm_-50").find("GPUs from"), std::string::npos);
  EXPECT_EQ(refusal(""), "E0404 the name of a target is empty");
  EXPECT_EQ(find_targets("sm_80,").errors()[0].message, "the name of a target is empty");
}

}  // namespace
}  // namespace nabla::ir
