/* Embedding Nabla in a C program: loads a bundle, runs one of its entries on arrays of ones and prints the results.
 *
 *   embed BUNDLE ENTRY [STEPS]
 *
 * State that the entry needs is first made by the entry `init`, as nabla-run does it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/nabla_run.h"

enum { kMaxTensors = 64 };

/* Prints and frees a failed status; returns whether there was one. */
static int failed(nabla_status* status) {
  if (status == NULL) return 0;
  fputs(nabla_status_message(status), stderr);
  nabla_status_free(status);
  return 1;
}

static int64_t element_count(const nabla_tensor_info* info) {
  int64_t count = 1;
  for (int32_t d = 0; d < info->ndim; ++d) count *= info->shape[d];
  return count;
}

/* An array for `info`, filled with ones where the dtype is f32 or a 32-bit integer and with zero bytes elsewhere. */
static nabla_tensor make_tensor(nabla_tensor_info info) {
  int64_t count = element_count(&info);
  nabla_tensor tensor = {NULL, 1, 0, info.ndim, info.dtype, (int64_t*)info.shape, NULL, 0};
  tensor.data = calloc(count > 0 ? (size_t)count : 1, info.dtype.bits / 8);
  if (tensor.data == NULL) {
    fputs("out of memory\n", stderr);
    exit(1);
  }
  for (int64_t i = 0; i < count && info.dtype.bits == 32; ++i) {
    if (info.dtype.code == 2) {
      ((float*)tensor.data)[i] = 1.0f;
    } else {
      ((int32_t*)tensor.data)[i] = 1;
    }
  }
  return tensor;
}

static void print_tensor(const char* name, const nabla_tensor* tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) count *= tensor->shape[d];
  printf("%s:", name);
  for (int64_t i = 0; i < count && i < 8; ++i) {
    if (tensor->dtype.code == 2 && tensor->dtype.bits == 32) {
      printf(" %g", ((const float*)tensor->data)[i]);
    } else if (tensor->dtype.bits == 32) {
      printf(" %d", ((const int32_t*)tensor->data)[i]);
    }
  }
  printf(count > 8 ? " ... (%lld elements)\n" : "\n", (long long)count);
}

/* Runs an entry `steps` times; returns the program's exit code. */
static int run(nabla_session* session, int32_t entry, long steps, int print) {
  nabla_tensor inputs[kMaxTensors], outputs[kMaxTensors];
  int32_t input_count = nabla_input_count(session, entry), output_count = nabla_output_count(session, entry);
  if (input_count > kMaxTensors || output_count > kMaxTensors) {
    fprintf(stderr, "entry `%s` has more than %d inputs or outputs\n", nabla_entry_name(session, entry), kMaxTensors);
    return 1;
  }
  for (int32_t i = 0; i < input_count; ++i) inputs[i] = make_tensor(nabla_input_info(session, entry, i));
  for (int32_t i = 0; i < output_count; ++i) outputs[i] = make_tensor(nabla_output_info(session, entry, i));
  int code = 0;
  for (long step = 0; step < steps && code == 0; ++step)
    code = failed(nabla_run(session, entry, inputs, input_count, outputs, output_count));
  for (int32_t i = 0; i < output_count && code == 0 && print; ++i) {
    outputs[i].shape = (int64_t*)nabla_output_shape(session, entry, i);
    print_tensor(nabla_output_info(session, entry, i).name, &outputs[i]);
  }
  for (int32_t i = 0; i < input_count; ++i) free(inputs[i].data);
  for (int32_t i = 0; i < output_count; ++i) free(outputs[i].data);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s BUNDLE ENTRY [STEPS]\n", argv[0]);
    return 2;
  }
  nabla_session* session = NULL;
  if (failed(nabla_session_open(argv[1], NULL, &session))) return 1;
  int32_t entry = nabla_find_entry(session, argv[2]);
  int32_t init = nabla_find_entry(session, "init");
  int code = 0;
  if (entry < 0) {
    fprintf(stderr, "no entry `%s`; there are:", argv[2]);
    for (int32_t i = 0; i < nabla_entry_count(session); ++i) fprintf(stderr, " %s", nabla_entry_name(session, i));
    fputs("\n", stderr);
    code = 1;
  }
  if (code == 0 && init >= 0 && init != entry) code = run(session, init, 1, 0);
  if (code == 0) code = run(session, entry, argc > 3 ? strtol(argv[3], NULL, 10) : 1, 1);
  nabla_session_close(session);
  return code;
}
