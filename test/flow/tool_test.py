"""railyard-flow between two processes: what it counts, what it carries, how it refuses."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = sys.argv.pop(1)
FABRIC = sys.argv.pop(1).split()  # options that choose the fabric
LIMIT = 90
os.environ.setdefault("SIMEFA_NAMESPACE", f"flow-{os.getpid()}")


def start(*arguments, stdout=subprocess.PIPE, **more):
    return subprocess.Popen([TOOL, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, **more)


def end(process):
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


def kill(process):
    """Over shm, what it had shared stays: it could not take that away."""
    process.kill()
    process.communicate()
    for left in pathlib.Path("/dev/shm").glob(f"{process.pid}[-:]*"):
        left.unlink()


class Flow(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.info = str(pathlib.Path(self.folder.name, "info"))

    def pair(self, target, initiator):
        receiver = start("target", "--info", self.info, "--json", *FABRIC, *target)
        sender = start("initiator", "--info", self.info, "--json", *FABRIC, *initiator)
        try:
            sent, received = end(sender), end(receiver)
        finally:
            for process in (sender, receiver):
                process.kill()
        self.assertEqual(sent[0], 0, sent)
        self.assertEqual(received[0], 0, received)
        return json.loads(sent[1]), json.loads(received[1])

    def test_grains_arrive_whole(self):
        size = ["--grain-size", "512K", "--ring", "64"]  # a target that is slow loses nothing
        sent, received = self.pair(size + ["--grains", "60"], size + ["--grains", "60", "--rate", "120"])
        self.assertEqual(sent["grains"], 60)
        self.assertEqual((received["grains"], received["lost"], received["torn"]), (60, 0, 0))
        self.assertGreater(received["p50_us"], 0)
        self.assertGreaterEqual(received["p99_us"], received["p50_us"])
        self.assertGreaterEqual(received["bytes"], 60 << 19)

    def test_slices_arrive_whole(self):
        size = ["--grain-size", "300K", "--ring", "64", "--slices", "5"]
        _, received = self.pair(size + ["--grains", "40"],
                                size + ["--send-slices", "--grains", "40", "--rate", "100"])
        self.assertEqual((received["grains"], received["lost"], received["torn"]), (40, 0, 0))

    def test_a_file_comes_out_as_it_went_in(self):
        path = pathlib.Path(self.folder.name, "in")
        copy = pathlib.Path(self.folder.name, "out")
        path.write_bytes(os.urandom(1_000_003))
        size = ["--grain-size", "64K", "--ring", "32"]
        self.pair(size + ["--output", str(copy)], size + ["--file", str(path), "--rate", "100"])
        self.assertEqual(copy.read_bytes(), path.read_bytes())

    def test_one_target_is_no_targets(self):
        size = ["--grain-size", "4K", "--ring", "8", "--grains", "1"]
        receiver = start("target", "--info", self.info, *FABRIC, *size)
        code, out, err = end(start("initiator", "--info", self.info, *FABRIC, *size))
        end(receiver)
        self.assertEqual(code, 0, err)
        self.assertIn("1 grain to 1 target, 0 late", out)

    def test_a_file_that_is_no_info_is_left_alone(self):
        path = pathlib.Path(self.info)
        path.write_text("somebody's thesis\n", encoding="utf-8")
        code, _, err = end(start("target", "--info", self.info, "--grains", "1", *FABRIC))
        self.assertEqual(code, 2, err)
        self.assertIn(f"--info {self.info}: is there and no target info", err)
        self.assertEqual(path.read_text(encoding="utf-8"), "somebody's thesis\n")
        path.unlink()
        texts = [""]
        for _ in range(2):  # the second one finds what the first, which is killed, has left, and takes it away
            receiver = start("target", "--info", self.info, "--grains", "1", *FABRIC)
            deadline = time.monotonic() + LIMIT
            text = ""
            while time.monotonic() < deadline and text in texts:
                time.sleep(0.01)
                with contextlib.suppress(FileNotFoundError):
                    text = path.read_text(encoding="utf-8")
            kill(receiver)
            self.assertNotIn(text, texts)
            texts.append(text)

    def test_no_device_names_those_that_there_are(self):
        fabric = " ".join(FABRIC).replace("--interface lo", "").split()
        code, _, err = end(start("target", *fabric, "--interface", "nosuch"))
        self.assertEqual(code, 1, err)
        self.assertRegex(err, r"devices here: .*\w: (tcp|shm|efa)")

    def test_lost_output_is_no_success(self):
        words = ["--info", self.info, *FABRIC, "--grain-size", "64K", "--grains", "4"]
        for json_too in ([], ["--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                both = [start(role, *words, *json_too, stdout=full) for role in ("target", "initiator")]
            for process in both:
                code, _, err = end(process)
                self.assertEqual(code, 1, err)
                self.assertIn("railyard-flow: cannot write to standard output", err)

    def test_closed_output_is_no_success(self):
        words = ["--info", self.info, *FABRIC, "--grain-size", "64K", "--grains", "4"]
        both = [start(role, *words, stdout=None, preexec_fn=lambda: os.close(1)) for role in ("target", "initiator")]
        for process in both:
            code, _, err = end(process)
            self.assertEqual(code, 1, err)
            self.assertIn("railyard-flow: cannot write to standard output", err)

    def test_a_target_is_piped_into_its_initiator(self):
        """As `target | initiator`: nobody reads the summary there, and it comes on standard error, with the status that it has anyway."""
        size = [*FABRIC, "--grain-size", "64K", "--ring", "64"]
        for words, status, told in (([], 0, "20 grains, 0 lost, 0 torn"), (["--json"], 0, '{"grains":20,"lost":0,'), (["--grains", "20"], 0, "20 grains, 0 lost"),
                                    (["--grains", "30"], 1, "the initiators have gone after 20 of 30 grains")):
            target = start("target", *size, "--idle-timeout", "0.1", *words)
            self.addCleanup(kill, target)
            sender = start("initiator", *size, "--grains", "20", "--rate", "100", stdin=target.stdout)
            self.addCleanup(kill, sender)
            target.stdout.close()
            target.stdout = None
            code, out, err = end(sender)
            self.assertEqual(code, 0, err)
            self.assertIn("20 grains to 1 target", out)
            code, _, err = end(target)
            self.assertEqual(code, status, err)
            self.assertIn(told, err)
            self.assertNotIn("cannot write", err)
            self.assertEqual(list(pathlib.Path("/dev/shm").glob(f"{target.pid}[-:]*")), [])

    def make_target(self, *words):
        """One that runs, and the info that it has written."""
        target = start("target", "--info", self.info, *FABRIC, "--grain-size", "64K", *words)
        self.addCleanup(kill, target)
        deadline = time.monotonic() + LIMIT
        while not os.path.exists(self.info):
            self.assertIsNone(target.poll(), "it has ended without one")
            self.assertLess(time.monotonic(), deadline, "no info")
            time.sleep(0.01)
        return target, pathlib.Path(self.info).read_bytes()

    def test_an_info_is_its_users_alone(self):
        """Who has it can write to the memory."""
        before = os.umask(0o022)
        self.addCleanup(os.umask, before)
        self.make_target("--grains", "3")
        self.assertEqual(oct(os.stat(self.info).st_mode & 0o777), oct(0o600))

    def initiator(self, info, *words):
        process = start("initiator", "--info", info, *FABRIC, "--grain-size", "64K", *words)
        self.addCleanup(kill, process)
        return process

    def test_an_info_that_is_being_copied_is_waited_for(self):
        target, info = self.make_target("--grains", "3")
        copy = pathlib.Path(self.folder.name, "copy")
        copy.write_bytes(info[:len(info) // 2])
        sender = self.initiator(str(copy), "--grains", "3", "--connect-timeout", "60")
        with self.assertRaises(subprocess.TimeoutExpired):
            sender.wait(timeout=0.5)
        with copy.open("ab") as file:
            file.write(info[len(info) // 2:])
        for process in (sender, target):
            code, _, err = end(process)
            self.assertEqual(code, 0, err)

    def test_an_info_without_an_end_is_taken_in_the_end(self):
        target, info = self.make_target("--grains", "3")
        copy = pathlib.Path(self.folder.name, "copy")
        copy.write_bytes(info[:-1])
        for process in (self.initiator(str(copy), "--grains", "3", "--connect-timeout", "2"), target):
            code, _, err = end(process)
            self.assertEqual(code, 0, err)
        copy.write_bytes(info[:len(info) // 2])
        code, _, err = end(self.initiator(str(copy), "--grains", "3", "--connect-timeout", "0.2"))
        self.assertEqual(code, 2, err)
        self.assertIn("no target info", err)

    def test_an_info_comes_through_a_fifo(self):
        target, info = self.make_target("--grains", "3")
        fifo = pathlib.Path(self.folder.name, "fifo")
        os.mkfifo(fifo)
        code, _, err = end(self.initiator(str(fifo), "--connect-timeout", "0.3"))
        self.assertEqual(code, 1, err)
        self.assertIn(f"--info {fifo}: not there in time", err)
        sender = self.initiator(str(fifo), "--grains", "3", "--connect-timeout", "60")
        for part in (b"", info):  # somebody who says nothing first
            with fifo.open("wb") as file:  # opens when somebody reads
                file.write(part)
        for process in (sender, target):
            code, _, err = end(process)
            self.assertEqual(code, 0, err)

    def test_a_signal_before_the_last_grain_is_told(self):
        target, info = self.make_target("--idle-timeout", "0.1")
        sender = self.initiator(self.info, "--grains", "1000000", "--rate", "100")
        line = sender.stderr.readline()  # a second has passed
        self.assertIn("grains", line)
        sender.terminate()
        code, _, err = end(sender)
        self.assertEqual(code, 1, err)
        self.assertRegex(err, r"railyard-flow: ended after \d+ of 1000000 grains")
        code, _, err = end(target)
        self.assertEqual(code, 0, err)
        target, _ = self.make_target("--grains", "7")
        target.terminate()
        code, _, err = end(target)
        self.assertEqual(code, 1, err)
        self.assertIn("railyard-flow: ended by a signal after 0 of 7 grains", err)

    def test_a_signal_is_a_good_end_of_what_has_none(self):
        target, _ = self.make_target()
        sender = self.initiator(self.info, "--rate", "100")
        sender.stderr.readline()
        for process in (sender, target):
            process.terminate()
            code, _, err = end(process)
            self.assertEqual(code, 0, err)

    @unittest.skipIf("efa" in FABRIC, "its NICs write without the target's process")
    def test_what_has_not_arrived_at_a_signal_is_told(self):
        target, _ = self.make_target()
        sender = self.initiator(self.info, "--rate", "200")
        sender.stderr.readline()
        target.send_signal(signal.SIGSTOP)
        try:
            time.sleep(0.2)  # some are sent to it
            sender.terminate()
            for _ in range(5):  # over shm one that was stopped with its endpoint's lock held keeps the sender waiting
                try:
                    sender.wait(5)
                    break
                except subprocess.TimeoutExpired:
                    target.send_signal(signal.SIGCONT)
                    target.send_signal(signal.SIGSTOP)
            code, _, err = end(sender)
        finally:
            target.send_signal(signal.SIGCONT)
        self.assertEqual(code, 1, err)
        self.assertRegex(err, r"railyard-flow: (ended while up to \d+ grains were still on their way|a target is gone)")

    @unittest.skipIf("efa" in FABRIC, "its NICs give up who is stopped for so long")
    def test_every_target_gets_all_of_it_where_one_answers_late(self):
        infos = [self.info, self.info + "-late"]
        size = ["--grain-size", "64K", "--ring", "16", "--grains", "10"]
        targets = []
        for info in infos:
            targets.append(start("target", "--info", info, "--json", *FABRIC, *size))
            self.addCleanup(kill, targets[-1])
            deadline = time.monotonic() + LIMIT
            while not os.path.exists(info) and time.monotonic() < deadline:
                time.sleep(0.01)
        targets[1].send_signal(signal.SIGSTOP)
        try:
            sender = self.initiator(infos[0], "--info", infos[1], "--ring", "16", "--grains", "10", "--rate", "100")
            time.sleep(1.5)
        finally:
            targets[1].send_signal(signal.SIGCONT)
        for process in (sender, *targets):
            code, out, err = end(process)
            self.assertEqual(code, 0, (out, err))

    def test_bad_usage_names_the_option(self):
        for words, name in ((["target", "--ring", "0"], "--ring"), (["initiator", "--rate", "-1"], "--rate"),
                            (["initiator", "--connect-timeout", "nan"], "--connect-timeout: 'nan' is no number"),
                            (["initiator", "--rate", "nan"], "--rate"), (["target", "--idle-timeout", "nan"], "--idle-timeout"),
                            (["target", "--provider", "ether"], "--provider"),
                            (["initiator", "--slices", "x"], "--slices"), (["target", "--grain-size", "1X"], "--grain-size"), (["sender"], "'sender'"), (["target", "--ringg", "4"], "'--ringg' is no option here (did you mean --ring?)"), ([], "target or initiator")):
            code, _, err = end(start(*words))
            self.assertEqual(code, 2, (words, err))
            self.assertIn(name, err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
