"""A program that only calls the service loads neither the service nor a driver."""

import subprocess
import sys

import pytest

import oncebox

#: packages of others that the client may load
ALLOWED = {
    "anyio",
    "certifi",
    "h11",
    "httpcore2",
    "httpx2",
    "idna",
    "msgspec",
    "platformdirs",
    "sniffio",
    "truststore",
    "typing_extensions",
    "uuid_utils",
}
#: packages of ours that it may load
PACKAGES = {"client", "errors", "model", "schemas"}
#: modules that it may load of the package all others share
CORE = {"oncebox.core", "oncebox.core.clock", "oncebox.core.credentials", "oncebox.core.ids"}
LOADED = """
import sys
before = set(sys.modules)
{program}
print(*sorted(
    name for name in set(sys.modules) - before
    if name.partition(".")[0] not in sys.stdlib_module_names
))
"""


def _loaded(program: str) -> set[str]:
    """Return the modules that a program loads in a fresh interpreter, but for the library's."""
    ended = subprocess.run(
        [sys.executable, "-c", LOADED.format(program=program)],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(ended.stdout.split())


def test_importing_the_package_loads_nothing() -> None:
    assert _loaded("import oncebox") == {"oncebox"}


@pytest.mark.parametrize(
    "program",
    [
        "from oncebox import Client, AsyncClient, Email, OnceboxError",
        'from oncebox import Client; Client("http://127.0.0.1:1", "obx_x").close()',
    ],
    ids=["imported", "made"],
)
def test_the_client_loads_neither_server_nor_drivers(program: str) -> None:
    loaded = _loaded(program)
    others = {name.partition(".")[0] for name in loaded} - {"oncebox"}
    ours = {name for name in loaded if name.startswith("oncebox.")}

    assert others <= ALLOWED
    assert {name.split(".")[1] for name in ours - CORE} <= PACKAGES


def test_what_answers_loads_nothing_of_those_who_work() -> None:
    """They are hired once requests are answered; a start should not wait for them."""
    loaded = _loaded(
        "import oncebox.cli.process.server_process, oncebox.wiring as a; a.load_server()"
    )
    packages = {name.partition(".")[0] for name in loaded}

    assert packages.isdisjoint({"aiosmtplib", "dkim", "dns", "httpcore2", "jinja2", "rich", "spf"})
    assert loaded.isdisjoint(
        {
            "oncebox.workers.factory",
            "oncebox.mail.codes.code_finder",
            "oncebox.mail.links.link_finder",
        }
    )


def test_every_public_name_is_listed_and_can_be_had() -> None:
    assert set(oncebox.__all__) <= set(dir(oncebox))
    public = {name: getattr(oncebox, name) for name in oncebox.__all__}
    # A value has no name of its own, but shows as it is written.
    named = {name: getattr(value, "__name__", repr(value)) for name, value in public.items()}
    assert all(found == name for name, found in named.items())
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        _ = oncebox.Clinet  # type: ignore[attr-defined]
