// What the operating system may refuse, as errors that name the limit: open files, threads, processes.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "runtime/base/diagnostic.h"

namespace nabla {

/// Raises the limit of open files from the soft to the hard one: a coordinator has a connection for every rank.
void raise_open_files();

/// E0804 "WHAT cannot be had: REASON", with advice that fits the reason.
Diagnostic refused_by_system(const std::string& what, int problem);

/// Starts a thread. E0804 if the system gives none; std::thread would throw. `purpose` completes "a thread that ...".
Status start_thread(std::thread& to, const char* purpose, std::function<void()> work);

}  // namespace nabla
