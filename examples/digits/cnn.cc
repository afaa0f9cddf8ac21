// Writes the CNN's program: cnn FILE.nir
#include "examples/digits/cnn.h"

int main(int argc, char** argv) {
  return nabla::digits::save_program<nabla::digits::Cnn>(argc, argv, nabla::digits::kCnnLearningRate);
}
