#!/usr/bin/env python3
"""One side of a Mooncake transfer: reads commands as JSON lines, answers each with one.

    mooncake_agent.py ROOM_BYTES

The first line it prints tells where its memory is: {"segment": "HOST:PORT", "address": N, "length": N}. Commands:

    {"do": "fill", "seed": S, "offset": O, "length": N}      a range of own memory gets the bytes of the seed
    {"do": "check", ...}                                     -> {"wrong": number of bytes that differ from them}
    {"do": "write" | "read", "segment": ..., "requests": [[own offset, remote address, length], ...]}
    {"do": "rate", "op": "write" | "read", "segment": ..., "remote": address, "size": N, "window": W, "seconds": T}

A transfer answers {"status": 0} when all of its requests ended well. `rate` answers {"ops": N, "seconds": T, "status": S}: a
window of requests at a time, posted in one call that returns when all have ended.
"""
import ctypes
import json
import mmap
import random
import sys
import time

from mooncake.engine import TransferEngine

HOST = "127.0.0.1"


class Agent:
    """An engine with one registered piece of memory."""

    def __init__(self, length):
        self.engine = TransferEngine()
        status = self.engine.initialize(HOST, "P2PHANDSHAKE", "efa", "")
        if status != 0:
            raise SystemExit(f"initialize: {status}")
        self.memory = mmap.mmap(-1, length)
        self.patterns = {}
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        status = self.engine.register_memory(self.address, length)
        if status != 0:
            raise SystemExit(f"register_memory: {status}")

    def place(self):
        return {"segment": f"{HOST}:{self.engine.get_rpc_port()}", "address": self.address, "length": len(self.memory)}

    def _pattern(self, seed, offset, length):
        """Every offset has its own bytes, so that what lands beside its place is seen."""
        if seed not in self.patterns:
            self.patterns[seed] = random.Random(seed).randbytes(len(self.memory))
        return self.patterns[seed][offset:offset + length]

    def fill(self, seed, offset, length):
        self.memory[offset:offset + length] = self._pattern(seed, offset, length)
        return {}

    def check(self, seed, offset, length):
        found, wanted = self.memory[offset:offset + length], self._pattern(seed, offset, length)
        return {"wrong": 0 if found == wanted else sum(a != b for a, b in zip(found, wanted))}

    def _transfer(self, operation, segment, requests):
        """A function without arguments that moves them all, waits, and answers a status."""
        own = [self.address + request[0] for request in requests]
        remote, lengths = [request[1] for request in requests], [request[2] for request in requests]
        if len(requests) == 1:
            one = self.engine.transfer_sync_write if operation == "write" else self.engine.transfer_sync_read
            return lambda: one(segment, own[0], remote[0], lengths[0])
        many = self.engine.batch_transfer_sync_write if operation == "write" else self.engine.batch_transfer_sync_read
        return lambda: many(segment, own, remote, lengths)

    def write(self, segment, requests):
        return {"status": self._transfer("write", segment, requests)()}

    def read(self, segment, requests):
        return {"status": self._transfer("read", segment, requests)()}

    def rate(self, op, segment, remote, size, window, seconds):
        slots = max(1, min(window, len(self.memory) // size))
        requests = [[index % slots * size, remote + index % slots * size, size] for index in range(window)]
        transfer = self._transfer(op, segment, requests)
        status = transfer()  # connects
        calls, started = 0, time.perf_counter()
        while status == 0 and (passed := time.perf_counter() - started) < seconds:
            status = transfer()
            calls += 1
        passed = time.perf_counter() - started
        return {"ops": calls * window, "seconds": passed, "status": status}


def main():
    agent = Agent(int(sys.argv[1]))
    print(json.dumps(agent.place()), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(agent, command.pop("do"))(**command)), flush=True)


if __name__ == "__main__":
    main()
