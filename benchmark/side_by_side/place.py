"""Memory that one_pass.py moves: of this process, or of its first GPU through the CUDA driver. What it holds is set and looked at in
`array`, which for a GPU is a copy: upload() and download() carry its first bytes."""

import ctypes

import numpy

HUGE_PAGE = 2 << 20


class HostMemory:
    kind = "DRAM"

    def __init__(self, length):
        """At the start of a huge page: where small ones begin would else be an accident of what each backend has mapped."""
        memory = numpy.ones(length + HUGE_PAGE, dtype=numpy.uint8)
        begin = -memory.ctypes.data % HUGE_PAGE
        self.array = memory[begin:begin + length]
        self.address = self.array.ctypes.data

    def upload(self, length):
        """It is there."""

    def download(self, length):
        """It is there."""


class GpuMemory:
    kind = "VRAM"

    def __init__(self, length):
        """Its GPU's context is this thread's from here on, as in a program that computes."""
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context, address, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(length))
        self.array, self.address = numpy.ones(length, dtype=numpy.uint8), address.value
        self.upload(length)

    def call(self, name, *arguments):
        if code := getattr(self.cuda, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {code}")

    def upload(self, length):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), ctypes.c_void_p(self.array.ctypes.data), ctypes.c_size_t(length))

    def download(self, length):
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(self.array.ctypes.data), ctypes.c_uint64(self.address), ctypes.c_size_t(length))


def make(kind, length):
    return GpuMemory(length) if kind == "VRAM" else HostMemory(length)
