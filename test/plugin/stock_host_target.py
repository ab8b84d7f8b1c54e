"""The second process of the stock host tests: an agent with one buffer that does what the first process asks."""

import faulthandler
import multiprocessing
import time

import numpy
from nixl_cu12 import nixl_agent, nixl_agent_config

CALL_LIMIT_S = 30


def backend_params(options):
    params = {"provider": options.provider, "rails_per_device": str(options.rails)}
    if options.provider == "tcp":
        params["devices"] = "lo"
    return params


def make_agent(name, options):
    config = nixl_agent_config(enable_prog_thread=options.progress_thread == "on", backends=[])
    agent = nixl_agent(name, config)
    agent.create_backend(options.backend, backend_params(options))
    return agent


def register(agent, size, options):
    """A zeroed buffer, registered. Returns it with its registration."""
    buffer = numpy.zeros(size, dtype=numpy.uint8)
    region = (buffer.ctypes.data, buffer.nbytes, 0, "")
    return buffer, agent.register_memory([region], "DRAM", backends=[options.backend])


def text(name):
    """The package returns agent names as bytes in some calls and as str in others."""
    return name.decode() if isinstance(name, bytes) else name


class Target:
    """What the first process can ask for; each public method is one request."""

    def __init__(self, name, size, options):
        self.agent = make_agent(name, options)
        self.buffer, self.registration = register(self.agent, size, options)
        self.backend = options.backend
        self.notifications = []

    def progress(self):
        for sender, messages in self.agent.get_new_notifs().items():
            now = time.monotonic_ns()
            self.notifications += [(text(sender), message, now) for message in messages]

    def describe(self):
        return self.agent.get_agent_metadata(), self.buffer.ctypes.data, self.buffer.nbytes

    def load(self, metadata):
        return text(self.agent.add_remote_agent(metadata))

    def put(self, offset, content):
        self.buffer[offset:offset + len(content)] = numpy.frombuffer(content, dtype=numpy.uint8)

    def get(self, offset, length):
        return self.buffer[offset:offset + length].tobytes()

    def take(self, count):
        """Waits for `count` notifications and returns exactly those that are there then."""
        limit = time.monotonic() + CALL_LIMIT_S
        while len(self.notifications) < count:
            if time.monotonic() > limit:
                raise TimeoutError(f"{len(self.notifications)} of {count} notifications after {CALL_LIMIT_S} s")
            self.progress()
        taken, self.notifications = self.notifications, []
        return taken

    def take_with_content(self, offset, length):
        """Waits for one notification and looks at the buffer at once."""
        taken = self.take(1)
        return taken, self.get(offset, length)

    def send(self, agent, message):
        self.agent.send_notif(agent, message)

    def deregister(self):
        self.agent.deregister_memory(self.registration)
        self.registration = None

    def register_anew(self, at_once):
        """The buffer, once more: before the registration that there is goes, or after it. Returns what is told of it."""
        old = self.registration
        if not at_once:
            self.deregister()
        self.registration = self.agent.register_memory([(self.buffer.ctypes.data, self.buffer.nbytes, 0, "")], "DRAM", backends=[self.backend])
        described = self.agent.get_agent_metadata()
        if at_once:
            self.agent.deregister_memory(old)
        return described

    def close(self):
        if self.registration:
            self.deregister()
        self.agent = None


def serve(connection, name, size, options, limit_s):
    faulthandler.dump_traceback_later(limit_s, exit=True)
    try:
        target = Target(name, size, options)
        connection.send((True, None))
    except Exception as error:  # the first process reports it
        connection.send((False, repr(error)))
        return
    while True:
        # With its own progress thread the plugin has to work while nobody calls it.
        while options.progress_thread == "off" and not connection.poll(0.0002):
            target.progress()
        method, arguments = connection.recv()
        try:
            connection.send((True, getattr(target, method)(*arguments)))
        except Exception as error:
            connection.send((False, repr(error)))
        if method == "close":
            return


class Remote:
    """The first process's handle of the second."""

    def __init__(self, name, size, options, limit_s):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, name, size, options, limit_s), daemon=True)
        self.process.start()
        theirs.close()
        self.while_waiting = lambda: None  # without a progress thread the first process has to move its own messages
        self.answer("start")

    def answer(self, method):
        limit = time.monotonic() + CALL_LIMIT_S + 5
        while not self.connection.poll(0.0002):
            if time.monotonic() > limit:
                raise TimeoutError(f"the target does not answer {method}")
            self.while_waiting()
        good, value = self.connection.recv()
        if not good:
            raise RuntimeError(f"target, {method}: {value}")
        return value

    def begin(self, method, *arguments):
        self.connection.send((method, arguments))

    def ask(self, method, *arguments):
        self.begin(method, *arguments)
        return self.answer(method)

    def close(self):
        self.ask("close")
        self.process.join(CALL_LIMIT_S)
        if self.process.exitcode != 0:
            raise RuntimeError(f"the target ended with {self.process.exitcode}")
