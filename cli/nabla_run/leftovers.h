// What Open MPI 4.1 leaves on a machine when its mpirun is killed, which would have removed it.
#pragma once

#include <sys/types.h>

namespace nabla::cli {

/// Removes the session folder of that mpirun ($TMPDIR/ompi.HOST.UID/pid.PID), if there is one. The process is gone.
void remove_session(pid_t mpirun);
/// Removes the shared memory of the rank that this process was started as (/dev/shm/vader_segment...), which is gone.
void remove_rank_leftovers();

}  // namespace nabla::cli
