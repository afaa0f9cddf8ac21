"""Tests of GPU programs on the fake driver."""

load("//tools:joined.bzl", "joined_tests")

def fake_gpu_test(name, size = "medium", deps = [], src = None, joined = [], **kwargs):
    """A test whose bundles run on the fake driver, with the emulator and the fakes of NVIDIA's libraries.

    Args:
      name: the name of the test
      size: of cc_test
      deps: of cc_test, without those that every such test has
      src: its source, if that is not NAME.cc
      joined: the sources of a test that has several
      **kwargs: of cc_test
    """
    more = [
        ":fake_gpu",
        "//runtime/format",
        "//tests:nightly",
        "@system//:gtest_main",
    ]
    if joined:
        joined_tests(name = name, size = size, srcs = joined, deps = deps + more, **kwargs)
    else:
        native.cc_test(name = name, size = size, srcs = [src or name + ".cc"], deps = deps + more, **kwargs)
