// NVRTC 11.8, as far as opening it goes.
extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 11;
  *minor = 8;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int* list) {
  list[0] = 80;
  return 0;
}
#define ABSENT(name) \
  int name() { return 1; }
ABSENT(nvrtcCreateProgram)
ABSENT(nvrtcCompileProgram)
ABSENT(nvrtcGetProgramLogSize)
ABSENT(nvrtcGetProgramLog)
ABSENT(nvrtcGetCUBINSize)
ABSENT(nvrtcGetCUBIN)
ABSENT(nvrtcGetPTXSize)
ABSENT(nvrtcGetPTX)
ABSENT(nvrtcDestroyProgram)
ABSENT(nvrtcGetErrorString)
}
