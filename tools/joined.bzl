"""Sources that are compiled several at a time.

Headers take most of the time that a source needs to compile. Thirty sources joined in one file compile four times as fast
as one by one. A joined file has at most eight sources, so that a change of one of them still compiles in seconds.
"""

_MOST_SOURCES = 8

def _joined(name, srcs, copy):
    """Returns `srcs` for a C++ rule, with generated files that each concatenate several of the sources.

    Args:
      name: the name of the rule
      srcs: its sources and private headers
      copy: the shell command that prints the source `$$f`
    """
    sources = [s for s in srcs if s.endswith(".cc")]
    texts = []
    count = (len(sources) + _MOST_SOURCES - 1) // _MOST_SOURCES
    for i in range(count):
        text = "%s.joined/%d.cc" % (name, i)
        native.genrule(
            name = "%s.joined_%d" % (name, i),
            srcs = sources[i * len(sources) // count:(i + 1) * len(sources) // count],
            outs = [text],
            # Messages of the compiler and of tests then name the original source and line. To g++ a source named by #line
            # is a header, in which it warns of members whose types are in unnamed namespaces.
            cmd = "(echo '#ifndef __clang__'; echo '#pragma GCC diagnostic ignored \"-Wsubobject-linkage\"'; echo '#endif'; " +
                  "for f in $(SRCS); do echo \"#line 1 \\\"$$f\\\"\"; %s; done) > $@" % copy,
            visibility = ["//visibility:private"],
        )
        texts.append(text)
    headers = [s for s in srcs if not s.endswith(".cc")]
    return headers + select({
        "//:sources_alone": sources,
        "//conditions:default": texts,
    })

def joined(name, srcs):
    """Returns the `srcs` of a C++ rule: the headers, and generated files that each concatenate several of the sources.

    Names at file scope and in unnamed namespaces must differ between the sources. `--define=sources=alone` compiles each
    source by itself, as tools/nightly does to find what a source does not include itself.

    Args:
      name: the name of the rule
      srcs: its sources and private headers
    """
    return _joined(name, srcs, "cat $$f")

def joined_tests(name, srcs, **kwargs):
    """A cc_test of several sources, which are compiled up to eight at a time like those of `joined`.

    Each source has one unnamed namespace. In a joined file it is named after the source, so that two sources may use the same
    names in it: `namespace {` in `plan_test.cc` becomes `namespace plan_test {`. Fixtures must have different names
    nevertheless, because a suite of gtest has one fixture per binary. All tests run in one process, so a test must restore the
    variables of the environment and the working directory that it changes.

    `bazel test //tests/lower:lower_tests --test_filter='Fusion*'` runs the suites whose names begin with `Fusion`.

    Args:
      name: the name of the test, which ends in `_tests`
      srcs: its sources and private headers
      **kwargs: of cc_test
    """
    native.cc_test(
        name = name,
        srcs = _joined(name, srcs, "sed \"s/^namespace {$$/namespace $$(basename $$f .cc) {/\" $$f"),
        **kwargs
    )
