"""What `import nabla` does, and does not do."""

import os
import subprocess
import sys
import sysconfig

import nabla


def run(code):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_extension_is_for_this_python_alone():
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert nabla._nabla.__file__.endswith("/nabla/_nabla" + suffix)


def test_the_version_is_that_of_the_programs():
    header = open("runtime/base/version.h").read()
    assert f'kVersion = "{nabla.__version__}"' in header


def test_type_checkers_may_read_it():
    assert os.path.exists(os.path.join(os.path.dirname(nabla.__file__), "py.typed"))


def test_numpy_is_not_imported():
    assert run("import sys, nabla; print('numpy' in sys.modules)") == "False"


def test_nothing_is_printed_or_started():
    assert run("import nabla") == ""
    assert run("import nabla, os; print(len(os.listdir('/proc/self/task')))") == "1"


def test_the_extension_needs_no_library_but_the_systems():
    """So that it can be loaded beside any other: the C++ library and all of Nabla are inside."""
    listed = subprocess.run(["ldd", nabla._nabla.__file__], capture_output=True, text=True, check=True).stdout
    needed = {os.path.basename(line.split()[0]) for line in listed.splitlines()}
    allowed = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "linux-vdso.so.1"}
    assert "libc.so.6" in needed
    assert {name for name in needed - allowed if not name.startswith("ld-linux")} == set()
