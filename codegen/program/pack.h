// A local program in the bundle's format.
#pragma once

#include <memory>
#include <string>

#include "codegen/compile_kernels.h"
#include "codegen/program/program.h"

namespace nabla::format {
struct ProgramT;
}
namespace nabla::program {

/// The program of runtime/format/program.fbs; `code` holds its kernels, compiled.
Result<std::shared_ptr<format::ProgramT>> pack(const LocalProgram& program, const codegen::TargetCode& code);

/// The member of the bundle with the program's constants: constants_bytes of them.
std::string constants_of(const LocalProgram& program);

}  // namespace nabla::program
