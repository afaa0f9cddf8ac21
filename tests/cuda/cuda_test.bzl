"""Tests of GPU programs on the fake driver."""

def fake_gpu_test(name, size = "medium", deps = [], src = None, **kwargs):
    """A test in NAME.cc, or `src`, whose bundles run on the fake driver, with the emulator and the fakes of NVIDIA's libraries."""
    native.cc_test(
        name = name,
        size = size,
        srcs = [src or name + ".cc"],
        deps = deps + [
            ":fake_gpu",
            "//runtime/format",
            "//tests:nightly",
            "@system//:gtest_main",
        ],
        **kwargs
    )
