// What a command-line program settles about its process and its files before it works.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::format {

/// Standard streams that were closed become ones that cannot be used, so that no file gets their descriptors; a file
/// size limit becomes a failed write instead of a signal. `outlives_reader`: so does a pipe that nobody reads any more,
/// for programs whose work is more than what they print. Called first in main.
void prepare_process(bool outlives_reader);

/// E0803 when something that was printed did not arrive.
Status flush_stdout();

/// A file that a command line names. An empty path stands for none.
struct NamedFile {
  std::string option;  ///< "--metrics"
  std::string path;
};
/// Before any work: every output can be made in its folder, and is neither an input nor another output (also not by
/// another name of the same file; devices aside). E0803, E0901.
Status check_files(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

}  // namespace nabla::format
