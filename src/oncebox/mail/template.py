"""Templates: subject, text and HTML of a mail, filled in once, when the mail is frozen.

Jinja2's language, and of it what a mail needs: variables, conditions, loops and a few filters.
Nothing can be called, defined or included, so the work is bounded by what is counted: loops by
the size of what is in them, filters by what they are given, output by its length. A variable
that is missing is an error; nobody gets a mail that begins with ``Hello ,``.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from jinja2 import TemplateSyntaxError, nodes
from jinja2.exceptions import TemplateError
from jinja2.runtime import Context, LoopContext, StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from msgspec.structs import replace

from oncebox.mail import template_filters
from oncebox.mail.template_filters import COUNTED, Meter
from oncebox.model.email import Email
from oncebox.send_errors import (
    EmailInvalid,
    TemplateInvalid,
    TemplateTooCostly,
    VariableMissing,
)

_ALLOWED = frozenset({
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If,
    nodes.Name, nodes.Const, nodes.Tuple, nodes.List, nodes.Getattr, nodes.Getitem, nodes.Slice,
    nodes.Filter, nodes.Test, nodes.Keyword, nodes.CondExpr, nodes.Compare, nodes.Operand,
    nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos,
    nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod,
})  # fmt: skip
#: what is known inside of a loop
_LOOP = frozenset({
    "index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem",
})  # fmt: skip
#: what a template can make of values that do not fit; nothing else is expected of it
_FAILURES = (
    TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError,
    TypeError, ValueError,
)  # fmt: skip
_LARGEST = 2**63
_DEEPEST = 20
_LONGEST_NAME = 100


class TemplateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one template may be and do."""

    #: characters of a template
    source: int = 256 * 1024
    #: elements of its syntax
    elements: int = 5_000
    #: characters and values of the variables together
    variables: int = 256 * 1024
    #: steps of work
    steps: int = 200_000
    #: characters that it writes
    output: int = 1024 * 1024


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """The templates of one kind of mail."""

    name: str
    subject: str = ""
    text: str = ""
    html: str = ""


_LIMITS = TemplateLimits()


def filled(email: Email, template: Template, limits: TemplateLimits = _LIMITS) -> Email:
    """Return an email with text and HTML made by a template from its variables.

    The subject too, unless the email has one. What else it says would be lost, and is refused.

    Raises: EmailInvalid, TemplateInvalid, TemplateTooCostly, VariableMissing.
    """
    if email.text or email.html:
        raise EmailInvalid("the template makes text and html; leave them out, or the template")
    values = email.variables
    return replace(
        email,
        template=template.name,
        subject=email.subject or render(template.subject, values, limits=limits),
        text=render(template.text, values, limits=limits),
        html=render(template.html, values, html=True, limits=limits),
    )


def render(
    source: str,
    variables: Mapping[str, Any],
    *,
    html: bool = False,
    limits: TemplateLimits = _LIMITS,
) -> str:
    """Return a template filled in; in HTML, values are escaped.

    Raises: TemplateInvalid, TemplateTooCostly, VariableMissing.
    """
    if len(source) > limits.source:
        message = f"the template has {len(source)} characters; the limit is {limits.source}"
        raise TemplateTooCostly(message)
    _check(variables, Meter(limits.variables))
    try:
        return _render(source, variables, html=html, limits=limits)
    except TemplateInvalid:
        raise
    except TemplateSyntaxError as error:
        raise TemplateInvalid(f"the template has an error in line {error.lineno}") from None
    except _FAILURES:
        # What went wrong there may quote the values.
        message = "the template does something with its variables that they do not allow"
        raise TemplateInvalid(message) from None


def _render(
    source: str, variables: Mapping[str, Any], *, html: bool, limits: TemplateLimits
) -> str:
    meter = Meter(limits.steps)
    environment = _Environment(meter, limits, html=html)
    template = environment.from_string(source)
    meter.spend(environment.elements)
    written = []
    left = limits.output
    for piece in template.generate(dict(variables)):
        left -= len(piece)
        if left < 0:
            raise TemplateTooCostly(f"the template writes over {limits.output} characters")
        written.append(piece)
    return "".join(written)


