"""The reference of the API, from the protos and the comments in them: python3 api_reference.py PROTOS."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Iterator

from google.protobuf import descriptor_pb2 as pb

PACKAGE = ".lockstep.v1."
# The log's records are no part of the API.
FILES = ("coordinator", "admin", "txn", "error")
# Numbers of fields in descriptor.proto, which paths to comments are made of.
MESSAGE, ENUM, SERVICE = 4, 5, 6
FIELD, NESTED, NESTED_ENUM = 2, 3, 4
METHOD = VALUE = 2
SCALARS = {value: name[5:].lower() for name, value in pb.FieldDescriptorProto.Type.items()}


def compiled(protos: Path) -> list[pb.FileDescriptorProto]:
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["protoc", f"--proto_path={protos}", "--include_source_info",
                        f"--descriptor_set_out={file.name}",
                        *(f"lockstep/v1/{name}.proto" for name in FILES)], check=True)
        return list(pb.FileDescriptorSet.FromString(file.read()).file)


class Comments:
    """What stands before or behind each thing of one file."""

    def __init__(self, file: pb.FileDescriptorProto) -> None:
        self.by_path = {
            tuple(place.path): "\n".join(
                line.removeprefix(" ") for line in
                (place.leading_comments or place.trailing_comments).rstrip().split("\n"))
            for place in file.source_code_info.location}

    def of(self, *path: int) -> str:
        return self.by_path.get(path, "")


def paragraphs(comment: str) -> str:
    """Markdown of a comment: what is indented is a table of codes, or an example, and stays as it is."""
    out = []
    for indented, lines in itertools.groupby(comment.split("\n"), lambda line: line.startswith("  ")):
        text = "\n".join(lines).strip("\n")
        if text:
            out.append(f"```text\n{textwrap.dedent(text)}\n```" if indented else escaped(text))
    return "\n\n".join(out)


def escaped(text: str) -> str:
    """What Markdown would take for its own, but in `code`."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([<>*_|])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def anchor(name: str) -> str:
    return name.lower().replace(".", "-")


def shown(type_name: str) -> str:
    if not type_name.startswith(PACKAGE):
        return f"`{type_name.removeprefix('.')}`"
    name = type_name.removeprefix(PACKAGE)
    return f"[{name}](#{anchor(name)})"


def type_of(field: pb.FieldDescriptorProto) -> str:
    name = shown(field.type_name) if field.type_name else f"`{SCALARS[field.type]}`"
    if field.label == field.LABEL_REPEATED:
        return f"repeated {name}"
    return f"optional {name}" if field.proto3_optional else name


def heading(level: int, name: str) -> str:
    return f"{'#' * level} {name} {{ #{anchor(name)} }}"


def cell(comment: str) -> str:
    return escaped(" ".join(comment.split()))


def message(one: pb.DescriptorProto, name: str, comments: Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield heading(3, name)
    yield paragraphs(comments.of(*path))
    if one.field:
        rows = ["| field | type | number | |", "|---|---|---|---|"]
        for index, field in enumerate(one.field):
            about = cell(comments.of(*path, FIELD, index))
            if field.HasField("oneof_index") and not field.proto3_optional:
                about = f"(one of `{one.oneof_decl[field.oneof_index].name}`) {about}"
            rows.append(f"| `{field.name}` | {type_of(field)} | {field.number} | {about} |")
        yield "\n".join(rows)
    for index, nested in enumerate(one.nested_type):
        if not nested.options.map_entry:
            yield from message(nested, f"{name}.{nested.name}", comments, (*path, NESTED, index))
    for index, nested_enum in enumerate(one.enum_type):
        yield from enum(nested_enum, f"{name}.{nested_enum.name}", comments, (*path, NESTED_ENUM, index))


def enum(one: pb.EnumDescriptorProto, name: str, comments: Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield heading(3, name)
    yield paragraphs(comments.of(*path))
    rows = ["| value | number | |", "|---|---|---|"]
    rows += [f"| `{value.name}` | {value.number} | {cell(comments.of(*path, VALUE, index))} |"
             for index, value in enumerate(one.value)]
    yield "\n".join(rows)


def service(one: pb.ServiceDescriptorProto, comments: Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield heading(2, one.name)
    yield paragraphs(comments.of(*path))
    for index, rpc in enumerate(one.method):
        yield heading(3, f"{one.name}.{rpc.name}")
        takes, gives = ("stream " * streams + shown(name) for streams, name in (
            (rpc.client_streaming, rpc.input_type), (rpc.server_streaming, rpc.output_type)))
        yield f"takes {takes}, answers {gives}"
        yield paragraphs(comments.of(*path, METHOD, index))


def markdown(protos: Path) -> str:
    parts = ["# Every call and message",
             "Made from the comments of the protos, which are the contract. What the calls have in common "
             "stands in [api.md](api.md)."]
    files = [(file, Comments(file)) for file in compiled(protos)]
    for file, comments in files:
        for index, one in enumerate(file.service):
            parts += service(one, comments, (SERVICE, index))
    for file, comments in files:
        parts.append(f"## {file.name}")
        for index, one in enumerate(file.message_type):
            parts += message(one, one.name, comments, (MESSAGE, index))
        for index, one in enumerate(file.enum_type):
            parts += enum(one, one.name, comments, (ENUM, index))
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    print(markdown(Path(sys.argv[1])))
