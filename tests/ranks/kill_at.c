/* Preloaded into a program: kills its process at one of its calls on a file, where nothing else could hit it.
 * KILL_AT="RANK WHEN CALL N PATH;...": at the N-th CALL whose path ends with PATH, `before` it, `after` it, or when it has
 * written `half`. A process of no rank counts as rank 0. Starts of the job after the first live. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  long rank, number, seen;
  char when[8], call[16], path[256];
} Point;

static Point points[8];
static size_t count;

static long variable(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text == NULL ? otherwise : atol(text);
}

__attribute__((constructor)) static void read_points(void) {
  long rank = variable("OMPI_COMM_WORLD_RANK", variable("NABLA_RANK", 0));
  const char* text = variable("NABLA_EPOCH", 0) == 0 ? getenv("KILL_AT") : NULL;
  while (text != NULL && count < sizeof points / sizeof *points) {
    Point* p = &points[count];
    int fields = sscanf(text, "%ld %7s %15s %ld %255[^;]", &p->rank, p->when, p->call, &p->number, p->path);
    if (fields != 5) fprintf(stderr, "KILL_AT: `%s` is no point\n", text), abort();
    if (p->rank == rank) ++count;
    text = strchr(text, ';');
    if (text != NULL) ++text;
  }
}

/* The first letter of when this call ends the process; 0: it does not. */
static char ends_at(const char* call, const char* path) {
  size_t length = strlen(path);
  for (Point* p = points; p < points + count; ++p) {
    size_t end = strlen(p->path);
    if (strcmp(call, p->call) != 0 || length < end || strcmp(path + length - end, p->path) != 0) continue;
    if (++p->seen == p->number) return p->when[0];
  }
  return 0;
}

static char ends_at_file(const char* call, int fd) {
  char link[64], path[4096];
  if (count == 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n < 0 ? 0 : n] = 0;
  return ends_at(call, path);
}

#define AROUND(result, name, parameters, arguments, found)     \
  result name parameters {                                     \
    static result(*real) parameters;                           \
    if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, #name); \
    char when = found;                                         \
    if (when == 'b') raise(SIGKILL);                           \
    result out = real arguments;                               \
    if (when == 'a' || when == 'h') raise(SIGKILL);            \
    return out;                                                \
  }

AROUND(int, mkdir, (const char* path, mode_t mode), (path, mode), ends_at("mkdir", path))
AROUND(int, unlink, (const char* path), (path), ends_at("unlink", path))
AROUND(int, rmdir, (const char* path), (path), ends_at("rmdir", path))
AROUND(int, fsync, (int fd), (fd), ends_at_file("fsync", fd))
AROUND(ssize_t, write, (int fd, const void* from, size_t bytes), (fd, from, when == 'h' ? bytes / 2 : bytes), ends_at_file("write", fd))
AROUND(int, renameat2, (int from_dir, const char* from, int to_dir, const char* to, unsigned flags), (from_dir, from, to_dir, to, flags),
       ends_at("renameat2", from))
