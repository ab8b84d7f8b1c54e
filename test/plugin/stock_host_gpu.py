"""Cases of the stock host test with GPU memory: two agents of its Python package in one process, on the fake CUDA driver."""

import argparse
import ctypes
import faulthandler
import sys
import time

import numpy
from nixl_cu12 import nixl_agent, nixl_agent_config
from stock_host_target import make_agent, text

LIMIT_S = 60
TRANSFER_LIMIT_S = 20
SIZE = 3 << 20


class Cuda:
    """As much of the driver interface as the cases need; every call is checked."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        assert hasattr(self.library, "fakecuda_alias"), "the driver that was loaded is not the fake one"
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        assert result == 0, f"{name}: error {result}"

    def context(self, ordinal):
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        return context

    def within(self, context, name, *arguments):
        self.call("cuCtxPushCurrent_v2", context)
        self.call(name, *arguments)
        self.call("cuCtxPopCurrent_v2", None)


class GpuBuffer:
    def __init__(self, cuda, ordinal, size):
        self.cuda, self.ordinal, self.size = cuda, ordinal, size
        self.context = cuda.context(ordinal)
        address = ctypes.c_uint64()
        cuda.within(self.context, "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.address = address.value

    def put(self, content):
        self.cuda.within(self.context, "cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), content,
                         ctypes.c_size_t(len(content)))

    def get(self):
        content = ctypes.create_string_buffer(self.size)
        self.cuda.within(self.context, "cuMemcpyDtoH_v2", content, ctypes.c_uint64(self.address), ctypes.c_size_t(self.size))
        return content.raw

    def region(self):
        return self.address, self.size, self.ordinal


def finish(agents, handle):
    initiator = agents[0]
    state = initiator.transfer(handle)
    limit = time.monotonic() + TRANSFER_LIMIT_S
    while state == "PROC":
        assert time.monotonic() < limit, "the transfer does not end"
        state = initiator.check_xfer_state(handle)
        agents[1].get_new_notifs()
    assert state == "DONE", state
    handle.release()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--provider", required=True)
    parser.add_argument("--progress-thread", choices=("on", "off"), default="on")
    parser.add_argument("--backend", default="RAILYARD")
    parser.add_argument("--rails", type=int, default=1)
    options = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    label = f"gpu: {options.provider}, progress thread {options.progress_thread}"

    cuda = Cuda()
    one, two = make_agent("one", options), make_agent("two", options)
    types = one.get_backend_mem_types(options.backend)
    assert sorted(types) == ["DRAM_SEG", "VRAM_SEG"], types
    print(f"ok {label}: memory types {types}")
    buffers = [GpuBuffer(cuda, 0, SIZE), GpuBuffer(cuda, 1, SIZE)]
    registrations = [agent.register_memory([buffer.region() + ("",)], "VRAM", backends=[options.backend])
                     for agent, buffer in zip((one, two), buffers)]
    assert text(one.add_remote_agent(two.get_agent_metadata())) == "two"
    assert text(two.add_remote_agent(one.get_agent_metadata())) == "one"
    for seed, operation in enumerate(("WRITE", "READ")):
        source, sink = buffers if operation == "WRITE" else reversed(buffers)
        content = numpy.random.default_rng(seed).integers(0, 256, SIZE, dtype=numpy.uint8).tobytes()
        source.put(content)
        sink.put(bytes(SIZE))
        mine = one.get_xfer_descs([buffers[0].region()], "VRAM")
        theirs = one.get_xfer_descs([buffers[1].region()], "VRAM")
        finish((one, two), one.initialize_xfer(operation, mine, theirs, "two", b"", backends=[options.backend]))
        assert sink.get() == content, f"{operation}: other bytes"
        print(f"ok {label}: {operation} from GPU to GPU")
    one.remove_remote_agent("two")
    two.remove_remote_agent("one")
    for agent, registration in zip((one, two), registrations):
        agent.deregister_memory(registration)
    print(f"ok {label}: deregistered")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
