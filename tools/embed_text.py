#!/usr/bin/python3
"""Turns a text file into a C source: `const char NAME[]` and `const size_t NAME_size`.

    embed_text.py NAME IN OUT"""

import pathlib
import sys

name, source, target = sys.argv[1:]
text = pathlib.Path(source).read_bytes()
lines = []
for line in text.split(b"\n"):
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in line)
    lines.append(f'\t"{escaped}\\n"')
pathlib.Path(target).write_text(
    f"/* Made from {pathlib.Path(source).name}: change that file. */\n"
    f"#include <stddef.h>\n\n"
    f"extern const char {name}[];\nextern const size_t {name}_size;\n"
    f"const char {name}[] =\n" + "\n".join(lines) + ";\n"
    f"const size_t {name}_size = sizeof {name} - 1;\n")
