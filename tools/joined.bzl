"""Sources that are compiled several at a time.

Headers take most of the time that a source needs to compile. Thirty sources joined in one file compile four times as fast
as one by one. A joined file has at most eight sources, so that a change of one of them still compiles in seconds.
"""

_MOST_SOURCES = 8

def joined(name, srcs):
    """Returns the `srcs` of a C++ rule: the headers, and generated files that each concatenate several of the sources.

    Names at file scope and in unnamed namespaces must differ between the sources. `--define=sources=alone` compiles each
    source by itself, as tools/nightly does to find what a source does not include itself.

    Args:
      name: the name of the rule
      srcs: its sources and private headers
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
                  "for f in $(SRCS); do echo \"#line 1 \\\"$$f\\\"\"; cat $$f; done) > $@",
            visibility = ["//visibility:private"],
        )
        texts.append(text)
    headers = [s for s in srcs if not s.endswith(".cc")]
    return headers + select({
        "//:sources_alone": sources,
        "//conditions:default": texts,
    })
