#!/usr/bin/env python3
"""The Debian package, installed into a copy of this system that is thrown away. As root.

  package_test.py PACKAGE.deb
"""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path()
UNIT = "/usr/lib/systemd/system/lockstepd.service"
# Of 100, which is no protection at all; systemd calls less than 20 SAFE.
MOST_EXPOSED = 12
CONFIG = """listen: 127.0.0.1:0
data_dir: /var/lib/lockstep/log
clusters: [{name: a, bootstrap_servers: '127.0.0.1:1'}]
"""


def run(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)


class Contents(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        subprocess.run(["dpkg-deb", "--extract", PACKAGE, cls.root], check=True)

    def test_debians_own_checks(self) -> None:
        done = run("lintian", "--allow-root", "--fail-on", "error,warning", PACKAGE)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_page_for_each_command(self) -> None:
        pages = sorted(self.root.glob("usr/share/man/man*/*.gz"))
        names = {page.name for page in pages}
        self.assertLessEqual({"lockstepd.8.gz", "lockstepctl.1.gz", "lockstepctl-commit.1.gz",
                              "lockstepctl-log-dump.1.gz"}, names)
        for page in pages:
            text = gzip.decompress(page.read_bytes()).decode()
            self.assertIn(".SH NAME\n" + page.name.rsplit(".", 2)[0] + " \\-", text)
            done = run("mandoc", "-T", "lint", "-W", "warning,stop", input=text)
            self.assertEqual(done.returncode, 0, f"{page.name}: {done.stdout}")

    def test_completions_are_programs_of_their_shells(self) -> None:
        for shell, path in (("bash", "bash-completion/completions/lockstepctl"),
                            ("zsh", "zsh/vendor-completions/_lockstepctl"),
                            ("fish", "fish/vendor_completions.d/lockstepctl.fish")):
            done = run(shell, "-n", self.root / "usr/share" / path)
            self.assertEqual(done.returncode, 0, done.stdout)


class Installed(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        base = Path(folder.name)
        for name in ("upper", "work", "root", "data"):
            (base / name).mkdir()
        self.root = base / "root"
        self.mount("-t", "overlay", "overlay", "-o",
                   f"lowerdir=/,upperdir={base}/upper,workdir={base}/work", self.root)
        # lockstepd refuses an overlay, which is what a container loses.
        (self.root / "var/lib/lockstep").mkdir()
        self.mount("--bind", base / "data", self.root / "var/lib/lockstep")
        self.mount("-t", "proc", "proc", self.root / "proc")
        self.mount("--bind", "/dev", self.root / "dev")
        (self.root / "package.deb").write_bytes(PACKAGE.read_bytes())

    def mount(self, *words: str | Path) -> None:
        subprocess.run(["mount", *words], check=True)
        self.addCleanup(subprocess.run, ["umount", words[-1]], check=True)

    def inside(self, *words: str, ok: bool = True) -> str:
        done = run("chroot", self.root, *words)
        if ok:
            self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}")
        return done.stdout

    def command(self, key: str) -> list[str]:
        """What the unit runs, as its user."""
        unit = (self.root / UNIT[1:]).read_text(encoding="utf-8")
        (line,) = re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)
        (user,) = re.findall(r"^User=(.*)$", unit, re.MULTILINE)
        return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *shlex.split(line)]

    def serve(self) -> None:
        with subprocess.Popen(["chroot", self.root, *self.command("ExecStart")], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                address = process.stdout.readline().split()[-1]
                self.assertIn("UNREACHABLE", self.inside("lockstepctl", "--server", address, "status")
                              .upper().replace("CONNECTING", "UNREACHABLE"))
            finally:
                process.terminate()
            self.assertEqual(process.wait(60), 0)

    def test_a_life(self) -> None:
        self.inside("dpkg", "--install", "/package.deb")
        self.assertIn("lockstep", self.inside("getent", "passwd", "lockstep"))
        self.assertNotEqual(run("chroot", self.root, *self.command("ExecStartPre")).returncode, 0)
        (self.root / "etc/lockstep/lockstepd.yaml").write_text(CONFIG, encoding="utf-8")
        self.inside("chown", "lockstep:lockstep", "/var/lib/lockstep")  # As StateDirectory does.
        self.inside(*self.command("ExecStartPre"))
        self.serve()

        self.inside("systemd-analyze", "verify", "--man=yes", UNIT)
        self.inside("systemd-analyze", "security", "--offline=yes", f"--threshold={MOST_EXPOSED}", UNIT)

        self.inside("dpkg", "--install", "/package.deb")  # Again: an upgrade keeps what is there.
        self.serve()
        said = self.inside("dpkg", "--purge", "lockstep")
        self.assertIn("/var/lib/lockstep is kept", said)
        self.assertTrue((self.root / "var/lib/lockstep/log/CURRENT").exists())
        self.assertFalse((self.root / "etc/lockstep").exists())
        self.assertFalse((self.root / "usr/bin/lockstepd").exists())


if __name__ == "__main__":
    PACKAGE = Path(sys.argv.pop(1)).resolve()
    unittest.main(argv=sys.argv, verbosity=1)
