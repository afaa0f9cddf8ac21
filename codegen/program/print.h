// A local program as text, for people and golden files. It is not parsed back. docs/local-program.md explains it.
#pragma once

#include <string>

#include "codegen/program/program.h"

namespace nabla::program {

std::string print(const LocalProgram& program);
/// "arena+1024+r0*256", "input 0", "output 1+(r2%2)*64".
std::string print(const Address& address);

}  // namespace nabla::program
