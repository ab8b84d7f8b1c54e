"""Cases of the stock host test that drive its C interface through ctypes: two agents in one process, over loopback."""

import argparse
import ctypes
import faulthandler
import os
import sys
import time
import traceback

LIMIT_S = 100
TRANSFER_LIMIT_S = 30
SIZE = 4 << 20
SUCCESS, IN_PROGRESS = 0, 1
DRAM = 0
READ, WRITE = 0, 1


class AgentConfig(ctypes.Structure):
    _fields_ = [("progress_thread", ctypes.c_bool), ("listen_thread", ctypes.c_bool), ("listen_port", ctypes.c_int),
                ("thread_sync", ctypes.c_int), ("workers", ctypes.c_uint), ("progress_delay_us", ctypes.c_uint64),
                ("listen_delay_us", ctypes.c_uint64), ("telemetry", ctypes.c_bool)]


class Api:
    """nixl_capi_NAME(...) as NAME(...): raises when the status is no success."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def status(self, name, *arguments):
        return getattr(self.library, "nixl_capi_" + name)(*arguments)

    def __getattr__(self, name):
        def call(*arguments):
            status = self.status(name, *arguments)
            if status != SUCCESS:
                raise RuntimeError(f"nixl_capi_{name}: {status}")
        return call

    def make(self, name, *arguments):
        """For functions whose last argument receives a handle."""
        handle = ctypes.c_void_p()
        getattr(self, name)(*arguments, ctypes.byref(handle))
        return handle


def number(value):
    return ctypes.c_uint64(value)


class Agent:
    def __init__(self, api, name, options):
        self.api, self.name = api, name
        config = AgentConfig(options.progress_thread == "on", False, 0, 0, 0, 100, 100000, False)
        self.handle = api.make("create_configured_agent", name.encode(), ctypes.byref(config))
        params = api.make("create_params")
        for key, value in (("provider", options.provider), ("devices", "lo" if options.provider == "tcp" else "")):
            if value:
                api.params_add(params, key.encode(), value.encode())
        self.backend = api.make("create_backend", self.handle, b"RAILYARD", params)
        api.destroy_params(params)
        self.options = api.make("create_opt_args")
        api.opt_args_add_backend(self.options, self.backend)
        self.buffer = (ctypes.c_uint8 * SIZE)()
        self.address = ctypes.addressof(self.buffer)
        self.region = api.make("create_reg_dlist", DRAM)
        api.reg_dlist_add_desc(self.region, number(self.address), number(SIZE), number(0), None, number(0))
        api.register_mem(self.handle, self.region, self.options)
        self.notifications = api.make("create_notif_map")

    def metadata(self):
        data, length = ctypes.c_void_p(), ctypes.c_size_t()
        self.api.get_local_md(self.handle, ctypes.byref(data), ctypes.byref(length))
        return ctypes.string_at(data, length.value)

    def load(self, metadata):
        name = ctypes.c_char_p()
        self.api.load_remote_md(self.handle, metadata, ctypes.c_size_t(len(metadata)), ctypes.byref(name))
        return name.value.decode()

    def descriptors(self, address, length):
        listing = self.api.make("create_xfer_dlist", DRAM)
        self.api.xfer_dlist_add_desc(listing, number(address), number(length), number(0))
        return listing

    def prepare(self, operation, offset, length, peer, peer_offset, message=None):
        """Returns (request, options); release both with finish."""
        api = self.api
        options = api.make("create_opt_args")
        api.opt_args_add_backend(options, self.backend)
        if message is not None:
            api.opt_args_set_notif_msg(options, message, ctypes.c_size_t(len(message)))
            api.opt_args_set_has_notif(options, ctypes.c_bool(True))
        mine = self.descriptors(self.address + offset, length)
        theirs = self.descriptors(peer.address + peer_offset, length)
        request = ctypes.c_void_p()
        try:
            api.create_xfer_req(self.handle, operation, mine, theirs, peer.name.encode(), ctypes.byref(request), options)
        finally:
            api.destroy_xfer_dlist(mine)
            api.destroy_xfer_dlist(theirs)
        return request, options

    def finish(self, request, options, peer):
        limit = time.monotonic() + TRANSFER_LIMIT_S
        status = self.api.status("post_xfer_req", self.handle, request, options)
        while status == IN_PROGRESS:
            assert time.monotonic() < limit, "the transfer does not end"
            peer.progress()
            status = self.api.status("get_xfer_status", self.handle, request)
        assert status == SUCCESS, status

    def release(self, request, options):
        self.api.release_xfer_req(self.handle, request)
        self.api.destroy_xfer_req(request)
        self.api.destroy_opt_args(options)

    def run(self, operation, offset, length, peer, peer_offset, message=None):
        request, options = self.prepare(operation, offset, length, peer, peer_offset, message)
        self.finish(request, options, peer)
        self.release(request, options)

    def progress(self):
        self.api.get_notifs(self.handle, self.notifications, self.options)

    def take(self, sender):
        """Waits for one notification of agent `sender`; what the map holds is then forgotten."""
        limit = time.monotonic() + TRANSFER_LIMIT_S
        count = ctypes.c_size_t()
        while True:
            self.progress()
            if sender is not self:
                sender.progress()  # without a progress thread it has to move its own messages
            self.api.notif_map_size(self.notifications, ctypes.byref(count))
            if count.value:
                break
            assert time.monotonic() < limit, "no notification"
        data, length = ctypes.c_void_p(), ctypes.c_size_t()
        self.api.notif_map_get_notifs_size(self.notifications, sender.name.encode(), ctypes.byref(count))
        assert count.value == 1, count.value
        self.api.notif_map_get_notif(self.notifications, sender.name.encode(), ctypes.c_size_t(0), ctypes.byref(data),
                                     ctypes.byref(length))
        message = ctypes.string_at(data, length.value)
        self.api.notif_map_clear(self.notifications)
        return message

    def send(self, peer, message):
        self.api.gen_notif(self.handle, peer.name.encode(), message, ctypes.c_size_t(len(message)), self.options)

    def close(self):
        self.api.deregister_mem(self.handle, self.region, self.options)
        self.api.destroy_reg_dlist(self.region)
        self.api.destroy_notif_map(self.notifications)
        self.api.destroy_opt_args(self.options)
        self.api.destroy_backend(self.backend)
        self.api.destroy_agent(self.handle)


def fill(agent, offset, length):
    content = os.urandom(length)
    ctypes.memmove(agent.address + offset, content, length)
    return content


def content_of(agent, offset, length):
    return ctypes.string_at(agent.address + offset, length)


def case_params(one, _two):
    memories, params, iterator = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    one.api.get_plugin_params(one.handle, b"RAILYARD", ctypes.byref(memories), ctypes.byref(params))
    one.api.params_create_iterator(params, ctypes.byref(iterator))
    found, more = {}, ctypes.c_bool(True)
    while more.value:
        key, value = ctypes.c_char_p(), ctypes.c_char_p()
        one.api.params_iterator_next(iterator, ctypes.byref(key), ctypes.byref(value), ctypes.byref(more))
        if key.value is not None:
            found[key.value.decode()] = value.value
    assert {"provider", "devices", "rails", "chunk_size", "num_threads"} <= set(found), sorted(found)
    count, kind = ctypes.c_size_t(), ctypes.c_int()
    one.api.mem_list_size(memories, ctypes.byref(count))
    one.api.mem_list_get(memories, ctypes.c_size_t(0), ctypes.byref(kind))
    assert count.value == 1 and kind.value == DRAM
    one.api.params_destroy_iterator(iterator)
    one.api.destroy_params(params)
    one.api.destroy_mem_list(memories)


def case_write_and_read(one, two):
    for length in (1, 4096, 1000003):
        content = fill(one, 0, length)
        one.run(WRITE, 0, length, two, 5, b"written")
        assert two.take(one) == b"written"
        assert content_of(two, 5, length) == content
        ctypes.memset(one.address, 0, length)
        one.run(READ, 0, length, two, 5)
        assert content_of(one, 0, length) == content


def case_notifications(one, two):
    for size in (1, 300, 1 << 20):
        message = os.urandom(size)
        one.send(two, message)
        assert two.take(one) == message
        two.send(one, message[::-1])
        assert one.take(two) == message[::-1]


def case_self(one, _two):
    content = fill(one, 0, 70000)
    one.run(WRITE, 0, 70000, one, 1 << 20, b"mine")
    assert one.take(one) == b"mine"
    assert content_of(one, 1 << 20, 70000) == content


def case_repost(one, two):
    request, options = one.prepare(WRITE, 0, 50000, two, 0, b"again")
    for _ in range(30):
        content = fill(one, 0, 50000)
        one.finish(request, options, two)
        assert two.take(one) == b"again"
        assert content_of(two, 0, 50000) == content
    one.release(request, options)


def case_bad_descriptor(one, two):
    for offset, length in ((SIZE - 1, 2), (10, (1 << 64) - 11)):
        try:
            one.prepare(WRITE, offset, length, two, offset)
        except RuntimeError:
            continue
        raise AssertionError(f"{length} bytes at offset {offset} were taken")
    case_write_and_read(one, two)


CASES = [case_params, case_write_and_read, case_notifications, case_self, case_repost, case_bad_descriptor]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--provider", default="tcp")
    parser.add_argument("--progress-thread", choices=["on", "off"], default="on")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    api = Api(options.library)
    one, two = Agent(api, "one", options), Agent(api, "two", options)
    assert one.load(two.metadata()) == "two" and two.load(one.metadata()) == "one"
    label = f"C interface {options.provider} progress thread {options.progress_thread}"
    for case in CASES:
        try:
            case(one, two)
            print(f"ok {case.__name__} ({label})", flush=True)
        except Exception as error:
            traceback.print_exc()
            print(f"FAILED {case.__name__} ({label}): {error!r}", flush=True)
            return 1
    one.close()
    two.close()
    print(f"ok close ({label})", flush=True)
    faulthandler.cancel_dump_traceback_later()
    return 0


if __name__ == "__main__":
    sys.exit(main())
