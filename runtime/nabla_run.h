/* The C API of the runtime: load a bundle, give it arrays, run its entries.
 *
 * Ownership. A nabla_session owns its state; the caller owns every input and output array and keeps them alive
 * during the call that uses them. Strings returned by the API belong to the session (or to the status) that
 * returned them and live as long as it does.
 * Threads. A session is used by one thread at a time; different sessions are independent.
 * Errors. Functions that can fail return a nabla_status*: NULL is success; anything else is freed with
 * nabla_status_free. Codes are those of `nablac doc errors` (E0703 is 703).
 * Versions. NABLA_RUN_VERSION changes when a declaration here changes its meaning; declarations are only added. */
#ifndef NABLA_RUNTIME_NABLA_RUN_H_
#define NABLA_RUNTIME_NABLA_RUN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_RUN_VERSION 4

typedef struct nabla_session nabla_session;
typedef struct nabla_status nabla_status;

/* DLPack's element types: code 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2, and its
 * bits; lanes are 1. */
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} nabla_dtype;

/* The fields of a DLTensor on the CPU, in its order. Row-major and contiguous: strides may be NULL. */
typedef struct {
  void* data;
  int32_t device_type; /* 1: CPU */
  int32_t device_id;
  int32_t ndim;
  nabla_dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} nabla_tensor;

typedef struct {
  const char* name;
  nabla_dtype dtype;
  int32_t ndim;
  const int64_t* shape;
} nabla_tensor_info;

typedef struct {
  int32_t threads;   /* of a program for CPUs; 0: as many as the process may run on */
  const char* trace; /* not NULL: write a Chrome trace of all runs to this file when the session ends */
  const char* target; /* not NULL: the bundle's program for this target ("sm_90a"), not the first that can run here */
  int32_t check_nan;  /* not 0: an instruction that makes NaN or infinity is error 708; slow */
  int32_t sync_debug; /* not 0: wait after every instruction of a GPU, to name one that fails; slow; 901 on CPUs */
  /* Of a bundle for several ranks. NULL: all of them run, a thread each; inputs, outputs and state are whole arrays. Else
   * one rank of this class, which needs no partners. */
  const char* rank_class;
} nabla_options;

uint32_t nabla_run_version(void);

int32_t nabla_status_code(const nabla_status* status);
/* The whole diagnostic, several lines. */
const char* nabla_status_message(const nabla_status* status);
void nabla_status_free(nabla_status* status);

/* Reads, verifies and prepares a bundle, or an executable that carries one. `options` may be NULL. */
nabla_status* nabla_session_open(const char* path, const nabla_options* options, nabla_session** out);
void nabla_session_close(nabla_session* session);

/* Of a bundle for several ranks: this process runs one of them, and other processes the others. A launcher of MPI has
 * started them all, which then make the same calls in the same order; on a machine with several GPUs each takes that of its number
 * among the ranks there. Arrays are whole everywhere: of inputs a process reads
 * its rank's part; of outputs, and of state that is copied out, it gets that part, and rank 0 the whole. nabla_state_save
 * writes the file on rank 0. A rank that fails is no longer waited for after `timeout_s`; nothing else watches the others, as
 * nabla-run does. */
typedef struct {
  size_t size;          /* of this struct, as the caller's header has it; what this runtime does not know of it has to be 0 */
  /* "mpi": libnabla_mpi.so, in $NABLA_PLUGINS, beside the executable, or where the system has libraries. "nccl": of a program for
   * GPUs, one for every rank: ranks meet by MPI, and values go from GPU to GPU. */
  const char* engine;
  double timeout_s;     /* how long a rank waits for another, and a second more for every MiB; 0: 300 */
  int32_t check_messages; /* not 0: every message has a checksum, and a damaged one is error 613; on all ranks, or on none; with
                           * "nccl", whose messages have none, error 901 */
} nabla_rank_options;
/* Once in a process: MPI starts once. A second call is error 707, as is one after the session is closed. */
nabla_status* nabla_session_open_rank(const char* path, const nabla_options* options, const nabla_rank_options* rank_options,
                                      nabla_session** out);
/* Which rank, of how many; 0 of 1 where this process runs all of them. */
int32_t nabla_rank(const nabla_session* session);
int32_t nabla_rank_count(const nabla_session* session);

/* Entries, and the inputs and outputs of one. Indices are in [0, count); for others counts are 0 and names NULL. */
int32_t nabla_entry_count(const nabla_session* session);
const char* nabla_entry_name(const nabla_session* session, int32_t entry);
int32_t nabla_find_entry(const nabla_session* session, const char* name); /* -1: none */
int32_t nabla_input_count(const nabla_session* session, int32_t entry);
int32_t nabla_output_count(const nabla_session* session, int32_t entry);
nabla_tensor_info nabla_input_info(const nabla_session* session, int32_t entry, int32_t input);
nabla_tensor_info nabla_output_info(const nabla_session* session, int32_t entry, int32_t output);

/* Sizes that the caller decides. In the infos above, the extent of such a dimension is its upper bound; here is its
 * expression over the entry's symbols ("batch", "8*len+1"), "" for a constant, NULL out of range. */
const char* nabla_input_size(const nabla_session* session, int32_t entry, int32_t input, int32_t dimension);
const char* nabla_output_size(const nabla_session* session, int32_t entry, int32_t output, int32_t dimension);
/* The shape of an output at the sizes of the last run of the entry; before the first, at the upper bounds. Valid until
 * the next run. NULL out of range. */
const int64_t* nabla_output_shape(const nabla_session* session, int32_t entry, int32_t output);

/* State leaves: read and written in place by the entries, copied in and out here. */
int32_t nabla_state_count(const nabla_session* session);
nabla_tensor_info nabla_state_info(const nabla_session* session, int32_t leaf);
nabla_status* nabla_state_get(nabla_session* session, int32_t leaf, const nabla_tensor* to);
nabla_status* nabla_state_set(nabla_session* session, int32_t leaf, const nabla_tensor* from);
/* safetensors files; a load is all or nothing. */
nabla_status* nabla_state_load(nabla_session* session, const char* path);
nabla_status* nabla_state_save(nabla_session* session, const char* path);

/* Loads tensors of a .safetensors or .npz file into state leaves, over the values that these have. A row of `maps` is
 * "PATTERN=TARGET": tensors whose name matches go to that leaf; `*` stands for a part of the name and fills the `*` of
 * the target; ":transpose" or ":reshape" may follow. Without a row a tensor goes to the leaf of its name. With
 * `partial`, leaves that no tensor fills may stay without a value. All or nothing. */
typedef struct {
  const char* const* maps;
  int32_t map_count;
  int32_t partial;
} nabla_weight_options;
/* `options` and `report` may be NULL. *report, lines for people, lives until the next call or the session's end. */
nabla_status* nabla_load_weights(nabla_session* session, const char* path, const nabla_weight_options* options,
                                 const char** report);

/* Runs an entry. Arrays are in the order of the entry's inputs and outputs and must match their dtype and shape.
 * Where a type has symbolic sizes, the inputs' shapes decide, for this run alone; an output's extents may be larger
 * than needed: the result is written row-major at nabla_output_shape, from the beginning of the array. Outputs are
 * written completely; on failure their contents are undefined. */
nabla_status* nabla_run(nabla_session* session, int32_t entry, const nabla_tensor* inputs, int32_t input_count,
                        const nabla_tensor* outputs, int32_t output_count);

#ifdef __cplusplus
}
#endif
#endif /* NABLA_RUNTIME_NABLA_RUN_H_ */
