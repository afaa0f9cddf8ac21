// Where pip puts NVIDIA's libraries.
#pragma once

#include <string>
#include <vector>

namespace nabla {

/// PREFIX/lib/python3*/{site,dist}-packages/nvidia/*/lib/FILE for every prefix in which packages are installed: that of
/// $VIRTUAL_ENV, of the first `python3` on $PATH, ~/.local, /usr/local and /usr. Those that are there, in this order.
std::vector<std::string> files_in_wheels(const std::string& file);

}  // namespace nabla
