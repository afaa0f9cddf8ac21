// An NVRTC that breaks down over every text, as 13.0 does over some.
#include <csignal>

extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
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
int nvrtcCompileProgram() { return raise(SIGSEGV); }
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
