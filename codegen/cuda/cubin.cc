#include "codegen/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace nabla::codegen {
namespace {

// Nothing where the bytes end before.
template <class T>
std::optional<T> get(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<std::string_view> part(std::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  return bytes.substr(offset, size);
}

// A string of a string table; it must end within.
std::optional<std::string_view> text_at(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return std::nullopt;
  size_t end = table.find('\0', offset);
  if (end == std::string_view::npos) return std::nullopt;
  return table.substr(offset, end - offset);
}

Diagnostic malformed(const char* what) { return error(Code::kNvrtcFailed, "not a well-formed cubin: {}", what); }

struct Section {
  std::string_view name, bytes;  // no bytes: it takes room at run time only
  Elf64_Shdr header;
};

Result<std::vector<Section>> read_sections(std::string_view file) {
  auto header = get<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_machine != EM_CUDA)
    return malformed("it has no 64-bit ELF header for CUDA");
  if (header->e_shentsize != sizeof(Elf64_Shdr)) return malformed("sections of another size");
  std::vector<Section> out;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    std::optional<Elf64_Shdr> h;
    if (header->e_shoff <= file.size()) h = get<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!h) return malformed("it ends within its section table");
    std::optional<std::string_view> bytes = std::string_view{};
    if (h->sh_type != SHT_NOBITS && h->sh_type != SHT_NULL) bytes = part(file, h->sh_offset, h->sh_size);
    if (!bytes) return malformed("it ends within a section");
    out.push_back({"", *bytes, *h});
  }
  if (header->e_shstrndx >= out.size()) return malformed("it has no names of sections");
  for (Section& s : out) {
    auto name = text_at(out[header->e_shstrndx].bytes, s.header.sh_name);
    if (!name) return malformed("a section has no name");
    s.name = *name;
  }
  return out;
}

// .nv.info and .nv.info.KERNEL are lists of {form, attribute, 16 bits}; form 4 has that many bytes after it.
struct Attribute {
  uint8_t form, code;
  uint16_t value;
  std::string_view bytes;
};
constexpr uint8_t kSized = 4;
enum AttributeCode : uint8_t {
  kMaxThreads = 0x05,  // u32 x, y, z
  kFrameSize = 0x11,   // u32 symbol, bytes
  kParameter = 0x17,   // u32 -, u16 ordinal, u16 offset, u32 with the size from bit 18
  kRegisters = 0x2f,   // u32 symbol, registers
  kBarriers = 0x4c,    // in the low byte of the value
};

Result<std::vector<Attribute>> read_attributes(std::string_view info) {
  std::vector<Attribute> out;
  for (size_t at = 0; at < info.size();) {
    auto form = get<uint8_t>(info, at), code = get<uint8_t>(info, at + 1);
    auto value = get<uint16_t>(info, at + 2);
    if (!form || !code || !value) return malformed("it ends within an attribute");
    at += 4;
    std::optional<std::string_view> bytes = std::string_view{};
    if (*form == kSized) bytes = part(info, at, *value);
    if (!bytes) return malformed("it ends within an attribute");
    at += bytes->size();
    out.push_back({*form, *code, *value, *bytes});
  }
  return out;
}

// The number `attribute` {symbol, number} has for a symbol.
int number_of(const std::vector<Attribute>& all, uint8_t code, uint32_t symbol) {
  for (const Attribute& a : all)
    if (a.form == kSized && a.code == code && get<uint32_t>(a.bytes, 0) == symbol)
      if (auto number = get<int32_t>(a.bytes, 4); number && *number > 0) return *number;
  return 0;
}

Status read_info(std::string_view info, CubinKernel& kernel) {
  for (const Attribute& a : NABLA_TRY(read_attributes(info))) {
    if (a.code == kBarriers && a.form != kSized) kernel.barriers = a.value & 0xff;
    if (a.form != kSized) continue;
    if (a.code == kMaxThreads) {
      uint64_t threads = 1;
      for (int i = 0; i < 3; ++i) threads *= std::min(get<uint32_t>(a.bytes, 4 * i).value_or(0), 1u << 20);
      kernel.max_threads = static_cast<int>(std::min<uint64_t>(threads, 1 << 30));
    }
    if (a.code == kParameter) {
      auto ordinal = get<uint16_t>(a.bytes, 4), offset = get<uint16_t>(a.bytes, 6);
      auto rest = get<uint32_t>(a.bytes, 8);
      if (!rest) return malformed("it ends within a parameter");
      kernel.parameters.push_back({*ordinal, *offset, static_cast<int>(*rest >> 18)});
    }
  }
  std::sort(kernel.parameters.begin(), kernel.parameters.end(),
            [](const CudaParameter& a, const CudaParameter& b) { return a.ordinal < b.ordinal; });
  return Ok{};
}

