#include "codegen/cuda/printer.h"

namespace nabla::codegen {
namespace {

constexpr const char* kPrelude =
#include "codegen/cuda/prelude_text.inc"
    ;
constexpr const char* kWarpgroup =
#include "codegen/cuda/warpgroup_text.inc"
    ;
constexpr const char* kBridge =
#include "codegen/cuda/bridge_text.inc"
    ;
constexpr const char* kAttention =
#include "codegen/cuda/attention_text.inc"
    ;
constexpr const char* kAttentionHalves =
#include "codegen/cuda/attention_halves_text.inc"
    ;
constexpr const char* kBlocks =
#include "codegen/cuda/blocks_text.inc"
    ;
constexpr const char* kScan =
#include "codegen/cuda/scan_text.inc"
    ;
constexpr const char* kSort =
#include "codegen/cuda/sort_text.inc"
    ;
constexpr const char* kProcedures =
#include "codegen/cpu/procedures_text.inc"
    ;
constexpr const char* kLinalgProcedures =
#include "codegen/cpu/linalg_procedures_text.inc"
    ;

}  // namespace

const char* cuda_prelude() {
  static const std::string kAll = std::string(kPrelude) + kWarpgroup;
  return kAll.c_str();
}

std::string cuda_procedures() {
  return std::string(kBridge) + kAttention + kAttentionHalves + kProcedures + kScan + kSort + kLinalgProcedures + kBlocks;
}

}  // namespace nabla::codegen
