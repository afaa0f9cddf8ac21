// What is in a file or an array, in a few words that ranks can compare.
#pragma once

#include <string>

#include "runtime/format/file.h"

namespace nabla::format {

/// For people and to be compared: "of 12345 bytes (content 0a1b2c3d)". Of more than 16 MiB the size and a sample count: the first and the
/// last MiB and 64 blocks of 4 KiB between them.
std::string content_of(Bytes bytes);
/// The same of a file. Says so of one that cannot be read: "that cannot be read (No such file or directory)".
std::string content_of_file(const std::string& path);

}  // namespace nabla::format
