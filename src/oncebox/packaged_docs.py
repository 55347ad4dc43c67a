"""Packaged docs: the Markdown pages shipped in the wheel, llms.txt and llms-full.txt.

``llms.txt`` lists the pages, each with its own first sentence; ``llms-full.txt`` is all of them.
The service and the documentation site use the same functions.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: decision records: pages link to these, agents need no list of them
_DECISIONS_FOLDER = "decisions"
#: listed and fetched one by one; it would double the size of the full text
_REFERENCE = "reference"
#: sections of pages outside folders
_QUICKSTARTS, _GUIDES = "Quickstarts", "Guides"
#: maximum length of a summary of several lines
_SUMMARY_LENGTH = 180
_INTRODUCTION = """\
# Oncebox

> Mail and webhooks arrive at least once. Oncebox makes the effect happen once.

- In Python: `from oncebox import Client`. \
Address and key come from `ONCEBOX_URL` and `ONCEBOX_API_KEY`.
- By HTTP: `Authorization: Bearer KEY`, as described in [openapi.json](openapi.json).
- After a crash or a lost response, repeat the request under the same `attempt_id` or key: \
completed work is not repeated.
- On `already_claimed`, `held` or `unknown`: do not retry under another key; ask a person.
- All guides in one file, without the reference: [llms-full.txt](llms-full.txt)
"""
#: a relative link: no scheme, no anchor on the same page, no mail address
_RELATIVE_LINK = re.compile(r"(?<=\]\()(?![\w+.-]+:|#|/)([^)#\s]+)")
_LINK_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE_BLOCK = re.compile(r"^```.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
#: beginnings of lines that are not prose: headings, tables, lists, markup
_NON_PROSE_PREFIXES = ("#", "|", "-", ">", "!", "<", "{")


@dataclass(frozen=True, slots=True)
class DocPage:
    """One page in Markdown."""

    #: below docs/, such as ``reference/api.md``
    path: str
    text: str

    @property
    def title(self) -> str:
        """The first heading."""
        heads = (line for line in self.text.splitlines() if line.startswith("# "))
        return next(heads, self.path).removeprefix("# ").strip()

    @property
    def summary(self) -> str:
        """The first sentences without links; empty if there are none."""
        parts = re.split(r"\n\s*\n", _CODE_BLOCK.sub("", self.text))
        prose = (part.strip() for part in parts if not part.strip().startswith(_NON_PROSE_PREFIXES))
        first, *rest = _LINK_MARKUP.sub(r"\1", next(filter(None, prose), "")).splitlines() or [""]
        for line in rest:
            if len(first) + len(line) >= _SUMMARY_LENGTH or not line.endswith("."):
                break
            first += f" {line}"
        return re.sub(r":$", ".", first)

    @property
    def section(self) -> str:
        """The section of llms.txt that lists the page."""
        folder, _, name = self.path.rpartition("/")
        if folder:
            return folder.rpartition("/")[2].replace("-", " ").capitalize()
        return _QUICKSTARTS if name.startswith("quickstart") else _GUIDES


@cache
def installed_pages() -> Mapping[str, DocPage]:
    """Return the pages of this installation, by path."""
    return read_pages(_docs_folder())


def read_pages(folder: Path) -> Mapping[str, DocPage]:
    """Return the pages in a folder, by path; no other file is ever served."""
    found = sorted(folder.rglob("*.md"))
    names = (path.relative_to(folder).as_posix() for path in found)
    return {
        name: DocPage(name, path.read_text("utf-8"))
        for name, path in zip(names, found, strict=True)
    }


def llms_txt(pages: Mapping[str, DocPage], prefix: str) -> str:
    """Return ``llms.txt``, whose links begin with ``prefix``."""
    parts = [_INTRODUCTION]
    for section, listed in _sections(pages):
        lines = [f"- [{each.title}]({prefix}{each.path}): {each.summary}" for each in listed]
        parts.append("\n".join((f"## {section}\n", *lines, "")))
    return "\n".join(parts)


def llms_full_txt(pages: Mapping[str, DocPage], prefix: str) -> str:
    """Return ``llms-full.txt``: every guide, with links rewritten for it."""
    guides = {path: page for path, page in pages.items() if not path.startswith(f"{_REFERENCE}/")}
    inside = (
        _with_rewritten_links(each, prefix) for _, listed in _sections(guides) for each in listed
    )
    return "\n".join((_INTRODUCTION, *inside))


def _docs_folder() -> Path:
    """Return the folder of the pages: in the package, or in the checkout it runs from."""
    package = Path(__file__).parent
    packed, checkout = package / "docs", package.parents[1]
    if not packed.is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout / "docs"
    return packed


def _sections(pages: Mapping[str, DocPage]) -> Iterator[tuple[str, list[DocPage]]]:
    """Yield each section and its pages: quickstarts, guides, then folders; no decision records."""
    known: dict[str, list[DocPage]] = {_QUICKSTARTS: [], _GUIDES: []}
    for each in pages.values():
        if not each.path.startswith(f"{_DECISIONS_FOLDER}/"):
            known.setdefault(each.section, []).append(each)
    yield from ((section, listed) for section, listed in known.items() if listed)


def _with_rewritten_links(page: DocPage, prefix: str) -> str:
    folder = posixpath.dirname(page.path)

    def rewrite(link: re.Match[str]) -> str:
        return prefix + posixpath.normpath(posixpath.join(folder, link[1]))

    return f"<!-- {prefix}{page.path} -->\n\n{_RELATIVE_LINK.sub(rewrite, page.text)}"
