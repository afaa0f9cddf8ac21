#include "tests/cuda/fake_driver/images.h"

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/cuda/fake_driver/state.h"

namespace nabla::fake_cuda {
namespace {

/// Bytes of a cubin, by its headers; 0: it is none.
size_t elf_bytes(const void* image) {
  constexpr unsigned kCudaMachine = 190;
  const auto* bytes = static_cast<const char*>(image);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kCudaMachine) return 0;
  uint64_t end = std::max({uint64_t{sizeof header}, header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize,
                           header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize});
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + header.e_shoff + i * header.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes + header.e_phoff + i * header.e_phentsize, sizeof segment);
    end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

/// Compute capability and ABI of a cubin, where CUDA 13 writes them; of a test's own image they are 0.
struct Made {
  int compute, abi;
};
Made made_for(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  const int abi = header.e_ident[EI_ABIVERSION];
  return {static_cast<int>(abi >= 8 ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff), abi};
}

/// 10 * the last version of PTX that a driver knows ("PTX ISA", release notes): 8.0 with CUDA 12.0, 9.0 with 13.0.
int newest_ptx(int version) {
  const int major = version / 1000, minor = version % 1000 / 10;
  if (major != 12) return major >= 13 ? 90 + minor : 78;
  return 80 + (minor <= 5 ? minor : minor - 1);
}

}  // namespace

int read_image(const void* at, int capability, int version, Image& out) {
  const auto* text = static_cast<const char*>(at);
  if (std::strncmp(text, "//", 2) == 0) {
    out.bytes = std::strlen(text);
    int major = 0, minor = 0;
    const char* says = std::strstr(text, ".version ");
    if (says != nullptr) std::sscanf(says, ".version %d.%d", &major, &minor);
    return 10 * major + minor > newest_ptx(version) ? kUnsupportedPtx : kOk;
  }
  out.bytes = elf_bytes(at);
  if (out.bytes == 0) return kInvalidImage;
  const Made made = made_for(at);
  if (made.compute == 0) return kOk;
  if (made.abi >= 8 && version < 13000) return kInvalidImage;
  if (made.compute / 10 != capability / 10 || made.compute % 10 > capability % 10) return kNoBinary;
  auto kernels = codegen::read_cubin({text, out.bytes});
  if (!kernels.ok()) return kInvalidImage;
  for (codegen::CubinKernel& k : *kernels) out.kernels[k.name] = std::move(k);
  return kOk;
}

}  // namespace nabla::fake_cuda
