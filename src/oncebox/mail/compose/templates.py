"""Mail templates: a bounded, sandboxed subset of Jinja2 for subject, text and HTML.

The subset has variables, conditions, loops and a few filters. Nothing can be called, defined or
included, so the work is bounded by counting: loops by their iterations, filters by their input,
output by its length. A missing variable is an error, so that no mail begins with ``Hello ,``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import msgspec
from jinja2 import TemplateSyntaxError, nodes
from jinja2.exceptions import TemplateError
from jinja2.filters import FILTERS
from jinja2.runtime import Context, LoopContext, StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from msgspec.structs import replace

from oncebox.errors.sends import EmailInvalid, TemplateInvalid, TemplateTooCostly, VariableMissing
from oncebox.model.sends.email import Email

#: a name that no template can contain
LOOP_FILTER = "counted loop"

_FILTER_NAMES = (
    "abs", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "int", "last",
    "length", "lower", "sort", "title", "trim", "truncate", "upper", "urlencode",
)  # fmt: skip
_TEST_NAMES = (
    "!=", "<", "<=", "==", ">", ">=", "boolean", "defined", "eq", "equalto", "even", "false",
    "float", "ge", "greaterthan", "gt", "in", "integer", "le", "lessthan", "lt", "mapping", "ne",
    "none", "number", "odd", "sequence", "string", "true", "undefined",
)  # fmt: skip
_CHARACTERS_IN_STEP = 16
_MOST_PLACES = 10


class CostMeter:
    """The remaining budget of a template."""

    def __init__(self, left: int) -> None:
        self._left = left

    def spend(self, steps: int) -> None:
        """Spend some of the budget.

        Raises: TemplateTooCostly.
        """
        self._left -= steps
        if self._left < 0:
            raise TemplateTooCostly("the template or its variables are too large for a mail")


def metered_filters(meter: CostMeter) -> dict[str, Any]:
    """Return the filters, which spend the budget."""
    found: dict[str, Callable[..., Any]] = {name: FILTERS[name] for name in _FILTER_NAMES}
    found |= {"fixed": _fixed_filter, "items": _items_filter}
    metered = {name: _metered(each, meter) for name, each in found.items()}

    def join(value: Any, between: str = "") -> str:
        """Join texts and numbers; the separators cost too."""
        _check_defined(value)
        if not isinstance(value, list | tuple):
            raise TypeError
        texts = [_as_text(each) for each in value]
        meter.spend(1 + (sum(map(len, texts)) + len(between) * len(texts)) // _CHARACTERS_IN_STEP)
        return between.join(texts)

    def counted(value: Any, weight: int) -> Sequence[Any]:
        """Return the items of a loop; the cost of all iterations is spent first."""
        _check_defined(value)
        if not isinstance(value, list | tuple | str | Mapping):
            raise TypeError
        meter.spend(weight * len(value))
        return list(value)

    return {**metered, "join": join, LOOP_FILTER: counted}


def _metered(work: Callable[..., Any], meter: CostMeter) -> Callable[..., Any]:
    @wraps(work)  # keeps the attributes by which Jinja2 passes its context
    def metered(*arguments: Any, **named: Any) -> Any:
        given = [each for each in (*arguments, *named.values()) if isinstance(each, str | list)]
        meter.spend(1 + sum(map(len, given)) // _CHARACTERS_IN_STEP)
        return work(*arguments, **named)

    return metered


def _check_defined(value: Any) -> None:
    if isinstance(value, Undefined):
        str(value)  # raises, with the name of the missing variable


def _fixed_filter(value: Any, places: int = 2) -> str:
    """Return a number with a fixed number of decimals, like a price."""
    _check_defined(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not 0 <= places <= _MOST_PLACES:
        raise ValueError
    return f"{value:.{places}f}"


def _items_filter(value: Any) -> list[tuple[str, Any]]:
    """Return names and values of an object."""
    _check_defined(value)
    if not isinstance(value, Mapping):
        raise TypeError
    return list(value.items())


def _as_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)


_ALLOWED_NODES = frozenset({
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If,
    nodes.Name, nodes.Const, nodes.Tuple, nodes.List, nodes.Getattr, nodes.Getitem, nodes.Slice,
    nodes.Filter, nodes.Test, nodes.Keyword, nodes.CondExpr, nodes.Compare, nodes.Operand,
    nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos,
    nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod,
})  # fmt: skip
#: attributes of ``loop``
_LOOP_MEMBERS = frozenset({
    "index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem",
})  # fmt: skip
#: the errors that a template can cause with unsuitable values
_FAILURES = (
    TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError,
    TypeError, ValueError,
)  # fmt: skip
_LARGEST_NUMBER = 2**63
_DEEPEST = 20
_LONGEST_NAME = 100


class TemplateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one template."""

    #: characters of the template
    source: int = 256 * 1024
    #: nodes of its syntax tree
    elements: int = 5_000
    #: size of the variables: characters and values
    variables: int = 256 * 1024
    #: budget of work, in steps
    steps: int = 200_000
    #: characters of the output
    output: int = 1024 * 1024


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """The templates of an email."""

    name: str
    subject: str = ""
    text: str = ""
    html: str = ""


_DEFAULT_LIMITS = TemplateLimits()


