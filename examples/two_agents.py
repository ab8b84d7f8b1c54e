#!/usr/bin/env python3
"""Two agents of the stock NIXL package move numpy arrays through Railyard: a WRITE with a notification, and a READ.

    python3 -m venv venv && venv/bin/pip install --no-deps nixl==1.5.1 nixl-cu13==1.5.1 numpy
    NIXL_PLUGIN_DIR=build/release/plugins venv/bin/python examples/two_agents.py [--provider tcp] [--devices lo]

Here both live in one process. In two, `get_agent_metadata()` and the descriptors of the target travel by whatever the program has.
Exit status: 0 when all that was moved is right.
"""

import argparse
import sys
import time

import numpy

try:
    from nixl._api import nixl_agent, nixl_agent_config
except ImportError:  # the wheel of one CUDA version, without the package that chooses one
    try:
        from nixl_cu13 import nixl_agent, nixl_agent_config
    except ImportError:
        from nixl_cu12 import nixl_agent, nixl_agent_config

LIMIT_S = 30


def make_agent(name, params):
    agent = nixl_agent(name, nixl_agent_config(backends=[]))
    agent.create_backend("RAILYARD", params)
    return agent


def register(agent, array):
    agent.register_memory([(array.ctypes.data, array.nbytes, 0, "")], "DRAM", backends=["RAILYARD"])


def rows_of(agent, array):
    """A descriptor a row: they need not lie beside each other."""
    return agent.get_xfer_descs([(row.ctypes.data, row.nbytes, 0) for row in array], "DRAM")


def finish(agent, transfer):
    """Posts it and waits until it has ended, well or not."""
    state = agent.transfer(transfer)
    deadline = time.monotonic() + LIMIT_S
    while state == "PROC" and time.monotonic() < deadline:
        state = agent.check_xfer_state(transfer)
    agent.release_xfer_handle(transfer)
    if state != "DONE":
        sys.exit(f"the transfer ended as {state}; RAILYARD_LOG_LEVEL=info says more")


def wait_for_notification(agent, sender):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        # Names of agents come as text or as bytes, by the version of the package.
        for name, messages in agent.get_new_notifs().items():
            if name in (sender, sender.encode()):
                return messages
    sys.exit("no notification has come")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--provider", default="auto", help="as the setting: auto, efa, verbs, tcp, shm, ...")
    parser.add_argument("--devices", default="", help="as the setting: names separated by commas")
    options = parser.parse_args()
    params = {"provider": options.provider, "devices": options.devices}
    source, target = make_agent("source", params), make_agent("target", params)

    ours = numpy.random.default_rng(1).random((16, 8192), dtype=numpy.float32)
    theirs = numpy.zeros_like(ours)
    register(source, ours)
    register(target, theirs)
    source.add_remote_agent(target.get_agent_metadata())
    local, remote = rows_of(source, ours), rows_of(target, theirs)

    finish(source, source.initialize_xfer("WRITE", local, remote, "target", b"there it is"))
    messages = wait_for_notification(target, "source")
    if messages != [b"there it is"] or not numpy.array_equal(ours, theirs):
        sys.exit(f"the WRITE was announced by {messages}, and something else arrived")
    print(f"ok WRITE of {ours.nbytes} bytes in {len(ours)} descriptors, announced by {messages[0].decode()!r}")

    theirs *= 2
    finish(source, source.initialize_xfer("READ", local, remote, "target"))
    if not numpy.array_equal(ours, theirs):
        sys.exit("the READ brought something else")
    print(f"ok READ of {ours.nbytes} bytes")


if __name__ == "__main__":
    main()
