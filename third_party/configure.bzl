"""Repositories that are made by looking at the machine."""

_PYTHON_FACTS = """
import sys, sysconfig
print(sysconfig.get_path("include"))
print(sysconfig.get_config_var("EXT_SUFFIX"))
print("%d.%d" % sys.version_info[:2])
"""

_PYTHON_BUILD = """
package(default_visibility = ["//visibility:public"])

# A folder of its own, never /usr/include: that one on -isystem breaks libstdc++'s #include_next.
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
)
"""

# Nothing but the bindings needs Python, so that what is missing is said when they are built, not before.
_NO_PYTHON_BUILD = """
package(default_visibility = ["//visibility:public"])

genrule(
    name = "missing",
    outs = ["missing.h"],
    cmd = "echo '{why}' >&2; exit 1",
)

cc_library(
    name = "headers",
    hdrs = [":missing"],
)
"""

_DEFS = """
PYTHON = "{python}"
EXT_SUFFIX = "{suffix}"
"""

def _missing(ctx, python, why):
    ctx.file("BUILD", _NO_PYTHON_BUILD.format(why = why.replace("'", "")))
    ctx.file("defs.bzl", _DEFS.format(python = python, suffix = ".so"))

def _python_dev(ctx):
    named = ctx.os.environ.get("NABLA_PYTHON", "")
    python = named if named else "/usr/bin/python3"
    hint = "set NABLA_PYTHON to another Python" if named else "install python3-dev, or set NABLA_PYTHON"
    if not python.startswith("/") or not ctx.path(python).exists:
        _missing(ctx, python, "there is no Python at %s (the absolute path of one is wanted): %s" % (python, hint))
        return
    result = ctx.execute([python, "-c", _PYTHON_FACTS])
    facts = result.stdout.splitlines()
    if result.return_code != 0 or len(facts) != 3:
        _missing(ctx, python, "%s does not run as a Python 3: %s" % (python, hint))
        return
    include, suffix, version = facts
    if not ctx.path(include + "/Python.h").exists:
        _missing(ctx, python, "%s/Python.h, the header of %s, is missing: " % (include, python) +
                              "install its package (Debian: python%s-dev), or set NABLA_PYTHON" % version)
        return
    pybind11 = "/usr/include/pybind11/pybind11.h"
    if not ctx.path(pybind11).exists:
        _missing(ctx, python, pybind11 + " is missing: install its package (Debian: pybind11-dev)")
        return
    ctx.symlink(include, "include")
    ctx.file("BUILD", _PYTHON_BUILD)
    ctx.file("defs.bzl", _DEFS.format(python = python, suffix = suffix))

# The Python that the bindings are built for and tested with: $NABLA_PYTHON, else Debian's. It gives
# @python_dev//:headers, and in defs.bzl PYTHON, its path, and EXT_SUFFIX, how names of extension modules end.
python_dev = repository_rule(
    implementation = _python_dev,
    environ = ["NABLA_PYTHON"],
    local = True,
)
