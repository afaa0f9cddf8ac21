// An NVRTC of the version in NABLA_FAKE_NVRTC_VERSION (13.0) that raises the signal NABLA_FAKE_NVRTC_SIGNAL over every
// text, as 13.0 breaks down over some.
#include <csignal>
#include <cstdio>
#include <cstdlib>

extern "C" {
int nvrtcVersion(int* major, int* minor) {
  const char* version = std::getenv("NABLA_FAKE_NVRTC_VERSION");
  return std::sscanf(version == nullptr ? "13.0" : version, "%d.%d", major, minor) == 2 ? 0 : 1;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int* list) {
  list[0] = 90;
  return 0;
}
int nvrtcCreateProgram() { return 0; }
int nvrtcCompileProgram() { return raise(std::atoi(std::getenv("NABLA_FAKE_NVRTC_SIGNAL"))); }
#define ABSENT(name) \
  int name() { return 1; }
ABSENT(nvrtcGetProgramLogSize)
ABSENT(nvrtcGetProgramLog)
ABSENT(nvrtcGetCUBINSize)
ABSENT(nvrtcGetCUBIN)
ABSENT(nvrtcGetPTXSize)
ABSENT(nvrtcGetPTX)
ABSENT(nvrtcDestroyProgram)
ABSENT(nvrtcGetErrorString)
}
