"""railyard-flow between two processes: what it counts, what it carries, how it refuses."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = sys.argv.pop(1)
FABRIC = sys.argv.pop(1).split()  # options that choose the fabric
LIMIT = 90


def start(*arguments, stdout=subprocess.PIPE):
    return subprocess.Popen([TOOL, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True)


def end(process):
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


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

    def test_a_file_that_is_no_info_is_left_alone(self):
        path = pathlib.Path(self.info)
        path.write_text("somebody's thesis\n", encoding="utf-8")
        code, _, err = end(start("target", "--info", self.info, "--grains", "1", *FABRIC))
        self.assertEqual(code, 2, err)
        self.assertIn(f"--info {self.info}: is there and no target info", err)
        self.assertEqual(path.read_text(encoding="utf-8"), "somebody's thesis\n")
        path.unlink()
        texts = []
        for _ in range(2):  # the second one finds what the first, which is killed, has left
            receiver = start("target", "--info", self.info, "--grains", "1", *FABRIC)
            deadline = time.monotonic() + LIMIT
            while time.monotonic() < deadline and not (path.exists() and path.read_text(encoding="utf-8") not in texts):
                time.sleep(0.01)
            receiver.kill()
            end(receiver)
            texts.append(path.read_text(encoding="utf-8"))
        self.assertNotEqual(*texts)

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

    def test_bad_usage_names_the_option(self):
        for words, name in ((["target", "--ring", "0"], "--ring"), (["initiator", "--rate", "-1"], "--rate"),
                            (["target", "--provider", "ether"], "--provider"),
                            (["initiator", "--slices", "x"], "--slices"), (["target", "--grain-size", "1X"], "--grain-size"), (["sender"], "'sender'"), (["target", "--ringg", "4"], "'--ringg' is no option here (did you mean --ring?)"), ([], "target or initiator")):
            code, _, err = end(start(*words))
            self.assertEqual(code, 2, (words, err))
            self.assertIn(name, err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
