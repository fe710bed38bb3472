"""Generates the messages and stubs of lockstep.v1 from the protos while the package is built."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
PROTOS = ("coordinator", "error", "txn")


def proto_root() -> Path:
    """Beside this file in a source distribution, else that of the repository."""
    for root in (HERE / "proto", HERE.parent.parent / "proto"):
        if (root / "lockstep" / "v1").is_dir():
            return root
    raise SystemExit("the protos are missing: build from the repository or from an sdist")


def generate(into: Path) -> None:
    from grpc_tools import protoc

    root = proto_root()
    # The protos of google.protobuf that the compiler brings along.
    bundled = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{root}", f"-I{bundled}"]
    arguments += [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(arguments + [f"lockstep/v1/{name}.proto" for name in PROTOS]) != 0:
        raise SystemExit("protoc failed")


class BuildWithStubs(build_py):
    def run(self) -> None:
        super().run()
        generate(Path(self.build_lib))


class SdistWithProtos(sdist):
    def make_release_tree(self, base_dir: str, files: "list[str]") -> None:
        super().make_release_tree(base_dir, files)
        for name in PROTOS:
            to = Path(base_dir, "proto", "lockstep", "v1", f"{name}.proto")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(proto_root() / "lockstep" / "v1" / to.name, to)


setup(cmdclass={"build_py": BuildWithStubs, "sdist": SdistWithProtos})
