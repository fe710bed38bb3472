#!/usr/bin/env python3
"""Lints the protos, and compares them with what is frozen: clients and logs of today must go on.

  scripts/lib/check_protos.py                      says what is wrong, all of it
  scripts/lib/check_protos.py --write-baseline     freezes what is there: proto/baseline/v1.json

Adding is free. What the baseline has may not be removed, renamed, renumbered or changed in type; write
the baseline anew only with a release, when nobody can have what it would drop.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
BASELINE = ROOT / "proto" / "baseline" / "v1.json"
WAY_OUT = "keep it (deprecated = true) and add a new one beside it, or make a package v2"

Node = dict[str, list[Any]]  # A message in text format: each field's values, in order.

PASCAL = re.compile(r"([A-Z][a-z0-9]*)+")
SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
UPPER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


# ---- Reading -------------------------------------------------------------------------------------

def parse_text(text: str) -> Node:
    """Protobuf's text format, as protoc --decode prints it."""
    stack: list[Node] = [{}]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith(" {"):
            inner: Node = {}
            stack[-1].setdefault(line[:-2], []).append(inner)
            stack.append(inner)
        elif line == "}":
            stack.pop()
        elif line:
            key, value = line.split(": ", 1)
            stack[-1].setdefault(key, []).append(value.strip('"') if value[0] == '"' else value)
    return stack[0]


def describe(root: Path) -> list[Node]:
    """The descriptors of root/lockstep/v1, with their comments."""
    names = sorted(str(path.relative_to(root)) for path in (root / "lockstep" / "v1").glob("*.proto"))
    binary = subprocess.run(["protoc", "-I", str(root), "--include_source_info",
                             "--descriptor_set_out=/dev/stdout", *names],
                            capture_output=True, check=False)
    if binary.returncode != 0:
        sys.exit(binary.stderr.decode())
    text = subprocess.run(["protoc", "-I", "/usr/include", "--decode=google.protobuf.FileDescriptorSet",
                           "google/protobuf/descriptor.proto"],
                          input=binary.stdout, capture_output=True, check=True)
    return parse_text(text.stdout.decode()).get("file", [])


def one(node: Node, key: str, default: str = "") -> str:
    return node.get(key, [default])[0]


def commented(file: Node) -> set[tuple[int, ...]]:
    """The paths of what has a comment before or beside it."""
    locations = file.get("source_code_info", [{}])[0].get("location", [])
    return {tuple(int(step) for step in location.get("path", []))
            for location in locations if "leading_comments" in location or "trailing_comments" in location}


def messages(file: Node) -> list[tuple[str, tuple[int, ...], Node]]:
    """Every message with its full name and path, nested ones too."""
    def inside(prefix: str, path: tuple[int, ...], key: str, number: int, node: Node) -> list:
        found = []
        for index, message in enumerate(node.get(key, [])):
            here = (*path, number, index)
            name = f"{prefix}.{one(message, 'name')}"
            found += [(name, here, message), *inside(name, here, "nested_type", 3, message)]
        return found
    return inside(one(file, "package"), (), "message_type", 4, file)


def enums(file: Node) -> list[tuple[str, Node]]:
    found = [(f"{one(file, 'package')}.{one(enum, 'name')}", enum) for enum in file.get("enum_type", [])]
    for name, _, message in messages(file):
        found += [(f"{name}.{one(enum, 'name')}", enum) for enum in message.get("enum_type", [])]
    return found


# ---- Lint ----------------------------------------------------------------------------------------

def lint(files: list[Node]) -> list[str]:
    """What is wrong with names and comments."""
    problems: list[str] = []

    def want(rule: re.Pattern[str], name: str, where: str, how: str) -> None:
        if not rule.fullmatch(name):
            problems.append(f"{where}: '{name}' must be {how}")

    explained = types_with_a_comment(files)
    for file in files:
        where, notes = one(file, "name"), commented(file)
        if one(file, "syntax") != "proto3":
            problems.append(f"{where}: must be proto3")
        if not one(file, "package").startswith("lockstep.v1"):
            problems.append(f"{where}: package must be lockstep.v1, as its folder")
        for name, path, message in messages(file):
            if one(message.get("options", [{}])[0], "map_entry") == "true":
                continue
            want(PASCAL, name.rsplit(".", 1)[1], where, "PascalCase")
            for index, field in enumerate(message.get("field", [])):
                label = one(field, "name")
                want(SNAKE, label, f"{where}: {name}", "lower_snake_case")
                kind = one(field, "type_name", one(field, "type"))
                alone = len(message["field"]) == 1  # The rpc has said what it is.
                if (not {path, (*path, 2, index)} & notes and kind not in explained and not alone
                        and (label, kind) not in SELF_EVIDENT):
                    problems.append(f"{where}: {name}.{label} has no comment, nor its message or type")
        for name, enum in enums(file):
            problems += lint_enum(where, name.rsplit(".", 1)[1], enum)
        for index, service in enumerate(file.get("service", [])):
            want(PASCAL, one(service, "name"), where, "PascalCase")
            if (6, index) not in notes:
                problems.append(f"{where}: service {one(service, 'name')} has no comment")
            for at, method in enumerate(service.get("method", [])):
                problems += lint_rpc(where, one(file, "package"), method, (6, index, 2, at) in notes)
    return problems


