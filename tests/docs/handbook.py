"""Writes for the site what agents read: ``python -m tests.docs.handbook FOLDER``.

The folder gets ``llms.txt``, ``llms-full.txt`` and every page as Markdown beside its HTML.
"""

import sys
from pathlib import Path

from oncebox import packaged_docs
from tests.project.tree import ROOT


def write(site: Path) -> None:
    """Write everything into the folder of a site that is built."""
    pages = packaged_docs.read_pages(ROOT / "docs")
    texts = {path: page.text for path, page in pages.items()}
    texts["llms.txt"] = packaged_docs.llms_txt(pages, prefix="")
    texts["llms-full.txt"] = packaged_docs.llms_full_txt(pages, prefix="")
    for path, text in texts.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
