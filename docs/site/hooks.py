"""What the site needs beyond Markdown: pages of the API from the protos, and links that leave docs/.

In the repository a page links to the protos, to deploy/, to tests: those links are right there, and become
links to the repository here. One that points to nothing fails the build.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import api_reference  # noqa: E402  pylint: disable=wrong-import-position

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()(\.\./[^)\s#]*)((?:#[^)\s]*)?\))")
log = logging.getLogger("mkdocs.hooks.lockstep")


def on_files(files: Files, *, config: Any) -> Files:
    files.append(File.generated(config, "api-reference.md", content=api_reference.markdown(ROOT / "proto")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: Any, files: Files) -> str:
    folder = (DOCS / page.file.src_uri).parent

    def outside(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / match[2]))
        if target.is_relative_to(DOCS):
            return match[0]
        if not target.exists():
            log.warning("Doc file '%s' links to '%s', which does not exist.", page.file.src_uri, match[2])
            return match[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{match[1]}{config.repo_url}/{kind}/main/{target.relative_to(ROOT)}{match[3]}"

    return LINK.sub(outside, markdown)
