#!/usr/bin/env python3
"""The plugin exports its two entry points alone, and needs no library but the named.  symbols.py PLUGIN.so"""
import re
import subprocess
import sys

import common

EXPORTS = {"nixl_plugin_init", "nixl_plugin_fini"}
MAY_NEED = re.compile(r"^(libfabric|libhwloc|libstdc\+\+|libgcc_s|libm|libc|libpthread|libdl|ld-linux[-\w]*)"
                      r"\.so(\.\d+)*$")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    """Names of the dynamic symbols that the library defines; a version node's own symbol (type A) is no export."""
    rows = [line.split() for line in output_of("nm", "-D", "--defined-only", library).splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) >= 2 and row[-2] != "A"}


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-dW", library))


def findings(library):
    names = exported(library)
    for name in sorted(names - EXPORTS):
        yield f"{library}: exports {name}"
    for name in sorted(EXPORTS - names):
        yield f"{library}: does not export {name}"
    for name in needed(library):
        if not MAY_NEED.match(name):
            yield f"{library}: needs {name}"


if __name__ == "__main__":
    common.report("symbols", list(findings(sys.argv[1])))
