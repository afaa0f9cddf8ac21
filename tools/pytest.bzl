"""pytest_test: tests of the Python package."""

load("@python_dev//:defs.bzl", "PYTHON")

def pytest_test(name, srcs, size, data = [], tags = [], **kwargs):
    """Runs pytest on files, by the Python that the extension module is built for ($NABLA_PYTHON, else Debian's).

    `import nabla` finds the package; modules beside a test's file, which `data` names, can be imported too. A test that
    collects nothing fails; --test_filter is pytest's -k.

    Args:
      name: of the target
      srcs: the test_*.py or *_test.py files that are run
      size: small, medium, ...
      data: what else the tests read
      tags: as of every test; `nosan` is added, because a Python cannot load what a sanitizer has changed
      **kwargs: of sh_test
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tools:pytest_test.sh"],
        args = [PYTHON] + ["$(location %s)" % src for src in srcs],
        data = srcs + data + ["//frontend/python:nabla"],
        tags = tags + ["nosan"],
        **kwargs
    )
