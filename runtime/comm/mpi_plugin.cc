// The plug-in `mpi`: messages by Open MPI. The only code that knows MPI; docs/ranks.md.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include "runtime/comm/plugin.h"

namespace {

std::vector<MPI_Request> requests;  // by number; MPI_REQUEST_NULL: free
std::vector<uint32_t> unused;
bool started_here = false;
char text[MPI_MAX_ERROR_STRING + 64];

const char* said(const char* call, int code) {
  if (code == MPI_SUCCESS) return nullptr;
  char why[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, why, &size);
  std::snprintf(text, sizeof text, "%s: %s", call, why);
  return text;
}

const char* open_mpi() {
  int there = 0;
  MPI_Initialized(&there);
  if (there == 0) {
    int level = 0;
    // One thread calls MPI; others of the process do not.
    if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level)) return said("MPI_Init_thread", code);
    started_here = true;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return nullptr;
}

uint32_t rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return static_cast<uint32_t>(r);
}
uint32_t ranks() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return static_cast<uint32_t>(n);
}

uint32_t slot() {
  if (unused.empty()) {
    unused.push_back(static_cast<uint32_t>(requests.size()));
    requests.push_back(MPI_REQUEST_NULL);
  }
  uint32_t out = unused.back();
  unused.pop_back();
  return out;
}

const char* send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes, uint32_t* request) {
  *request = slot();
  return said("MPI_Isend", MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(to), static_cast<int>(tag),
                                     MPI_COMM_WORLD, &requests[*request]));
}
const char* recv(uint32_t from, uint32_t tag, void* to, uint64_t bytes, uint32_t* request) {
  *request = slot();
  return said("MPI_Irecv", MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(from), static_cast<int>(tag),
                                     MPI_COMM_WORLD, &requests[*request]));
}
const char* test(uint32_t request, int32_t* done, uint64_t* received) {
  int flag = 0, count = 0;
  MPI_Status status;
  if (int code = MPI_Test(&requests[request], &flag, &status)) return said("MPI_Test", code);
  *done = flag;
  if (flag == 0) return nullptr;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *received = static_cast<uint64_t>(count < 0 ? 0 : count);
  unused.push_back(request);
  return nullptr;
}

const char* close_mpi() { return started_here ? said("MPI_Finalize", MPI_Finalize()) : nullptr; }

const nabla_transport table = {NABLA_TRANSPORT_VERSION, "mpi", open_mpi, rank, ranks, send, recv, test, close_mpi};

}  // namespace

extern "C" const nabla_transport* nabla_transport_v1(void) { return &table; }
