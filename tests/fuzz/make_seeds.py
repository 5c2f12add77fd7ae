#!/usr/bin/python3
"""Makes the corpora of targets whose inputs are memory of programs, or records: ledger, heap_scan, target_symbols,
own_allocator, attach_call and look_call.

    make_seeds.py FOLDER      a folder for each target is made there: tests/fuzz/corpus

Inputs that a campaign found lie beside them, with names of their own.
"""
import lzma
import struct
import sys
from pathlib import Path

PAGE = 4096


def words(*values):
    return b"".join(struct.pack("<Q", value & (1 << 64) - 1) for value in values)


# ---- ELF: a file, or what stands in memory

def sysv_hash(count):
    """One bucket with all symbols"""
    return struct.pack("<II", 1, count) + struct.pack("<I", 1 if count > 1 else 0) + \
        b"".join(struct.pack("<I", i + 1 if 0 < i < count - 1 else 0) for i in range(count))


def gnu_hash(names):
    """One bucket, no filter worth the name; the first symbol is the empty one."""
    def of(name):
        value = 5381
        for c in name.encode():
            value = value * 33 + c & 0xffffffff
        return value
    chain = [of(name) & ~1 for name in names]
    chain[-1] |= 1
    return struct.pack("<IIII", 1, 1, 1, 6) + words(~0) + struct.pack("<I", 1) + \
        b"".join(struct.pack("<I", value) for value in chain)


def symbol_table(symbols):
    """(name, address, bytes, info, section); the first one is empty."""
    strings, entries = b"\0", bytes(24)
    for name, address, size, info, section in symbols:
        entries += struct.pack("<IBBHQQ", len(strings), info, 0, section, address, size)
        strings += name.encode() + b"\0"
    return entries, strings


def note(name, kind, value):
    return struct.pack("<III", len(name), len(value), kind) + name + bytes(-len(name) % 4) + value + bytes(-len(value) % 4)


class Elf:
    """Addresses are offsets. There are five program headers, and sections if it is a file."""
    CODE, CODE_BYTES = 0x400, 0x200

    def __init__(self, kind=3):
        self.kind = kind
        self.bytes = bytearray(self.CODE + self.CODE_BYTES)
        self.bytes[self.CODE:] = b"\xc3" * self.CODE_BYTES
        self.sections = [("", 0, 0, 0, 0, 0)]
        self.notes = self.dynamic = (0, 0)
        self.bss = 0

    def add(self, data, align=8):
        self.bytes += bytes(-len(self.bytes) % align)
        at = len(self.bytes)
        self.bytes += data
        return at

    def section(self, name, kind, data, link=0, size=0):
        at = self.add(data)
        self.sections.append((name, kind, at, len(data), link, size))
        return at

    def add_note(self, name, kind, value):
        data = note(name, kind, value)
        self.notes = (self.section(".note", 7, data), len(data))

    def add_dynamic(self, symbols, gnu=False, versions=b"", more=()):
        table, strings = symbol_table(symbols)
        count = len(self.sections)
        at = self.section(".dynsym", 11, table, count + 1, 24)
        strings_at = self.section(".dynstr", 3, strings)
        hashed = gnu_hash([s[0] for s in symbols]) if gnu else sysv_hash(len(symbols) + 1)
        hash_at = self.section(".gnu.hash" if gnu else ".hash", 0x6ffffff6 if gnu else 5, hashed, count)
        entries = [(6, at), (5, strings_at), (10, len(strings)), (11, 24), (0x6ffffef5 if gnu else 4, hash_at)]
        if versions:
            entries.append((0x6ffffff0, self.section(".gnu.version", 0x6fffffff, versions, count, 2)))
        data = words(*[value for entry in entries + list(more) + [(0, 0)] for value in entry])
        self.dynamic = (self.section(".dynamic", 6, data, count + 1, 16), len(data))

    def add_symbols(self, symbols):
        table, strings = symbol_table(symbols)
        self.section(".symtab", 2, table, len(self.sections) + 1, 24)
        self.section(".strtab", 3, strings)

    def image(self, file=True):
        names, name_at, sections_at = b"\0", [], 0
        if file:
            for entry in self.sections + [(".shstrtab",)]:
                name_at.append(len(names))
                names += entry[0].encode() + b"\0"
            strings_at = self.add(names)
            table = self.sections + [(".shstrtab", 3, strings_at, len(names), 0, 0)]
            data = b"".join(struct.pack("<IIQQQQIIQQ", name_at[i], kind, 2, at, at, size, link, 0, 8, each)
                            for i, (_, kind, at, size, link, each) in enumerate(table))
            sections_at = self.add(data)
        end = len(self.bytes)
        heads = [(1, 5, 0, end, end), (1, 6, 0x300, 8, 8 + self.bss), (2, 6, *self.dynamic[:1], self.dynamic[1], self.dynamic[1]),
                 (4, 4, self.notes[0], self.notes[1], self.notes[1])]
        if self.bss:
            heads[1] = (1, 6, end, 0, self.bss)
        self.bytes[:64] = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", self.kind, 62, 1, self.CODE, 64, sections_at, 0,
                                      64, 56, len(heads), 64, len(table) if file else 0, len(table) - 1 if file else 0)
        for i, (kind, flags, at, in_file, in_memory) in enumerate(heads):
            self.bytes[64 + 56 * i:120 + 56 * i] = struct.pack("<IIQQQQQQ", kind, flags, at, at, at, in_file, in_memory, 8)
        return bytes(self.bytes)


