// The part of every emulated object that is never instrumented: its place among the threads, and the calls that
// -fsanitize=thread,alignment,bounds makes. Text of a source of its own, after abi.h.
#pragma once
extern "C" {
#define NB_EMU_HIDDEN __attribute__((visibility("hidden")))

NB_EMU_HIDDEN const NbEmuHost* nb_emu_host;
NB_EMU_HIDDEN NbEmuPosition nb_emu_thread() { return nb_emu_host->thread->thread; }
NB_EMU_HIDDEN NbEmuPosition nb_emu_block() { return nb_emu_host->thread->block; }
NB_EMU_HIDDEN NbEmuPosition nb_emu_threads() { return nb_emu_host->thread->threads; }
NB_EMU_HIDDEN NbEmuPosition nb_emu_blocks() { return nb_emu_host->thread->blocks; }
NB_EMU_HIDDEN unsigned nb_emu_lane() { return nb_emu_host->thread->lane; }
NB_EMU_HIDDEN void* nb_emu_shared() { return nb_emu_host->thread->shared; }
static void nb_emu_bind(const NbEmuHost* host) { nb_emu_host = host; }

NB_EMU_HIDDEN extern const NbEmuKernel nb_emu_kernels[];
NB_EMU_HIDDEN extern const int nb_emu_kernel_count;
// The linker's names for the ends of the section of static shared memory, where there is one, and of the whole image.
NB_EMU_HIDDEN extern unsigned char __start_nb_emu_static[] __attribute__((weak));
NB_EMU_HIDDEN extern unsigned char __stop_nb_emu_static[] __attribute__((weak));
NB_EMU_HIDDEN extern unsigned char __ehdr_start[], _end[];

__attribute__((visibility("default"))) const NbEmuObject* nb_emu_object() {
  static NbEmuObject object;
  object.bind = nb_emu_bind, object.kernels = nb_emu_kernels, object.count = nb_emu_kernel_count;
  object.shared_begin = __start_nb_emu_static, object.shared_end = __stop_nb_emu_static;
  object.image_begin = __ehdr_start, object.image_end = _end;
  return &object;
}

// ---- Loads and stores
#define NB_EMU_PC __builtin_return_address(0)
#define NB_EMU_ACCESS(name, bytes)                                                                                  \
  NB_EMU_HIDDEN void __tsan_read##name(void* p) { nb_emu_host->note_access(p, bytes, false, NB_EMU_PC); }           \
  NB_EMU_HIDDEN void __tsan_write##name(void* p) { nb_emu_host->note_access(p, bytes, true, NB_EMU_PC); }           \
  NB_EMU_HIDDEN void __tsan_unaligned_read##name(void* p) { nb_emu_host->note_access(p, bytes, false, NB_EMU_PC); } \
  NB_EMU_HIDDEN void __tsan_unaligned_write##name(void* p) { nb_emu_host->note_access(p, bytes, true, NB_EMU_PC); }
NB_EMU_ACCESS(1, 1)
NB_EMU_ACCESS(2, 2)
NB_EMU_ACCESS(4, 4)
NB_EMU_ACCESS(8, 8)
NB_EMU_ACCESS(16, 16)
NB_EMU_HIDDEN void __tsan_read_range(void* p, unsigned long bytes) {
  nb_emu_host->note_access(p, bytes, false, NB_EMU_PC);
}
NB_EMU_HIDDEN void __tsan_write_range(void* p, unsigned long bytes) {
  nb_emu_host->note_access(p, bytes, true, NB_EMU_PC);
}
NB_EMU_HIDDEN void __tsan_init() {}
NB_EMU_HIDDEN void __tsan_func_entry(void*) {}
NB_EMU_HIDDEN void __tsan_func_exit() {}

// ---- Alignment and bounds, in the layout of UBSan's records
struct NbEmuSourceType {
  unsigned short kind, info;
  char name[1];
};
struct NbEmuAlignment {
  const char* file;
  unsigned line, column;
  const NbEmuSourceType* type;
  unsigned char log_alignment, check;
};
struct NbEmuBounds {
  const char* file;
  unsigned line, column;
  const NbEmuSourceType *array, *index;
};
NB_EMU_HIDDEN void __ubsan_handle_type_mismatch_v1(NbEmuAlignment* data, void* at) {
  nb_emu_host->note_misaligned(at, data->type->name, NB_EMU_PC);
}
NB_EMU_HIDDEN void __ubsan_handle_out_of_bounds(NbEmuBounds* data, unsigned long index) {
  nb_emu_host->note_bounds(index, data->array->name, NB_EMU_PC);
}
}
