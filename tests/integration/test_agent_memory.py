"""What heft agent keeps after thousands of processes: as much as after some hundred (docs/always-on.md)."""

import os

from harness import wait_until
from live_harness import agent, fetch, live_in  # noqa: F401

KIB, MIB = 1 << 10, 1 << 20
CHILD = 8 * MIB  # tests/programs/sampled_children.c
KEPT = 100       # ended programs that stay on the page


def memory(agent, *names):  # noqa: F811
    """Of its processes together: the supervisor, the server and the worker of our user."""
    found = 0
    for pid in agent.pids():
        with open(f"/proc/{pid}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        found += sum(int(lines[name].split()[0]) * KIB for name in names)
    return found


def mapped_files(agent):  # noqa: F811
    found = []
    for pid in agent.pids():
        with open(f"/proc/{pid}/maps") as maps:
            found.append(sum(str(agent.dir) in line for line in maps))
    assert found[0] == 0, "the supervisor maps nothing that programs can write"
    return sum(found)


def run_many(agent, program, count):  # noqa: F811
    """Waits until the agent has saved them all, and is done with it."""
    saved = len(list(agent.output.iterdir()))
    done = agent.start([program, "many", str(count)])
    done.communicate(timeout=300)
    assert done.returncode == 0
    wait_until(lambda: len(list(agent.output.iterdir())) == saved + count + 1 and not agent.files(),
               what=f"{count} recordings", seconds=300)


def settled(agent, names, limit):  # noqa: F811
    """Its memory: it gives some back within ten seconds."""
    wait_until(lambda: memory(agent, *names) <= limit, what=f"{names} of at most {limit}")
    return memory(agent, *names)


def test_thousands_of_processes(agent, compiled):  # noqa: F811
    program = compiled("sampled_children.c")
    run_many(agent, program, 500)
    early = settled(agent, ["RssAnon"], 8 * MIB)
    run_many(agent, program, 2500)
    # Half of that is what the allocators of its processes keep now and then.
    late = settled(agent, ["RssAnon"], early + 2048 * KIB)
    assert late < 10 * MIB  # 8.0 was seen
    # Of those that are kept the first pages of their files, of the others nothing.
    assert settled(agent, ["RssShmem"], KEPT * 32 * KIB) > 0
    if os.geteuid():  # only root may look at the agent's processes
        return
    wait_until(lambda: mapped_files(agent) <= KEPT, what="the oldest are dropped")
    assert all(len(os.listdir(f"/proc/{pid}/fd")) < 40 + KEPT for pid in agent.pids())
    assert len(os.listdir(f"/proc/{agent.process.pid}/fd")) < 40


def test_ended_programs_are_served_from_their_recording(agent, compiled):  # noqa: F811
    run_many(agent, compiled("sampled_children.c"), 3)
    pids = {int(p.name.split(".")[-2]): p for p in agent.output.iterdir()}
    assert len(pids) == 4
    assert sorted(live_in(agent.heap(pid), "hold_child") for pid in pids) == [(0, 0), *[(CHILD, 1)] * 3]
    for pid, path in pids.items():
        path.unlink()
        status, body = agent.get(f"{pid}/heap")
        assert status == 404 and b"its recording" in body and b"is gone" in body, body
    # What they had is known without it.
    text = fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()
    live = sorted(float(line.split()[-1]) for line in text.splitlines()
                  if line.startswith("heft_live_bytes{"))
    assert len(live) == 4 and all(n >= CHILD for n in live[1:]), text
    assert agent.get("")[0] == 200
