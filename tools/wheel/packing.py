"""Wheels of the package `nabla`: files, metadata and their record, as PEP 427 and the core metadata 2.1 say.

The same files give the same bytes.
"""

import base64
import hashlib
import os
import re
import sys
import sysconfig
import zipfile

NAME = "nabla"

METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Array programs that are traced, differentiated, compiled ahead of time and run without a compiler
Requires-Python: >=3.10
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Description-Content-Type: text/markdown

"""


def version(root):
    """The version of the sources under `root`, which runtime/base/version.h holds."""
    header = os.path.join(root, "runtime", "base", "version.h")
    with open(header, encoding="utf-8") as file:
        found = re.search(r'\bkVersion = "([^"]+)"', file.read())
    if not found:
        raise RuntimeError(f'{header} does not say kVersion = "..."')
    return found.group(1)


def tag():
    """What this interpreter loads: cp311-cp311-linux_x86_64."""
    if sys.implementation.name != "cpython":
        raise RuntimeError(f"the extension module is made for CPython, and this is {sys.implementation.name}")
    python = "cp{}{}".format(*sys.version_info)
    # SOABI is cpython-311-x86_64-linux-gnu; builds of another kind have letters after the digits (313t).
    abi = "cp" + sysconfig.get_config_var("SOABI").split("-")[1]
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{abi}-{platform}"


def package_files(package, extension):
    """(name in the wheel, path) of the package's sources, in the folder `package`, of the extension module, and of the
    kernels in `eager` and the plug-ins in `plugins` beside it."""
    files = [(f"{NAME}/{os.path.basename(extension)}", extension)]
    for folder in ("eager", "plugins"):
        built = os.path.join(os.path.dirname(extension), folder)
        for name in os.listdir(built) if os.path.isdir(built) else []:
            files.append((f"{NAME}/{folder}/{name}", os.path.join(built, name)))
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        inside = os.path.relpath(folder, os.path.dirname(package))
        for name in names:
            if name.endswith((".py", ".pyi")) or name == "py.typed":
                files.append((f"{inside}/{name}".replace(os.sep, "/"), os.path.join(folder, name)))
    return sorted(files)


def info_folder(version):
    return f"{NAME}-{version}.dist-info"


def metadata(version, readme):
    return METADATA.format(name=NAME, version=version) + readme


class Wheel:
    """A wheel that is being written: `with Wheel(folder, version, readme) as made: made.add("nabla/x.py", data)`."""

    def __init__(self, folder, version, readme):
        self.file_name = f"{NAME}-{version}-{tag()}.whl"
        self._version, self._readme = version, readme
        self._path = os.path.join(folder, self.file_name)
        self._record = []

    def __enter__(self):
        self._zip = zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED)
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self._add_info()
        self._zip.close()
        if kind is not None:
            os.remove(self._path)

    def add(self, name, data, executable=False):
        self._write(name, data, executable)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}\n")

    def add_files(self, files):
        for name, path in files:
            with open(path, "rb") as file:
                self.add(name, file.read(), executable=name.endswith(".so"))

    def _add_info(self):
        info = info_folder(self._version)
        kind = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag()}\n"
        self.add(f"{info}/METADATA", metadata(self._version, self._readme).encode())
        self.add(f"{info}/WHEEL", kind.encode())
        record = f"{info}/RECORD"
        self._write(record, ("".join(self._record) + f"{record},,\n").encode(), False)

    def _write(self, name, data, executable):
        entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self._zip.writestr(entry, data)