class _Missing(StrictUndefined):
    """A variable that was not given; every use of it but a default is an error."""

    __slots__ = ()

    def __init__(
        self, hint: str | None = None, obj: Any = None, name: str | None = None, *_: Any
    ) -> None:
        known = name if name and name.isidentifier() and len(name) <= _LONGEST_NAME else ""

        def missing(_message: str) -> VariableMissing:
            return VariableMissing(known)

        super().__init__(hint, obj, name, missing)  # type: ignore[arg-type]  # it is only called


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja2 without most of it."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})

    def __init__(self, meter: Meter, limits: TemplateLimits, *, html: bool) -> None:
        super().__init__(
            undefined=_Missing,
            autoescape=html,
            finalize=_printable,
            keep_trailing_newline=True,
            cache_size=0,
        )
        self.filters = template_filters.filters(meter)
        self.tests = template_filters.tests()
        self.globals = {}
        self.elements = 0
        self._most = limits.elements

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for node in list(_walk(tree)):
            self.elements += 1
            _allow(node)
            if isinstance(node, nodes.For):
                weight = nodes.Const(sum(1 for _ in _walk(node)), lineno=node.lineno)
                counted = nodes.Filter(node.iter, COUNTED, [weight], [], None, None)
                counted.set_environment(self)
                node.iter = counted.set_lineno(node.lineno)
        if self.elements > self._most:
            raise TemplateTooCostly(f"the template has over {self._most} elements")
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a member of a value, never a method."""
        if isinstance(obj, LoopContext) and attribute in _LOOP:
            return getattr(obj, attribute)
        return self._member(obj, attribute, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return a member or a part of a value."""
        if isinstance(obj, list | tuple | str) and isinstance(argument, int | slice):
            return obj[argument]
        return self._member(obj, argument, "")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Calculate, with numbers only: a text times a number is as long as anybody likes."""
        for each in (left, right):
            if isinstance(each, Undefined):
                str(each)  # says which one is missing
            if isinstance(each, bool) or not isinstance(each, int | float):
                raise TypeError
        result = super().call_binop(context, operator, left, right)
        if not -_LARGEST <= result < _LARGEST:
            raise OverflowError
        return result

    def _member(self, obj: Any, key: Any, name: str) -> Any:
        if isinstance(obj, Undefined):
            str(obj)  # says which one is missing
        if isinstance(obj, Mapping) and isinstance(key, str) and key in obj:
            return obj[key]
        return self.undefined(obj=obj, name=name)


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield a node and all below it; without recursion, so depth costs nothing."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += each.iter_child_nodes()


def _allow(node: nodes.Node) -> None:
    plain_loop = not (isinstance(node, nodes.For) and node.recursive)
    if type(node) not in _ALLOWED or not plain_loop:
        message = (
            f"line {node.lineno} of the template uses what templates of mails do not have; "
            "they have variables, if, for, and a few filters"
        )
        raise TemplateInvalid(message)


def _printable(value: Any) -> Any:
    """Let texts and numbers through; nothing, lists and members are no part of a mail."""
    if value is None:
        raise VariableMissing
    if isinstance(value, str | int | float | Undefined):
        return value
    raise TypeError


def _check(value: Any, meter: Meter, depth: int = 0) -> None:
    """Refuse variables that JSON could not hold, or that are too large."""
    meter.spend(1)
    if isinstance(value, str):
        meter.spend(len(value))
    elif isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise TemplateInvalid("a variable is a number of more than 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateInvalid("a variable is no finite number")
    elif isinstance(value, Mapping | list | tuple) and depth < _DEEPEST:
        _check_members(value, meter, depth)
    elif value is not None:
        message = "variables are texts, numbers, true, false, null, and lists and objects of them"
        raise TemplateInvalid(message)


def _check_members(value: Any, meter: Meter, depth: int) -> None:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TemplateInvalid("variables are called by texts")
            meter.spend(len(key))
    for each in value.values() if isinstance(value, Mapping) else value:
        _check(each, meter, depth + 1)
