// Writes the MLP's program: mlp FILE.nir
#include "examples/digits/mlp.h"

int main(int argc, char** argv) {
  return nabla::digits::save_program<nabla::digits::Mlp>(argc, argv, nabla::digits::kMlpLearningRate);
}
