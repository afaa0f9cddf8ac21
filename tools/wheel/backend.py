"""The build backend that pyproject.toml names (PEP 517, PEP 660): `pip install .` has Bazel build the extension module
for the Python that runs this. Needs nothing beyond the standard library.
"""

import os
import shutil
import subprocess
import sys
import sysconfig

import packing

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "frontend", "python", "nabla")

# What an editable installation puts on the path: sources are read where they are, and the extension module where Bazel
# leaves it, so that `bazel build --config=opt //frontend/python:nabla` is enough after a change in C++.
FINDER = '''\
"""Finds nabla in a checkout: Python sources there, the extension module in Bazel's output."""

import importlib.machinery
import importlib.util
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "nabla._nabla":
            return importlib.util.spec_from_file_location(name, {extension!r})
        if name == "nabla":
            return importlib.machinery.PathFinder.find_spec(name, [{folder!r}])
        return None


sys.meta_path.insert(0, Finder)
'''


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    version = packing.version(ROOT)
    folder = os.path.join(metadata_directory, packing.info_folder(version))
    os.makedirs(folder)
    with open(os.path.join(folder, "METADATA"), "w", encoding="utf-8") as file:
        file.write(packing.metadata(version, _readme()))
    return os.path.basename(folder)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, _build_extension(config_settings))


def write_wheel(wheel_directory, extension):
    """The wheel of this tree with an extension module that was built before."""
    with packing.Wheel(wheel_directory, packing.version(ROOT), _readme()) as made:
        made.add_files(packing.package_files(PACKAGE, extension))
    return made.file_name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_editable(wheel_directory, _build_extension(config_settings))


def write_editable(wheel_directory, extension):
    """A wheel that leads to this tree's sources and to the extension module where it is."""
    finder = FINDER.format(folder=os.path.dirname(PACKAGE), extension=extension)
    with packing.Wheel(wheel_directory, packing.version(ROOT), _readme()) as made:
        made.add("_nabla_editable.py", finder.encode())
        made.add("_nabla_editable.pth", b"import _nabla_editable\n")
    return made.file_name


class UnsupportedOperation(Exception):
    """What PEP 517 lets a backend say."""


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("nabla has no source distributions: make wheels in a checkout, by `pip wheel .`")


def _build_extension(config_settings):
    """The path of the extension module, in Bazel's output."""
    if config_settings:
        _fail(f"config settings are not known here: {config_settings}; Bazel reads options from user.bazelrc")
    _check_machine()
    environment = dict(os.environ, NABLA_PYTHON=sys.executable)
    environment.setdefault("HOME", os.path.expanduser("~"))
    # The folder of .bazelrc's --disk_cache must exist.
    os.makedirs(os.path.join(environment["HOME"], ".cache", "nabla-bazel"), exist_ok=True)
    print("building the extension module by Bazel; the first time it takes some minutes", flush=True)
    progress = ["--show_progress", "--curses=no", "--color=no", "--show_progress_rate_limit=5"]
    _bazel(["build", "--config=opt", *progress, "//frontend/python:nabla"], environment)
    folder = _bazel(["info", "--config=opt", "bazel-bin"], environment, stdout=subprocess.PIPE).decode().strip()
    name = "_nabla" + sysconfig.get_config_var("EXT_SUFFIX")
    return os.path.join(folder, "frontend", "python", "nabla", name)


def _check_machine():
    if not shutil.which("bazel"):
        _fail("there is no bazel on the PATH; on Debian 12: apt install " + _core_packages())
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        package = "python{}.{}-dev".format(*sys.version_info)
        _fail(f"{header} is missing, the header of {sys.executable}: install its package (Debian: {package})")
    if not os.path.exists("/usr/include/pybind11/pybind11.h"):
        _fail("/usr/include/pybind11/pybind11.h is missing: install its package (Debian: pybind11-dev)")


def _core_packages():
    """As tools/setup.sh lists them."""
    with open(os.path.join(ROOT, "tools", "setup.sh"), encoding="utf-8") as file:
        return " ".join(file.read().split("core_packages=(")[1].split(")")[0].split())


def _bazel(args, environment, stdout=None):
    done = subprocess.run(["bazel", *args], cwd=ROOT, env=environment, stdout=stdout)
    if done.returncode != 0:
        _fail(f"`bazel {' '.join(args)}` ended with exit code {done.returncode}; what it said is above")
    return done.stdout


def _readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return file.read()


def _fail(message):
    print(f"nabla: error: {message}", file=sys.stderr, flush=True)
    sys.exit(1)
