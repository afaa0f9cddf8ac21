// The programs whose machine code has a budget: each is a kernel, or a few, of what models are made of.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/nabla.h"

namespace nabla::codegen {

struct BudgetProgram {
  std::string name;
  std::vector<Spec> inputs;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> run;
  std::vector<std::string> targets = {"sm_80", "sm_90a"};
};
/// Of GPT-2's sizes where these matter, so that schedules are those of its step.
std::vector<BudgetProgram> budget_programs();

}  // namespace nabla::codegen
