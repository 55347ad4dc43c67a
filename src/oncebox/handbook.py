"""The handbook: the pages of docs/ as they ship, and the two texts that lead an agent through them.

``llms.txt`` lists the pages, each with its own first sentence; ``llms-full.txt`` is all of them.
The service and the site of the docs are made from the same functions.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: why things are so: pages link to these, agents need no list of them
_RECORDS = "decisions"
#: sections of pages that lie in no folder
_FIRST, _GUIDES = "Quickstarts", "Guides"
#: a summary goes on to the next sentence of its paragraph up to this length
_SHORT = 180
_LEADING = """\
# Oncebox

> Mail and webhooks arrive at least once. Oncebox makes the effect happen once.

- In Python: `from oncebox import Client`. \
Address and key come from `ONCEBOX_URL` and `ONCEBOX_API_KEY`.
- By HTTP: `Authorization: Bearer KEY`, as described in [openapi.json](openapi.json).
- After a crash or a lost answer, ask again under the same `attempt_id` or key: \
what was done is not done again.
- Told `already_claimed`, `held` or `unknown`: do not repeat it another way; ask a person.
- All pages in one file: [llms-full.txt](llms-full.txt)
"""
#: a link to a place of ours: no scheme, no place on the same page, no mail
_LINK = re.compile(r"(?<=\]\()(?![\w+.-]+:|#|/)([^)#\s]+)")
_LINKED = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_FENCED = re.compile(r"^```.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
#: how lines begin that are no sentence: headings, tables, lists, markup
_NO_PROSE = ("#", "|", "-", ">", "!", "<", "{")


@dataclass(frozen=True, slots=True)
class Page:
    """One page, as it is written."""

    #: below docs/, such as ``reference/api.md``
    path: str
    text: str

    @property
    def title(self) -> str:
        """Its first heading."""
        heads = (line for line in self.text.splitlines() if line.startswith("# "))
        return next(heads, self.path).removeprefix("# ").strip()

    @property
    def summary(self) -> str:
        """What its first sentences say, without links; nothing if it has none."""
        parts = re.split(r"\n\s*\n", _FENCED.sub("", self.text))
        prose = (part.strip() for part in parts if not part.strip().startswith(_NO_PROSE))
        first, *rest = _LINKED.sub(r"\1", next(filter(None, prose), "")).splitlines() or [""]
        for line in rest:
            if len(first) + len(line) >= _SHORT or not line.endswith("."):
                break
            first += f" {line}"
        return re.sub(r":$", ".", first)

    @property
    def section(self) -> str:
        """Where it is listed."""
        folder, _, name = self.path.rpartition("/")
        if folder:
            return folder.rpartition("/")[2].replace("-", " ").capitalize()
        return _FIRST if name.startswith("quickstart") else _GUIDES


@cache
def shipped() -> Mapping[str, Page]:
    """Return the pages of this installation, by path."""
    return read(_folder())


def read(folder: Path) -> Mapping[str, Page]:
    """Return the pages in a folder, by path; no other file is ever handed out."""
    found = sorted(folder.rglob("*.md"))
    names = (path.relative_to(folder).as_posix() for path in found)
    return {
        name: Page(name, path.read_text("utf-8")) for name, path in zip(names, found, strict=True)
    }


def llms(pages: Mapping[str, Page], prefix: str) -> str:
    """Return ``llms.txt``, whose links begin with ``prefix``."""
    parts = [_LEADING]
    for section, listed in _sections(pages):
        lines = [f"- [{each.title}]({prefix}{each.path}): {each.summary}" for each in listed]
        parts.append("\n".join((f"## {section}\n", *lines, "")))
    return "\n".join(parts)


def llms_full(pages: Mapping[str, Page], prefix: str) -> str:
    """Return ``llms-full.txt``: every page but the records, with links that lead on from there."""
    inside = (_inside(each, prefix) for _, listed in _sections(pages) for each in listed)
    return "\n".join((_LEADING, *inside))


def _folder() -> Path:
    """Return where the pages lie: in the package, or in the checkout that it is run from."""
    package = Path(__file__).parent
    packed, checkout = package / "docs", package.parents[1]
    if not packed.is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout / "docs"
    return packed


def _sections(pages: Mapping[str, Page]) -> Iterator[tuple[str, list[Page]]]:
    """Yield each section and its pages: first steps first, folders last, the records never."""
    known: dict[str, list[Page]] = {_FIRST: [], _GUIDES: []}
    for each in pages.values():
        if not each.path.startswith(f"{_RECORDS}/"):
            known.setdefault(each.section, []).append(each)
    yield from ((section, listed) for section, listed in known.items() if listed)


def _inside(page: Page, prefix: str) -> str:
    folder = posixpath.dirname(page.path)

    def led(link: re.Match[str]) -> str:
        return prefix + posixpath.normpath(posixpath.join(folder, link[1]))

    return f"<!-- {prefix}{page.path} -->\n\n{_LINK.sub(led, page.text)}"
