"""Generates the Go code of the wire contract into ``forebayv1``, with the protoc of the environment of the protos.

    .venv-proto/bin/python tests/go/generate.py

The protos state no Go package: a user of the protos chooses one, as this does.
"""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path
from typing import Final

from grpc_tools import protoc

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
MODULE: Final = "example.com/forebay"
PACKAGE: Final = f"{MODULE}/forebayv1"


def main() -> int:
    """Write the code; return the exit code of protoc."""
    os.environ["PATH"] = f"{ROOT / '.tools' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    protos = sorted(str(path.relative_to(ROOT / "protos")) for path in (ROOT / "protos/forebay/v1").glob("*.proto"))
    own_types = resources.files("grpc_tools") / "_proto"
    common = Path(str(resources.files("google.rpc") / "status.proto")).parents[2]
    options = [f"--{kind}_opt=M{proto}={PACKAGE}" for kind in ("go", "go-grpc") for proto in protos]
    return int(
        protoc.main(
            [
                "protoc",
                *(f"--proto_path={path}" for path in (ROOT / "protos", own_types, common)),
                *(f"--{kind}_out={HERE}" for kind in ("go", "go-grpc")),
                *(f"--{kind}_opt=module={MODULE}" for kind in ("go", "go-grpc")),
                *options,
                *protos,
            ]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
