/* A program of C that trains the digits MLP as one rank of several, or with all ranks here: c_rank BUNDLE [mpi|nccl].
 * Prints the loss of each step, and a checksum of the state, from rank 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nabla_run.h"

static void check(nabla_status* status) {
  if (status == NULL) return;
  fputs(nabla_status_message(status), stderr);
  exit(1);
}

static int64_t count(nabla_tensor_info t) {
  int64_t out = 1;
  for (int d = 0; d < t.ndim; ++d) out *= t.shape[d];
  return out;
}

/* An array for a tensor, with some values. */
static nabla_tensor make(nabla_tensor_info info, int seed) {
  nabla_tensor t;
  memset(&t, 0, sizeof t);
  int64_t bytes = count(info) * info.dtype.bits / 8;
  unsigned char* data = calloc((size_t)bytes + 1, 1);
  if (info.dtype.bits == 8)
    for (int64_t i = 0; i < bytes; ++i) data[i] = (unsigned char)((i * 7 + seed) % 17);
  if (info.dtype.bits == 32 && info.dtype.code != 2)
    for (int64_t i = 0; i < count(info); ++i) ((int32_t*)data)[i] = (int32_t)((i + seed) % 10);
  t.data = data, t.device_type = 1, t.ndim = info.ndim, t.dtype = info.dtype, t.shape = (int64_t*)info.shape;
  return t;
}

static void run(nabla_session* s, const char* name, int seed, float* first_output) {
  int entry = nabla_find_entry(s, name);
  nabla_tensor in[8], out[8];
  int ins = nabla_input_count(s, entry), outs = nabla_output_count(s, entry);
  for (int i = 0; i < ins; ++i) in[i] = make(nabla_input_info(s, entry, i), seed);
  for (int i = 0; i < outs; ++i) out[i] = make(nabla_output_info(s, entry, i), 0);
  check(nabla_run(s, entry, in, ins, out, outs));
  if (outs > 0) memcpy(first_output, out[0].data, sizeof *first_output);
  for (int i = 0; i < ins; ++i) free(in[i].data);
  for (int i = 0; i < outs; ++i) free(out[i].data);
}

int main(int argc, char** argv) {
  nabla_options options;
  memset(&options, 0, sizeof options);
  options.threads = 1;
  nabla_rank_options rank = {sizeof rank, argc > 2 ? argv[2] : NULL, 30, argc > 2 && strcmp(argv[2], "mpi") == 0};
  nabla_session* s = NULL;
  if (argc > 2)
    check(nabla_session_open_rank(argv[1], &options, &rank, &s));
  else
    check(nabla_session_open(argv[1], &options, &s));
  float loss = 0;
  run(s, "init", 1, &loss);
  for (int step = 0; step < 5; ++step) {
    run(s, "step", step, &loss);
    if (nabla_rank(s) == 0) printf("loss %.9g\n", (double)loss);
  }
  for (int leaf = 0; leaf < nabla_state_count(s); ++leaf) {
    nabla_tensor_info info = nabla_state_info(s, leaf);
    nabla_tensor all = make(info, 0);
    check(nabla_state_get(s, leaf, &all));
    uint32_t sum = 2166136261u;
    for (int64_t i = 0; i < count(info) * info.dtype.bits / 8; ++i) sum = (sum ^ ((unsigned char*)all.data)[i]) * 16777619u;
    if (nabla_rank(s) == 0) printf("%s %08x\n", info.name, sum);
    free(all.data);
  }
  if (nabla_rank(s) == 0) fprintf(stderr, "%d ranks\n", nabla_rank_count(s));
  nabla_session_close(s);
  if (argc > 2) {
    nabla_status* again = nabla_session_open_rank(argv[1], &options, &rank, &s);
    if (nabla_status_code(again) != 707) fputs("a second rank is opened in one process\n", stderr), exit(1);
    nabla_status_free(again);
  }
  return 0;
}
