// What a compiled CUDA source and the emulator say to each other. Text in front of every source, and a header here.
#pragma once

struct NbEmuPosition {
  unsigned x, y, z;
};

/// The running CUDA thread. The emulator writes it, code of kernels reads it.
struct NbEmuThread {
  NbEmuPosition thread, block, threads, blocks;  ///< threadIdx, blockIdx, blockDim, gridDim
  unsigned lane;
  void* shared;  ///< the block's dynamic shared memory
};

/// What a driver writes where it is asked for a CUtensorMap, whose 128 bytes are its own affair: which box of an array in global
/// memory the copy engine of sm_90 brings into shared memory. Rows of the box are 128 bytes there, swizzled by 16.
struct alignas(64) NbEmuTensorMap {
  unsigned known;  ///< kNbEmuTensorMap
  int rank, element;
  const char* at;
  unsigned long sizes[5], strides[5];  ///< elements, bytes; the fastest dimension first
  unsigned box[5];
};
const unsigned kNbEmuTensorMap = 0x6d617054;
static_assert(sizeof(NbEmuTensorMap) == 128, "as large as a CUtensorMap");

/// Runs once per operation of a warp, on the slots of all lanes, kNbEmuSlot bytes apart.
typedef void (*NbEmuFinish)(unsigned char* slots, unsigned mask);
const unsigned long kNbEmuSlot = 64;

/// A product of a warpgroup (wgmma), as one thread sees it. It runs some time between the instruction and the wait for its group.
struct NbEmuWgmma {
  void (*run)(float* sums, const NbEmuWgmma* self);  ///< adds the product to the thread's sums
  const void *a, *b;                                 ///< tiles in shared memory
  unsigned x[4];                                     ///< or the first factor, in registers
  int step;
  float* d;             ///< the sums, which are NaN until the wait
  unsigned long count;  ///< of them
};
const int kNbEmuMostSums = 128;

struct NbEmuHost {
  const NbEmuThread* thread;
  void (*block_barrier)(const char* word);
  /// The lanes of `mask` meet and deposit `bytes` each. `out` receives the slot of lane `from`, or all with from = -1.
  void (*warp)(const char* word, unsigned mask, const void* in, unsigned long bytes, void* out, int from,
               NbEmuFinish finish);
  void (*copy_async)(void* shared, const void* global, int bytes);
  void (*copy_commit)();
  void (*copy_wait)(int groups_left);
  // mbarrier and cp.async.bulk.tensor. `at` is the barrier's place in shared memory.
  void (*barrier_init)(void* at, unsigned count);
  void (*barrier_expect)(void* at, unsigned bytes);
  void (*barrier_wait)(void* at, unsigned parity);
  void (*copy_box)(void* at, void* shared, const NbEmuTensorMap* map, const int* where, int rank);
  /// True: the product runs now; false: `wgmma_next` gives it to a later wait.
  bool (*wgmma_ask)(const NbEmuWgmma* what);
  void (*wgmma_commit)();
  /// The next product of all groups but the last `groups_left` that has not run; false: there is none, and all their sums are there.
  bool (*wgmma_next)(int groups_left, NbEmuWgmma* out);
  /// Copies the sums that a product adds to from or to where they wait.
  void (*wgmma_sums)(const NbEmuWgmma* of, float* sums, bool store);
  /// fence.proxy.async: what this thread has written, or has seen written, in shared memory may be read by wgmma and overwritten by TMA.
  void (*fence_async)();
  void (*note_atomic)(void* at, unsigned long bytes);
  // The checked variant alone:
  void (*note_access)(void* at, unsigned long bytes, bool write, void* pc);
  void (*note_misaligned)(void* at, const char* type, void* pc);
  void (*note_bounds)(unsigned long index, const char* type, void* pc);
};

struct NbEmuKernel {
  const char* symbol;
  void (*run)(void** args);  ///< args[i] points to the value of argument i
  int args;
  const unsigned long* bytes;  ///< of each argument
};

/// All of one shared object, found by the name nb_emu_object.
struct NbEmuObject {
  void (*bind)(const NbEmuHost* host);
  const NbEmuKernel* kernels;
  int count;
  unsigned char *shared_begin, *shared_end;  ///< static shared memory
  unsigned char *image_begin, *image_end;    ///< everything that is mapped of the object
};