GLOBAL, WEAK, LOCAL, IFUNC = 0x12, 0x22, 0x02, 0x1a


def functions(*names, info=GLOBAL):
    return [(name, Elf.CODE + 32 * i, 24, info, 1) for i, name in enumerate(names)]


# ---- ledger: see fuzz_ledger.c

PLACES = [0x7f0000000000, 0x7f0000100000, 0x555500000000, 0x7f4000000000, 0x7f2000000000, 0x7f6000000000, 0xc000000000,
          0x10000000, 0x7fffffff0000, 0]
RECORDED, WITH_HEAP, LOOK, PAGEMAP, ALL_KNOWN, OTHER_ALLOCATOR, DROP, NO_SITES = [1 << i for i in range(8)]
FLAGS, MAPS, MEMORY, PAGES, THREADS, BLOCKS, MAPPINGS, OWN, REGISTERS = range(9)
IN_MEMORY, OF_FILE, SWAPPED, HUGE = 1, 2, 4, 8
PART = 16 << 10  # of the heap in fuzz_heap.h: banner, data, main arena, heap of another, a mapped block, a thread
BRK_BASE, TOP = 96, 96  # in glibc's parameters, in an arena


def address(at):
    place = max((p for p in PLACES if p <= at), default=0)
    return struct.pack("<BI", PLACES.index(place), at - place)