// CUDA 13 writes another header than CUDA 12 did, for the targets of 12 as well.
constexpr uint8_t kNewAbi = 8;

bool has_new_abi(std::string_view file) { return get<Elf64_Ehdr>(file, 0)->e_ident[EI_ABIVERSION] >= kNewAbi; }

// The compute capability that the code is for, such as 90.
int compute_of(std::string_view file) {
  uint32_t flags = get<Elf64_Ehdr>(file, 0)->e_flags;
  return has_new_abi(file) ? flags >> 8 & 0xff : flags & 0xff;
}

const Section* find(const std::vector<Section>& sections, std::string_view head, std::string_view kernel = "") {
  auto found = std::find_if(sections.begin(), sections.end(), [&](const Section& s) {
    return s.name.size() == head.size() + kernel.size() && s.name.starts_with(head) && s.name.ends_with(kernel);
  });
  return found == sections.end() ? nullptr : &*found;
}

constexpr int kMostRegisters = 255;
constexpr uint8_t kEntry = 0x10;            // in a symbol's st_other: a kernel, no mere function

}  // namespace

Result<std::vector<CubinKernel>> read_cubin(std::string_view file) {
  std::vector<Section> sections = NABLA_TRY(read_sections(file));
  const Section *symbols = find(sections, ".symtab"), *names = find(sections, ".strtab"),
                *info = find(sections, ".nv.info");
  if (!symbols || !names) return malformed("the symbols or their names are missing");
  std::vector<Attribute> attributes;  // CUDA 12 leaves them out where there is no kernel
  if (info) attributes = NABLA_TRY(read_attributes(info->bytes));
  bool counts_reserved = false;
  std::vector<CubinKernel> out;
  for (uint32_t i = 0; i < symbols->bytes.size() / sizeof(Elf64_Sym); ++i) {
    Elf64_Sym symbol = *get<Elf64_Sym>(symbols->bytes, i * sizeof(Elf64_Sym));
    auto name = text_at(names->bytes, symbol.st_name);
    if (!name) return malformed("a symbol has no name");
    counts_reserved |= name->starts_with(".nv.reservedSmem");
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !(symbol.st_other & kEntry)) continue;
    if (symbol.st_shndx >= sections.size()) return malformed("a kernel has no code");
    CubinKernel kernel;
    kernel.name = *name;
    kernel.registers = number_of(attributes, kRegisters, i);
    if (kernel.registers > kMostRegisters) return malformed("a kernel with more registers than there are");
    kernel.frame_bytes = number_of(attributes, kFrameSize, i);
    const Section& code = sections[symbol.st_shndx];
    kernel.instructions = count_instructions(code.bytes, compute_of(file));
    kernel.code = read_code(code.bytes, compute_of(file));
    if (!has_new_abi(file)) kernel.barriers = code.header.sh_flags >> 20 & 0x7f;
    if (const Section* own = find(sections, ".nv.info.", kernel.name)) NABLA_TRY(read_info(own->bytes, kernel));
    out.push_back(std::move(kernel));
  }
  for (CubinKernel& k : out)
    if (const Section* shared = find(sections, ".nv.shared.", k.name)) {
      uint64_t reserved = counts_reserved ? kReservedShared : 0, bytes = shared->header.sh_size;
      if (bytes > 1 << 30) return malformed("a kernel with more than 1 GiB of shared memory");
      k.static_shared_bytes = static_cast<int>(bytes < reserved ? 0 : bytes - reserved);
    }
  std::sort(out.begin(), out.end(), [](const CubinKernel& a, const CubinKernel& b) { return a.name < b.name; });
  return out;
}

}  // namespace nabla::codegen