def types_with_a_comment(files: list[Node]) -> set[str]:
    found = set()
    for file in files:
        notes = commented(file)
        found |= {f".{name}" for name, path, _ in messages(file) if path in notes}
        for index, enum in enumerate(file.get("enum_type", [])):
            values = range(1, len(enum["value"]))
            if (5, index) in notes or any((5, index, 2, value) in notes for value in values):
                found.add(f".{one(file, 'package')}.{one(enum, 'name')}")
    return found | {".google.protobuf.Timestamp"}  # A time is named for what happened then.


# Kafka's own words, and what a name says whole.
SELF_EVIDENT = {(name, f"TYPE_{kind}") for name, kind in (
    ("txn_id", "STRING"), ("cluster", "STRING"), ("topic", "STRING"), ("partition", "INT32"),
    ("group_id", "STRING"), ("member_id", "STRING"), ("group_instance_id", "STRING"),
    ("leader_epoch", "INT32"), ("metadata", "STRING"), ("producer_id", "INT64"),
    ("producer_epoch", "INT32"), ("transactional_id", "STRING"), ("key", "STRING"), ("key", "BYTES"),
    ("value", "BYTES"), ("offset", "INT64"), ("version", "STRING"), ("name", "STRING"),
    ("label", "STRING"), ("message", "STRING"), ("page_token", "STRING"))}
# The log's own records are explained in docs/design/log_format.md, field by field.
LOG_PACKAGE = "lockstep.v1.log"


def lint_enum(where: str, name: str, enum: Node) -> list[str]:
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper() + "_"
    problems = []
    if not PASCAL.fullmatch(name):
        problems.append(f"{where}: '{name}' must be PascalCase")
    for value in enum.get("value", []):
        label = one(value, "name")
        if not label.startswith(prefix) or not UPPER.fullmatch(label):
            problems.append(f"{where}: {name}.{label} must begin with {prefix}, in upper case")
        if one(value, "number") == "0" and label != prefix + "UNSPECIFIED":
            problems.append(f"{where}: {name}: 0 must be {prefix}UNSPECIFIED")
    return problems


def lint_rpc(where: str, package: str, method: Node, has_comment: bool) -> list[str]:
    name = one(method, "name")
    problems = [] if PASCAL.fullmatch(name) else [f"{where}: rpc '{name}' must be PascalCase"]
    if not has_comment:
        problems.append(f"{where}: rpc {name} has no comment: codes, reasons, what is known afterwards")
    for key, suffix in (("input_type", "Request"), ("output_type", "Response")):
        if one(method, key) != f".{package}.{name}{suffix}":
            problems.append(f"{where}: rpc {name} must have a {name}{suffix} of its own")
    return problems


# ---- What is frozen ------------------------------------------------------------------------------

def shape(files: list[Node]) -> dict[str, Any]:
    """What clients and stored records depend on."""
    out: dict[str, Any] = {"messages": {}, "enums": {}, "rpcs": {}}
    for file in files:
        for name, _, message in messages(file):
            out["messages"][name] = {one(field, "number"): shape_of(message, field)
                                     for field in message.get("field", [])}
        for name, enum in enums(file):
            out["enums"][name] = {one(value, "number"): one(value, "name")
                                  for value in enum.get("value", [])}
        for service in file.get("service", []):
            for method in service.get("method", []):
                name = f"{one(file, 'package')}.{one(service, 'name')}.{one(method, 'name')}"
                out["rpcs"][name] = {
                    "takes": one(method, "input_type"), "returns": one(method, "output_type"),
                    "client streams": one(method, "client_streaming", "false"),
                    "server streams": one(method, "server_streaming", "false")}
    return out


def shape_of(message: Node, field: Node) -> dict[str, str]:
    repeated = one(field, "label") == "LABEL_REPEATED"
    presence = "optional" if one(field, "proto3_optional") == "true" else "single"
    found = {"name": one(field, "name"), "type": one(field, "type_name", one(field, "type")),
             "label": "repeated" if repeated else presence}
    if "oneof_index" in field and presence != "optional":
        found["oneof"] = one(message["oneof_decl"][int(one(field, "oneof_index"))], "name")
    return found


def breaking(frozen: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What of the frozen shape is no longer so."""
    problems = []
    for kind, what in (("messages", "field"), ("enums", "value"), ("rpcs", "property")):
        for name, parts in frozen[kind].items():
            if name not in now[kind]:
                problems.append(f"{name} was removed or renamed: {WAY_OUT}")
                continue
            for number, before in parts.items():
                after = now[kind][name].get(number)
                if after is None:
                    label = before["name"] if isinstance(before, dict) else before
                    problems.append(f"{name}: {what} {number} ({label}) was removed: {WAY_OUT}")
                elif after != before:
                    problems.append(f"{name}: {what} {number} was {told(before)} and is {told(after)}: "
                                    f"{WAY_OUT}")
    return problems


def told(part: Any) -> str:
    return " ".join(part.values()) if isinstance(part, dict) else str(part)


def main() -> int:
    files = describe(ROOT / "proto")
    now = shape(files)
    if sys.argv[1:] == ["--write-baseline"]:
        BASELINE.parent.mkdir(exist_ok=True)
        BASELINE.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{BASELINE.relative_to(ROOT)}: written")
        return 0
    problems = lint([file for file in files if one(file, "package") != LOG_PACKAGE])
    if BASELINE.exists():
        problems += breaking(json.loads(BASELINE.read_text(encoding="utf-8")), now)
    else:
        problems.append("nothing is frozen: scripts/lib/check_protos.py --write-baseline")
    print("\n".join(problems) or f"protos: {len(files)} files keep the rules and what is frozen")
    return 1 if problems else 0


if __name__ == "__main__":
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.strip())
        sys.exit(0)
    sys.exit(main())
