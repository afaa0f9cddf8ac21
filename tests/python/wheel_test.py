"""Wheels, made of what Bazel has built: what pip reads in them is right, and what it unpacks can be imported.

The backend is called in a copy of the tree, for it is not started by Bazel when pip does it.
"""

import base64
import csv
import email
import glob
import hashlib
import importlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

import nabla

EXTENSION = nabla._nabla.__file__
TREE = ["README.md", "runtime/base/version.h", "tools/setup.sh", "tools/wheel/backend.py", "tools/wheel/packing.py"]
INFO = f"nabla-{nabla.__version__}.dist-info"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A checkout, as far as the backend reads it."""
    root = tmp_path_factory.mktemp("tree")
    for name in TREE:
        os.makedirs(os.path.dirname(root / name), exist_ok=True)
        shutil.copy(name, root / name)
    package = root / "frontend/python/nabla"
    shutil.copytree(os.path.dirname(nabla.__file__), package, ignore=shutil.ignore_patterns("*.so"))
    (package / "__pycache__").mkdir()
    (package / "__pycache__/old.py").write_text("raise SystemExit(1)")
    return root


@pytest.fixture(scope="module")
def backend(tree):
    sys.path.insert(0, str(tree / "tools/wheel"))
    yield importlib.import_module("backend")
    sys.path.remove(str(tree / "tools/wheel"))


@pytest.fixture(scope="module")
def wheel(backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    return folder / backend.write_wheel(str(folder), EXTENSION)


def run(code, **environment):
    environment = dict(os.environ, **environment)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def check_record(archive):
    """Every file has its line, and every line its file, with size and digest; but for the record itself."""
    record = list(csv.reader(io.StringIO(archive.read(f"{INFO}/RECORD").decode())))
    assert sorted(row[0] for row in record) == sorted(archive.namelist())
    for name, digest, size in record:
        if name == f"{INFO}/RECORD":
            assert (digest, size) == ("", "")
            continue
        data = archive.read(name)
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert int(size) == len(data)


def test_the_record_names_every_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        check_record(archive)


def test_the_package_is_whole(wheel):
    folder = os.path.dirname(nabla.__file__)
    sources = glob.glob(folder + "/**/*.py", recursive=True) + glob.glob(folder + "/eager/*.nbundle")
    expected = {os.path.relpath(path, os.path.dirname(folder)) for path in sources}
    expected |= {"nabla/py.typed", "nabla/plugins/libnabla_mpi.so", "nabla/" + os.path.basename(EXTENSION)}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("nabla/") and not name.endswith(".pyi")}
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert names == expected
    assert {modes[name] for name in names if name.endswith(".py")} == {0o100644}


def test_the_name_says_for_which_python(wheel):
    digits = "cp{}{}".format(*sys.version_info)
    name, version, python, abi, platform = wheel.name[: -len(".whl")].split("-")
    assert (name, version, python) == ("nabla", nabla.__version__, digits)
    assert abi in (digits, digits + "d", digits + "t")
    assert platform.startswith("linux_")
    with zipfile.ZipFile(wheel) as archive:
        kind = email.message_from_bytes(archive.read(f"{INFO}/WHEEL"))
    assert kind["Tag"] == f"{python}-{abi}-{platform}"
    assert kind["Root-Is-Purelib"] == "false"


def test_the_metadata_says_what_it_is(wheel, backend, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{INFO}/METADATA")
    said = email.message_from_bytes(text)
    assert (said["Name"], said["Version"]) == ("nabla", nabla.__version__)
    assert said["Requires-Dist"] == 'numpy; extra == "numpy"'
    assert said.get_payload().startswith("# Nabla")
    # What pip asks for before it builds.
    assert backend.prepare_metadata_for_build_wheel(str(tmp_path)) == INFO
    assert (tmp_path / INFO / "METADATA").read_bytes() == text


def test_the_same_files_give_the_same_bytes(wheel, backend, tmp_path):
    assert (tmp_path / backend.write_wheel(str(tmp_path), EXTENSION)).read_bytes() == wheel.read_bytes()


def test_what_is_unpacked_can_be_imported(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    said = run("import nabla; print(nabla.__version__, nabla._nabla.__file__)", PYTHONPATH=str(tmp_path))
    assert said == f"{nabla.__version__} {tmp_path}/nabla/{os.path.basename(EXTENSION)}"


def test_an_editable_one_leads_to_the_sources(backend, tree, tmp_path):
    made = tmp_path / backend.write_editable(str(tmp_path), EXTENSION)
    site = tmp_path / "site"
    with zipfile.ZipFile(made) as archive:
        check_record(archive)
        archive.extractall(site)
    code = f"import site; site.addsitedir({str(site)!r}); import nabla; print(nabla.__file__, nabla._nabla.__file__)"
    assert run(code, PYTHONPATH="") == f"{tree}/frontend/python/nabla/__init__.py {EXTENSION}"


def test_what_the_machine_lacks_is_said(backend, tmp_path, monkeypatch, capsys):
    def said():
        with pytest.raises(SystemExit) as end:
            backend.build_wheel(str(tmp_path))
        assert end.value.code == 1
        return capsys.readouterr().err

    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "there is no bazel on the PATH; on Debian 12: apt install ca-certificates git g++" in said()
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
    package = "python{}.{}-dev".format(*sys.version_info)
    missing = f"/nowhere/Python.h is missing, the header of {sys.executable}: install its package (Debian: {package})"
    assert missing in said()
    assert os.listdir(tmp_path) == []


def test_settings_are_refused(backend, tmp_path, capsys):
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path), {"opt": "3"})
    assert "config settings are not known here: {'opt': '3'}" in capsys.readouterr().err


def test_a_failure_of_bazel_is_said(backend, tmp_path, monkeypatch, capfd):
    bazel = tmp_path / "bazel"
    bazel.write_text("#!/bin/sh\necho why $NABLA_PYTHON\nexit 7\n")
    bazel.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(backend, "_check_machine", lambda: None)
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path))
    out, err = capfd.readouterr()
    assert f"why {sys.executable}" in out
    assert "`bazel build --config=opt" in err and "exit code 7" in err


def test_there_are_no_source_distributions(backend, tmp_path):
    with pytest.raises(backend.UnsupportedOperation, match="make wheels in a checkout, by `pip wheel .`"):
        backend.build_sdist(str(tmp_path))
