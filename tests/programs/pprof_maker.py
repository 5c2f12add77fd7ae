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


def fields(data):
    """(number, value) of each field of a message: an int, or bytes."""
    at = 0

    def take():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n
    while at < len(data):
        key = take()
        if key & 7 == 0:
            yield key >> 3, take()
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            length = take()
            yield key >> 3, data[at:at + length]
            at += length


def numbers(data):
    """A packed field."""
    n = shift = 0
    for byte in data:
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield n
            n = shift = 0


def read_pprof(path):
    """{"samples": [([(address, file of the mapping, [functions])], {type: value}, {label: text})],
    "drop_frames": text}, stacks innermost first."""
    top = list(fields(gzip.decompress(path.read_bytes())))
    strings = [v.decode() for f, v in top if f == 6]
    types = [strings[dict(fields(v))[1]] for f, v in top if f == 1]
    mappings = {m[1]: strings[m.get(5, 0)] for m in (dict(fields(v)) for f, v in top if f == 3)}
    names = {m[1]: strings[m.get(2, 0)] for m in (dict(fields(v)) for f, v in top if f == 5)}
    places = {}
    for f, v in top:
        if f == 4:
            m = dict(fields(v))
            lines = [names[dict(fields(w))[1]] for g, w in fields(v) if g == 4]
            places[m[1]] = (m.get(3, 0), mappings.get(m.get(2)), lines)
    samples = []
    for f, v in top:
        if f != 2:
            continue
        parts = list(fields(v))
        stack = [places[i] for g, w in parts if g == 1 for i in numbers(w)]
        values = [n for g, w in parts if g == 2 for n in numbers(w)]
        labels = [dict(fields(w)) for g, w in parts if g == 3]
        samples.append((stack, dict(zip(types, values)),
                        {strings[m[1]]: strings[m.get(2, 0)] for m in labels}))
    drop = [strings[v] for f, v in top if f == 7]
    return {"samples": samples, "drop_frames": drop[0] if drop else ""}