class Process:
    def __init__(self, flags):
        self.bytes = b""
        self.record(FLAGS, bytes([flags]))

    def record(self, what, data):
        self.bytes += struct.pack("<BH", what, len(data)) + data
        return self

    def maps(self, start, end, rights="rw-p", name="", inode=0, offset=0):
        line = f"{start:x}-{end:x} {rights} {offset:08x} {'08:01' if inode else '00:00'} {inode}"
        return self.record(MAPS, (f"{line:73}{name}" if name else line).encode())

    def memory(self, at, data):
        return self.record(MEMORY, address(at) + data)

    def pages(self, at, count=1, flags=IN_MEMORY):
        return self.record(PAGES, address(at) + bytes([count - 1, flags]))

    def here(self, start, size, rights="rw-p", name="", inode=0, flags=IN_MEMORY):
        self.maps(start, start + size, rights, name, inode)
        return self.pages(start, size // PAGE, flags)

    def thread(self, number, sp, pointer, stopped=True):
        return self.record(THREADS, struct.pack("<I", number) + address(sp) + address(pointer) + bytes([stopped]))

    def block(self, at, size, usable, site=1):
        return self.record(BLOCKS, address(at) + struct.pack("<IIB", size, usable, site))

    def heap(self):
        banner, data, main, arena, mapped, thread = PLACES[:6]
        self.here(main, PART, name="[heap]").here(banner, PART, "r-xp", "/usr/lib/libc.so.6", 9, IN_MEMORY | OF_FILE)
        self.here(data, PART, "rw-p", "/usr/lib/libc.so.6", 9).here(mapped, PART)
        self.here(arena, PART).maps(arena + PART, arena + (64 << 20), "---p").here(thread, PART)
        return self.thread(1000, thread + 0x100, thread + PART - 64).thread(1001, thread + 0x80, thread + PART // 2)

    def module(self, at, elf, name):
        data = elf.image(file=False)
        size = (len(data) + PAGE - 1) & -PAGE
        return self.memory(at, data).here(at, size, "r-xp", name, 11, IN_MEMORY | OF_FILE)


def python_pool(at, bytes_, used=3):
    size_class, each = 3, 64
    return struct.pack("<IIQQQIIII", used, 0, at + 48, at, at, 7, size_class, 48 + each * used, bytes_ - each)


def v8_chunk(at, size):
    return words(size, 3, 0x7f1234567000, at + 0x100, at + size)


def java():
    """A table with the six fields that the ledger looks for, behind the module's symbols"""
    at, heap = PLACES[2] + 0x100000, PLACES[0] + 0x40000
    elf, table, texts = Elf(), 0x2000, 0x3000
    names = ["", "TypeNameOffset", "FieldNameOffset", "IsStaticOffset", "OffsetOffset", "AddressOffset", "ArrayStride"]
    symbols = [("gHotSpotVMStructs", 0x1000, 8, 0x11, 1)] + \
        [(f"gHotSpotVMStructEntry{name}", 0x1000 + 8 * i, 8, 0x11, 1) for i, name in enumerate(names) if name]
    elf.add_dynamic(symbols)
    elf.bytes += bytes(0x4000 - len(elf.bytes))
    elf.bytes[0x1000:0x1038] = words(at + table, 0, 8, 24, 32, 40, 48)
    fields = [("Universe", "_collectedHeap", 1, at + 0x1100), ("CollectedHeap", "_reserved", 0, 16),
              ("MemRegion", "_start", 0, 0), ("MemRegion", "_word_size", 0, 8), ("CodeCache", "_low_bound", 1, at + 0x1108),
              ("CodeCache", "_high_bound", 1, at + 0x1110)]
    for i, (kind, field, static, value) in enumerate(fields):
        for k, text in enumerate((kind, field)):
            elf.bytes[texts + 128 * i + 64 * k:texts + 128 * i + 64 * k + len(text)] = text.encode()
        elf.bytes[table + 48 * i:table + 48 * i + 48] = words(at + texts + 128 * i, at + texts + 128 * i + 64, 0, static, value, value)
    elf.bytes[0x1100:0x1118] = words(at + 0x1200, heap + 0x20000, heap + 0x24000)
    elf.bytes[0x1210:0x1220] = words(heap, 0x10000 // 8)
    process = Process(LOOK).module(at, elf, "/usr/lib/jvm/libjvm.so").here(heap, 0x30000)
    return process


def stacks():
    """A thread that runs, a stack that an ended one has left, and the first thread's descriptor"""
    at, size, guard = PLACES[4], 0x20000, PAGE
    process = Process(LOOK)
    for i, number in ((0, 1001), (1, 0)):
        start = at + i * size
        descriptor = start + size - 0x900
        process.maps(start, start + guard, "---p").maps(start + guard, start + size).pages(start + size - 4 * PAGE, 4)
        process.memory(descriptor, words(descriptor, 0, descriptor))
        process.memory(descriptor + 0x2d0, words(number)).memory(descriptor + 0x690, words(start, size, guard))
    first = PLACES[5]
    process.here(first, 4 * PAGE).memory(first + 0x740, words(first + 0x740, 0, first + 0x740))
    process.memory(first + 0x740 + 0x2d0, words(1000)).thread(1000, PLACES[8] + 0x800, first + 0x740)
    process.here(PLACES[8], PAGE, name="[stack]").here(PLACES[6], 2 * PAGE).thread(1002, PLACES[6] + 64, PLACES[6] + 128)
    return process.thread(1001, at + size - 0x2000, at + size - 0x900).thread(1003, 0, 0, False)


def names():
    at = PLACES[2]
    elf = Elf()
    elf.bss = 3 * PAGE
    process = Process(LOOK | DROP).module(at, elf, "/usr/bin/program").here(at + PAGE, 4 * PAGE)
    for i, (name, inode, rights) in enumerate([
            ("[anon: Go: heap]", 0, "rw-p"), ("[anon:mine]", 0, "rw-p"), ("/memfd:x (deleted)", 5, "rw-s"),
            ("/SYSV00000000 (deleted)", 6, "rw-s"), ("/dev/zero (deleted)", 7, "rw-s"), ("[vdso]", 0, "r-xp"),
            ("/usr/share/data", 8, "r--p"), ("/usr/lib/libheft-preload.so", 10, "r-xp"), ("[anon: glibc: malloc]", 0, "rw-p"),
            ("", 0, "rwxp"), ("", 0, "---p"), ("/dev/shm/x", 12, "rw-s"), ("[anon:]", 0, "rw-p")]):
        process.here(PLACES[0] + 0x2000 * i, PAGE, rights, name, inode, [IN_MEMORY, SWAPPED, IN_MEMORY | OF_FILE, 9][i % 4])
    return process


def near_page():
    at = PLACES[1]
    head = (ROOT / "target_image" / "near_page").read_bytes()[:16]
    data = head + struct.pack("<IIQII", 1, PAGE, at, 0, 0) + words(at + PAGE, 2 * PAGE)
    return Process(0).here(at, PAGE, "r-xp").memory(at, data).here(at + PAGE, 3 * PAGE)


def session():
    """The header of a session file, with two places of heft's own"""
    at, own = PLACES[1], PLACES[4]
    process = Process(0).maps(at, at + 0x10000, "rw-s", "/dev/shm/heft-0/3e8.1234", 5).here(own, 8 * PAGE)
    return process.memory(at + 8, struct.pack("<I", 12)).memory(at + 13208, struct.pack("<I", 2)) \
        .memory(at + 25792, words(own, 2 * PAGE, own + 4 * PAGE, 1))


def recorded(flags=0):
    """Of both arenas: blocks of 32 bytes; and one that is in no list"""
    process = Process(RECORDED | WITH_HEAP | LOOK | flags).heap()
    for part, first in ((PLACES[2], 0x290 + 16), (PLACES[3], 0x8d0 + 0x290 + 16)):
        for i in range(1, 12):
            if i not in (3, 5, 7):
                process.block(part + first + 32 * i, 20, 24, i % 4)
    # The second block leads to the third, a register to the second, and a thread's memory to another.
    process.memory(PLACES[2] + 0x290 + 16 + 32, words(PLACES[2] + 0x290 + 16 + 64))
    process.memory(PLACES[5] + 0x200, words(PLACES[3] + 0x8d0 + 0x290 + 16 + 32))
    process.record(REGISTERS, address(PLACES[2] + 0x290 + 16 + 32))
    return process.record(MAPPINGS, address(PLACES[4]) + address(PLACES[4] + PART) + b"\x05") \
        .record(OWN, address(PLACES[4] + PART) + address(PLACES[4] + 2 * PART))


def overlapping_arenas():
    """The main arena begins inside a block of the other one, with a free chunk of two pages: it has a smaller one in it."""
    inside = PLACES[3] + 0x8d0 + 0x290 + 32 + 16
    process = Process(RECORDED | WITH_HEAP | LOOK).heap().block(PLACES[3] + 0x2100, 20, 24)
    process.memory(PLACES[1] + 0x40 + BRK_BASE, words(inside)).memory(PLACES[1] + 0x200 + TOP, words(inside + 0x2000))
    return process.memory(inside + 8, words(0x2001)).memory(inside + 0x2008, words(0x1000))


def other_allocator():
    """jemalloc: a block of its own, which begins with its length, and pages beside live blocks"""
    at = PLACES[4]
    process = Process(RECORDED | LOOK | OTHER_ALLOCATOR).maps(at, at + (8 << 20))
    process.pages(at, 4).memory(at, words(2 << 20, 0)).pages(at + (2 << 20), 8).pages(at + (6 << 20), 2, SWAPPED)
    for i in range(8):
        process.block(at + (2 << 20) + 3000 * i, 2500, 2560, i)
    return process.here(PLACES[0], PAGE, "rw-p", "/usr/lib/libjemalloc.so.2", 20)


def ledgers():
    elf = Elf()
    elf.add_note(b"Go\0\0", 4, b"abcd")
    go = Process(LOOK).module(PLACES[2], elf, "/usr/bin/program").here(PLACES[6], 4 * PAGE)
    python = Process(LOOK).module(PLACES[2], Elf(), "/usr/bin/python3.11")
    python.here(PLACES[0], 64 << 10).memory(PLACES[0], python_pool(PLACES[0], 16 << 10))
    python.memory(PLACES[0] + 0x8000, python_pool(PLACES[0] + 0x8000, 16 << 10, 9))
    old_python = Process(0).module(PLACES[2], Elf(), "/usr/lib/libpython3.9.so.1.0")
    old_python.here(PLACES[0], 16 << 10).memory(PLACES[0] + PAGE, python_pool(PLACES[0] + PAGE, PAGE))
    node = Process(LOOK).module(PLACES[2], Elf(), "/usr/bin/node").here(PLACES[0], 512 << 10)
    node.memory(PLACES[0], v8_chunk(PLACES[0], 256 << 10)).memory(PLACES[0] + (256 << 10), v8_chunk(PLACES[0] + (256 << 10), 1 << 30))
    reserved = Process(LOOK).maps(PLACES[7], PLACES[7] + (64 << 40)).pages(PLACES[7])
    reserved.module(PLACES[2], Elf(), "/usr/bin/python3.11")
    # A table of hashes in memory that was never written: its chain has no end.
    chain, beyond = Elf(), 1 << 20
    chain.add_dynamic(functions("malloc"), gnu=True)
    at = chain.bytes.index(words(0x6ffffef5)) + 8
    chain.bytes[at:at + 8] = words(beyond)
    chain.bss = 64 << 30
    libjvm = Process(0).module(PLACES[2], chain, "/usr/lib/libjvm.so")
    libjvm.memory(PLACES[2] + beyond, struct.pack("<IIII", 1, 1, 1, 6) + words(0) + struct.pack("<I", 1))
    pagemap = Process(PAGEMAP).maps(PLACES[0], PLACES[0] + 0x40000).maps(PLACES[4], PLACES[4] + 0x20000)
    for i, flags in enumerate([1, 3, 4, 9, 5, 1]):
        pagemap.pages(PLACES[0] + 0x3000 * i, 2, flags).pages(PLACES[4] + 0x4000 * i, 1, flags)
    return {
        "go": go, "python": python, "old_python": old_python, "node": node, "java": java(), "stacks": stacks(), "names": names(),
        "near_page": near_page(), "session": session(), "recorded": recorded(), "recorded_all": recorded(ALL_KNOWN | NO_SITES),
        "overlapping_arenas": overlapping_arenas(), "other_allocator": other_allocator(), "pagemap": pagemap, "heap": Process(WITH_HEAP | LOOK).heap(),
        "heap_only_map": Process(WITH_HEAP).heap(), "reserved_terabytes": reserved, "endless_chain": libjvm,
    }


# ---- heap_scan: see fuzz_heap_scan.c

BLOCK, LARGE_BLOCK, TOUCHED, ROOT_RANGE, POINTER, REGISTER, FREE, BYTES = range(8)


def scan_record(what, *fields):
    return struct.pack("<B", what) + (b"".join(fields) + bytes(5))[:5]


def half(value):
    return struct.pack("<H", value)


def scan_block(gap, size, slack, site, large=False):
    return scan_record(LARGE_BLOCK if large else BLOCK, bytes([gap * 2]), half(size), bytes([slack, site]))


def scan_pointer(source, word, target, offset=0):
    return scan_record(POINTER, bytes([source]), half(word), bytes([target, offset]))


def scans():
    pages = scan_record(TOUCHED, b"\0", half(7), b"\1") + scan_record(TOUCHED, b"\1", half(3), b"\5")
    small = b"".join(scan_block(2, 64 + 8 * (i % 3), 8, i % 4) for i in range(20))
    ring = scan_pointer(1, 0, 2) + scan_pointer(2, 1, 3, 8) + scan_pointer(3, 0, 1) + scan_pointer(5, 0, 1)
    roots = scan_record(ROOT_RANGE, half(4), half(16)) + scan_record(REGISTER, b"\7", half(8))
    free = b"".join(scan_record(FREE, half(100 * i), half(40), bytes([i % 4])) for i in range(6))
    large = scan_block(0, 300, 0, 1, True) + scan_block(4, 100, 4, 2) + scan_pointer(0, 5, 1) + scan_block(0, 0, 0, 3)
    return {"ring": b"\x3f" + pages + small + ring + roots, "free": b"\x3f" + pages + small + free,
            "free_not_known": b"\x2f" + pages + small, "large": b"\x3f" + pages + large + roots,
            "unaligned": b"\x3f" + pages + b"".join(scan_record(BLOCK, b"\1", half(i), b"\0\1") for i in range(30)) + roots,
            "equal": b"\x04" + pages + small + b"".join(scan_record(BYTES, half(40 * i), b"abc") for i in range(12))}


# ---- files: see fuzz_target_symbols.c and fuzz_own_allocator.c

def program(dynamic, table, versions=b"", build_id=b"\x12" * 20, link="", mini=b"", gnu=False):
    elf = Elf()
    if build_id:
        elf.add_note(b"GNU\0", 3, build_id)
    elf.add_dynamic(dynamic, gnu, versions)
    if table:
        elf.add_symbols(table)
    if link:
        elf.section(".gnu_debuglink", 1, link.encode() + b"\0" * (4 - len(link) % 4) + bytes(4))
    if mini:
        elf.section(".gnu_debugdata", 1, mini)
    return elf.image()


def two_files(flags, first, second=b""):
    return struct.pack("<BI", flags, len(first)) + first + second


def symbols():
    exported = functions("malloc", "free", "je_malloc") + [("calloc", 0, 0, GLOBAL, 0), ("realloc", Elf.CODE, 8, IFUNC, 1)]
    inside = functions("a", "f", "xfree", info=LOCAL) + [("f", Elf.CODE + 400, 8, LOCAL, 1), ("malloc@GLIBC_2.2.5", Elf.CODE + 3, 8, GLOBAL, 1),
                                                        ("free@@GLIBC_2.2.5", Elf.CODE + 32, 1 << 40, WEAK, 1)]
    debug = program(exported, inside)
    mini = lzma.compress(program(functions("a"), inside[:3]), format=lzma.FORMAT_XZ)
    return {"plain": two_files(0, program(exported, inside, b"\0\0\1\0\2\x80\1\0\1\0\1\0")),
            "no_file": two_files(1, program(exported, [], gnu=True)),
            "no_build_id": two_files(0, program(exported, inside, build_id=b"")),
            "debug_link": two_files(0, program(exported, [], link="701"), debug),
            "other_build_id": two_files(0, program(exported, [], link="701"), program(exported, inside, build_id=b"\x13" * 20)),
            "mini": two_files(0, program(exported, [], mini=mini))}


def allocators():
    def of(flags, lines, first, second=b""):
        text = lines.encode()
        return struct.pack("<BHI", flags, len(text), len(first)) + text + first + second
    maps = "7f0000000000-7f0000001000 r-xp 00000000 08:01 7                          /usr/lib/libx.so\n" \
        "7f0000001000-7f0000002000 rw-p 00000000 08:01 7                          /usr/lib/libx.so\n" \
        "7f0000003000-7f0000004000 r-xp 00000000 08:01 9                          /tmp/a\\012b (deleted)\n" \
        "7f0000005000-7f0000006000 r-xp 00000000 00:00 0                          [vdso]\n" \
        f"7f0000007000-7f0000008000 r-xp 00000000 08:01 10                         /{'x' * 4200}\n"
    own = program(functions("main"), functions("je_malloc", "je_free", "je_mallctl", "_Znwm", "_ZdlPv"))
    stripped = program(functions("main"), [])
    exported = program(functions("malloc", "free", "calloc", "realloc", "_Znwm", "_Znam"), [], gnu=True)
    needed = program([("mi_malloc", 0, 0, GLOBAL, 0), ("mi_free", 0, 0, GLOBAL, 0)], functions("main"))
    likely = program(functions("main"), [], mini=b"<jemalloc>: Invalid conf pair\0: option to core dump\0MALLOC_CONF\0opt.prof\0")
    return {"internal": of(0, maps, own), "apart": of(1, maps, stripped, own), "exported": of(1, maps, exported),
            "needed": of(0, maps, needed), "needed_seen": of(2, maps, needed), "likely": of(0, maps, likely)}


# ---- messages: see fuzz_attach_call.c and fuzz_look_call.c

def messages():
    look, call, leave, hang_up = 3, 0, b"\x05l", bytes([2 + 4])
    many = bytes([call] * 20 + [look]) + b"".join(bytes([1 + 4 * i]) + b"l" for i in range(1, 12)) + bytes([look, look])
    return {"done": b"\2d", "failed": b"\0fit is traced\nby another", "empty": b"\0", "long": b"\2f" + b"x" * 2000,
            "nul": b"\0f\0\0", "stranger": b"\0", "one_asks": bytes([1, call]) + leave + bytes([look]),
            "many_ask": b"\1" + many, "hangs_up": bytes([1, call]) + leave + hang_up + bytes([look, look]),
            "other_word": bytes([1, call]) + b"\x05x" + bytes([look, look]), "asks_late": bytes([1, call, look]) + leave}


def looks():
    def of(flags, lines, head=b""):
        text = lines.encode()
        return struct.pack("<BH", flags, len(text)) + text + head
    line = "7f0000000000-7f0000010000 rw-s 00000000 00:01 5                          /dev/shm/heft-0/3e8.{} (deleted)\n"
    older, newer = line.format("1234"), line.format("ffff").replace("7f00000", "7f10000")
    head = bytearray(640)
    head[256:260] = b"\7\0\0\0"
    return {"answered": of(7, older, bytes(head)), "cannot": of(3, older + newer, bytes(head)), "silent": of(1, newer + older, bytes(head)),
            "other_version": of(0, older, b"HEFTSSES" + b"\xff" * 100), "odd": of(7, "0-0 rw-s 0 0:0 0 /\n" + line.format("")),
            "no_header": of(0, line.format("1.2").replace("00000000 00:01", "00001000 00:01"))}


def main():
    made = {"ledger": {name: p.bytes for name, p in ledgers().items()}, "heap_scan": scans(), "target_symbols": symbols(),
            "own_allocator": allocators(), "attach_call": messages(), "look_call": looks()}
    for target, inputs in made.items():
        folder = ROOT / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ROOT = Path(sys.argv[1])
    main()
