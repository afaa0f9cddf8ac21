// The nabla-run executable.
#include "cli/nabla_run_main.h"

int main(int argc, char** argv) { return nabla::cli::nabla_run_main(argc, argv); }
