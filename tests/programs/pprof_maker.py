"""Writes pprof files with chosen stacks and names, for what no compiler would make."""

import gzip


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def write_pprof(path, functions, stacks):
    """functions: names (bytes). stacks: (innermost first indices into functions, objects, bytes)."""
    strings = [b"", b"inuse_objects", b"count", b"inuse_space", b"bytes", *functions]
    out = [text(1, number(1, 1) + number(2, 2)), text(1, number(1, 3) + number(2, 4))]
    for frames, objects, size in stacks:
        out.append(text(2, text(1, b"".join(varint(f + 1) for f in frames)) +
                        text(2, varint(objects) + varint(size))))
    for i in range(len(functions)):
        out.append(text(4, number(1, i + 1) + text(4, number(1, i + 1) + number(2, i + 1))))
        out.append(text(5, number(1, i + 1) + number(2, i + 5) + number(3, i + 5)))
    out += [text(6, s) for s in strings]
    path.write_bytes(gzip.compress(b"".join(out), 1))
    return path
