/* What a plug-in of nabla-run exports: messages between processes. C, so that it may be built by any compiler.
 *
 * All functions are called by one thread. Those that return text return NULL when all is well, else what went wrong,
 * which lives until the next call. */
#ifndef NABLA_RUNTIME_COMM_PLUGIN_H_
#define NABLA_RUNTIME_COMM_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_TRANSPORT_VERSION 1

typedef struct {
  uint32_t version;
  const char* name; /* "mpi" */
  const char* (*open)(void);
  uint32_t (*rank)(void);
  uint32_t (*ranks)(void);
  /* Begin; `bytes` are at most 2^30, tags below 2^30. */
  const char* (*send)(uint32_t to, uint32_t tag, const void* from, uint64_t bytes, uint32_t* request);
  const char* (*recv)(uint32_t from, uint32_t tag, void* to, uint64_t bytes, uint32_t* request);
  /* *done: 1 when it is over and the request gone. *received: bytes of the message that came. */
  const char* (*test)(uint32_t request, int32_t* done, uint64_t* received);
  const char* (*close)(void);
} nabla_transport;

/* The only symbol: "nabla_transport_v1". */
const nabla_transport* nabla_transport_v1(void);
typedef const nabla_transport* (*nabla_transport_entry)(void);

#ifdef __cplusplus
}
#endif
#endif /* NABLA_RUNTIME_COMM_PLUGIN_H_ */