def fill_template(
    email: Email, template: Template, limits: TemplateLimits = _DEFAULT_LIMITS
) -> Email:
    """Return an email with subject, text and HTML rendered from a template.

    The subject of the email takes precedence. Other content that would be lost is refused.

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
    limits: TemplateLimits = _DEFAULT_LIMITS,
) -> str:
    """Render a template; in HTML, values are escaped.

    Raises: TemplateInvalid, TemplateTooCostly, VariableMissing.
    """
    if len(source) > limits.source:
        raise TemplateTooCostly(
            f"the template has {len(source)} characters; the limit is {limits.source}"
        )
    _check_value(variables, CostMeter(limits.variables))
    try:
        return _render(source, variables, html=html, limits=limits)
    except TemplateInvalid:
        raise
    except TemplateSyntaxError as error:
        raise TemplateInvalid(f"the template has an error in line {error.lineno}") from None
    except _FAILURES:
        # The message of the cause may quote the values.
        raise TemplateInvalid(
            "the template does something with its variables that they do not allow"
        ) from None


def _render(
    source: str, variables: Mapping[str, Any], *, html: bool, limits: TemplateLimits
) -> str:
    meter = CostMeter(limits.steps)
    environment = _MailEnvironment(meter, limits, html=html)
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


class _MissingVariable(StrictUndefined):
    """A missing variable; every use except ``default`` is an error."""

    __slots__ = ()

    def __init__(
        self, hint: str | None = None, obj: Any = None, name: str | None = None, *_: Any
    ) -> None:
        known = name if name and name.isidentifier() and len(name) <= _LONGEST_NAME else ""

        def missing(_message: str) -> VariableMissing:
            return VariableMissing(known)

        super().__init__(hint, obj, name, missing)  # type: ignore[arg-type]  # only called


class _MailEnvironment(ImmutableSandboxedEnvironment):
    """The sandboxed subset of Jinja2."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})

    def __init__(self, meter: CostMeter, limits: TemplateLimits, *, html: bool) -> None:
        super().__init__(
            undefined=_MissingVariable,
            autoescape=html,
            finalize=_printable,
            keep_trailing_newline=True,
            cache_size=0,
        )
        self.filters = metered_filters(meter)
        self.tests = {name: TESTS[name] for name in _TEST_NAMES}
        self.globals = {}
        self.elements = 0
        self._most = limits.elements

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for node in list(_nodes_below(tree)):
            self.elements += 1
            _check_node(node)
            if isinstance(node, nodes.For):
                weight = nodes.Const(sum(1 for _ in _nodes_below(node)), lineno=node.lineno)
                counted = nodes.Filter(node.iter, LOOP_FILTER, [weight], [], None, None)
                counted.set_environment(self)
                node.iter = counted.set_lineno(node.lineno)
        if self.elements > self._most:
            raise TemplateTooCostly(f"the template has over {self._most} elements")
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an item of a value, never an attribute of the object."""
        if isinstance(obj, LoopContext) and attribute in _LOOP_MEMBERS:
            return getattr(obj, attribute)
        return self._member(obj, attribute, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item or a slice of a value."""
        if isinstance(obj, list | tuple | str) and isinstance(argument, int | slice):
            return obj[argument]
        return self._member(obj, argument, "")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Calculate with numbers only, because text times a number has any length."""
        for each in (left, right):
            _check_defined(each)
            if isinstance(each, bool) or not isinstance(each, int | float):
                raise TypeError
        result = super().call_binop(context, operator, left, right)
        if not -_LARGEST_NUMBER <= result < _LARGEST_NUMBER:
            raise OverflowError
        return result

    def _member(self, obj: Any, key: Any, name: str) -> Any:
        _check_defined(obj)
        if isinstance(obj, Mapping) and isinstance(key, str) and key in obj:
            return obj[key]
        return self.undefined(obj=obj, name=name)


def _nodes_below(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield a node and all of its descendants, without recursion."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += each.iter_child_nodes()


def _check_node(node: nodes.Node) -> None:
    plain_loop = not (isinstance(node, nodes.For) and node.recursive)
    if type(node) not in _ALLOWED_NODES or not plain_loop:
        raise TemplateInvalid(
            f"line {node.lineno} of the template uses what templates of mails do not have; "
            "they have variables, if, for, and a few filters"
        )


def _printable(value: Any) -> Any:
    """Return texts and numbers unchanged; refuse other values in the output."""
    if value is None:
        raise VariableMissing
    if isinstance(value, str | int | float | Undefined):
        return value
    raise TypeError


def _check_value(value: Any, meter: CostMeter, depth: int = 0) -> None:
    """Refuse variables that are not JSON or are too large."""
    meter.spend(1)
    if isinstance(value, str):
        meter.spend(len(value))
    elif isinstance(value, int):
        if not -_LARGEST_NUMBER <= value < _LARGEST_NUMBER:
            raise TemplateInvalid("a variable is a number of more than 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise TemplateInvalid("a variable is no finite number")
    elif isinstance(value, Mapping | list | tuple) and depth < _DEEPEST:
        _check_members(value, meter, depth)
    elif value is not None:
        raise TemplateInvalid(
            "variables are texts, numbers, true, false, null, and lists and objects of them"
        )


def _check_members(value: Any, meter: CostMeter, depth: int) -> None:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TemplateInvalid("variables are called by texts")
            meter.spend(len(key))
    for each in value.values() if isinstance(value, Mapping) else value:
        _check_value(each, meter, depth + 1)
