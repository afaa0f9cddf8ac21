// NVIDIA's run-time compiler, opened when it is needed: nothing is linked and no header of it is used.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::codegen {

/// The functions of libnvrtc that we call; 0 means success. `Program` is its opaque handle.
struct NvrtcFunctions {
  using Program = void*;
  int (*version)(int* major, int* minor);
  int (*count_architectures)(int* count);
  int (*architectures)(int* list);
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const* header_texts,
                const char* const* header_names);
  int (*compile)(Program, int count, const char* const* options);
  int (*log_size)(Program, size_t* bytes);
  int (*log)(Program, char* text);
  int (*cubin_size)(Program, size_t* bytes);
  int (*cubin)(Program, char* bytes);
  int (*ptx_size)(Program, size_t* bytes);
  int (*ptx)(Program, char* text);
  int (*destroy)(Program*);
  const char* (*error_text)(int code);
};

struct NvrtcLibrary {
  std::string path;                ///< the file that was opened
  int major = 0, minor = 0;        ///< "13.0"
  std::string identity;            ///< version and size of the file: differs between builds of one version
  std::vector<int> architectures;  ///< such as 80, 90
  NvrtcFunctions call;
  std::string version() const { return fmt::format("{}.{}", major, minor); }
};

/// Where NVRTC may be, in the order that is tried: $NABLA_NVRTC (a file or a folder; then nothing else), the folder
/// nvrtc of cache_directory(), the loader's own search, /usr/local/cuda, the wheel nvidia-cuda-nvrtc in Python's
/// site-packages.
std::vector<std::string> nvrtc_candidates();

/// Opens the first that is there, with the library of built-in functions beside it; they stay open. E0505 names all that
/// were tried; also E0505 for a library that is older than 12.
Result<NvrtcLibrary> open_nvrtc(const std::vector<std::string>& candidates);

}  // namespace nabla::codegen
