// Writes the MLP's program for the ranks of a mesh: mlp_ranks FILE.nir
//
// Batches are cut along dp. Of the first two layers, one is cut by columns and the other by rows along tp, so that they
// need one sum over ranks (Megatron). `nablac compile --mesh dp=2,tp=2 FILE.nir` says how many ranks there are.
#include "examples/digits/mlp.h"

namespace nabla::digits {
namespace {

Program make_ranks_program() {
  Mlp<Spec> specs = Mlp<Spec>::specs();
  specs.fc1.w = specs.fc1.w.on(P("", "tp"));
  specs.fc2.w = specs.fc2.w.on(P("tp", ""));
  return make_program<Mlp>(kMlpLearningRate, specs, {{"dp", 1}, {"tp", 1}});
}

}  // namespace
}  // namespace nabla::digits

int main(int argc, char** argv) { return nabla::digits::save(argc, argv, nabla::digits::make_ranks_program); }
