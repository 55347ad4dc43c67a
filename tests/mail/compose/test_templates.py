"""Templates: filled in as given, strict about what is missing, and never costly."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oncebox.errors.sends import (
    EmailHeaderInvalid,
    EmailInvalid,
    TemplateInvalid,
    TemplateTooCostly,
    VariableMissing,
)
from oncebox.mail.compose.templates import Template, TemplateLimits, fill_template, render
from oncebox.model.sends.email import Email, check_email
from tests.support.steps import steps

CANARY = "CANARY"
ORDER = {
    "name": "Ann",
    "paid": True,
    "total": 12.5,
    "lines": [{"title": "Tea", "count": 2}, {"title": "<Pot>", "count": 1}],
    "address": {"city": "Köln", "items": "not a method"},
}


def refused(source: str, **variables: Any) -> TemplateInvalid:
    """Return the error of a template; it never quotes a value or the template."""
    with pytest.raises(TemplateInvalid) as caught:
        render(source, variables)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


# ---------------------------------------------------------------- what is filled in


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("", ""),
        ("Hello\n", "Hello\n"),
        ("Hello {{ name }}", "Hello Ann"),
        ("{{ address.city }} {{ address['city'] }}", "Köln Köln"),
        ("{{ address.items }}", "not a method"),
        ("{% if paid %}paid{% else %}open{% endif %}", "paid"),
        ("{{ 'yes' if paid else 'no' }}", "yes"),
        (
            "{% for line in lines %}{{ loop.index }}. {{ line.title }}\n{% endfor %}",
            "1. Tea\n2. <Pot>\n",
        ),
        ("{% for line in lines if line.count > 1 %}{{ line.title }}{% endfor %}", "Tea"),
        ("{% for line in [] %}{% else %}none{% endfor %}", "none"),
        ("{% for key, value in address|items %}{{ key }} {% endfor %}", "city items "),
        ("{{ lines[0].title }} {{ lines[-1].count }} {{ name[:2] }}", "Tea 1 An"),
        ("{{ total|fixed }} {{ total * 2 + 1 }} {{ 7 // 2 }} {{ 7 % 4 }}", "12.50 26.0 3 3"),
        ("{{ name|upper }} {{ missing|default('friend') }}", "ANN friend"),
        ("{{ missing is defined }} {{ name is defined }}", "False True"),
        ("{{ ['a', 'b', 1]|join(', ') }}", "a, b, 1"),
        ("{% raw %}{{ name }}{% endraw %}{# nothing #}", "{{ name }}"),
        ("{{ lines|length }} {{ name|truncate(2, true, '', 0) }}", "2 An"),
    ],
)
def test_a_template_is_filled_in(source: str, text: str) -> None:
    assert render(source, ORDER) == text


@given(st.text(max_size=200))
def test_a_value_is_written_as_it_is_into_text(value: str) -> None:
    assert render("{{ x }}", {"x": value}) == value


@given(st.text(max_size=200))
def test_no_value_is_a_tag_in_html(value: str) -> None:
    written = render("{{ x }}", {"x": value}, html=True)

    assert not set(written) & set("<>\"'")


def test_what_a_value_says_in_braces_is_not_filled_in() -> None:
    assert render("{{ x }}", {"x": "{{ name }}{% for %}"}) == "{{ name }}{% for %}"


def test_nothing_that_an_email_says_is_lost_in_a_template() -> None:
    template = Template(name="receipt", subject="Paid", text="Thanks.")
    mail = Email(to="a@x.example", subject="Paid at last", template="receipt")

    assert fill_template(mail, template).subject == "Paid at last"
    for said in ({"text": "Mine."}, {"html": "<p>Mine."}):
        with pytest.raises(EmailInvalid):
            fill_template(replace(mail, **said), template)


def test_only_html_is_escaped() -> None:
    template = Template(
        name="order", subject="{{ who }}", text="{{ who }}", html="<b>{{ who }}</b>"
    )
    mail = fill_template(Email(to="a@x.example", variables={"who": "A & <B>"}), template)

    assert (mail.template, mail.subject, mail.text) == ("order", "A & <B>", "A & <B>")
    assert mail.html == "<b>A &amp; &lt;B&gt;</b>"


def test_a_line_end_that_a_value_brings_into_the_subject_is_refused() -> None:
    template = Template(name="t", subject="Hi {{ name }}", text="x")
    mail = Email(
        sender="s@x.example", to="a@x.example", variables={"name": "A\r\nBcc: evil@x.example"}
    )

    with pytest.raises(EmailHeaderInvalid):
        check_email(fill_template(mail, template))


# ---------------------------------------------------------------- what is missing


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("Hello {{ first_name }}", "first_name"),
        ("{{ order.total }}", "order"),
        ("{{ given.total }}", "total"),
        ("{{ given.deep.er }}", "deep"),
        ("{% if ready %}x{% endif %}", "ready"),
        ("{% for line in lines %}x{% endfor %}", "lines"),
        ("{% for line in lines|items %}x{% endfor %}", "lines"),
        ("{{ price * 2 }}", "price"),
        ("{{ price|fixed }}", "price"),
        ("{{ name|upper }}", "name"),
        ("{{ a == 1 }}", "a"),
        ("{{ many[0] }}", "many"),
        ("{{ 1 if x else 2 }}", "x"),
        ("{{ some|join }}", "some"),
    ],
)
def test_a_missing_variable_is_an_error_that_names_it(source: str, name: str) -> None:
    error = refused(source, given={"deeper": CANARY})

    assert isinstance(error, VariableMissing)
    assert (error.code, error.name) == ("variable_missing", name)
    assert name in str(error)


def test_a_name_that_a_value_gives_is_not_named() -> None:
    error = refused("{{ given[key] }}", given={}, key=CANARY)

    assert isinstance(error, VariableMissing)
    assert error.name == ""


def test_null_is_missing_too() -> None:
    assert isinstance(refused("Hello {{ name }}", name=None), VariableMissing)


@pytest.mark.parametrize("source", ["{{ x }}", "{{ x|join }}", "{{ x * 2 }}", "{{ x.y }}"])
def test_a_list_or_an_object_is_no_text(source: str) -> None:
    assert refused(source, x=[[CANARY]]).code in {"template_invalid", "variable_missing"}
    assert refused(source, x={"a": CANARY}).code in {"template_invalid", "variable_missing"}


# ---------------------------------------------------------------- what nobody may do


@pytest.mark.parametrize(
    "source",
    [
        "{{ x.__class__ }}",
        "{{ x['__class__'] }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ x.format(1) }}",
        "{{ x|attr('__class__') }}",
        "{{ x|format }}",
        "{{ x|safe }}",
        "{{ x|map('upper') }}",
        "{{ range(10) }}",
        "{{ lipsum() }}",
        "{{ cycler(1) }}",
        "{{ self }}",
        "{{ self.blocks }}",
        "{{ loop }}",
        "{{ x.upper() }}",
        "{{ 2 ** 9 }}",
        "{{ x ~ x }}",
        "{{ 'a' * 9 }}",
        "{{ 'a' + 'b' }}",
        "{{ '%9d' % 1 }}",
        "{{ [1] * 9 }}",
        "{{ 9223372036854775807 * 2 }}",
        "{{ 1 / 0 }}",
        "{{ {'a': 1} }}",
        "{% set a = 1 %}",
        "{% set a %}x{% endset %}",
        "{% with a = 1 %}{% endwith %}",
        "{% macro m() %}{% endmacro %}",
        "{% call m() %}{% endcall %}",
        "{% block b %}{% endblock %}",
        "{% filter upper %}x{% endfilter %}",
        "{% include 'x' %}",
        "{% extends 'x' %}",
        "{% import 'x' as y %}",
        "{% from 'x' import y %}",
        "{% for a in x recursive %}{{ loop(x) }}{% endfor %}",
        "{% for a in x %}{{ loop.cycle('a') }}{% endfor %}",
        "{% for a in x %}{{ loop._iterable }}{% endfor %}",
        "{% for a in x %}{{ loop.__init__ }}{% endfor %}",
        "{% autoescape false %}{{ x }}{% endautoescape %}",
        "{% do x %}",
        "{{ x",
        "{% if %}",
        "{% endfor %}",
        "{{ CANARY CANARY }}",
        "{{ x|CANARY }}",
        "{{ x is CANARY }}",
        "{{ x[1:0:0] }}",
    ],
)
def test_a_template_has_nothing_to_break_out_with(source: str) -> None:
    assert refused(source, x=CANARY).code in {"template_invalid", "variable_missing"}


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", {1: "a"}, {"a": {2: 1}}, 2**63, float("nan"), float("inf"), {1}, print],
)
def test_variables_are_what_json_can_hold(value: Any) -> None:
    assert refused("x", value=value).code == "template_invalid"


def test_variables_inside_each_other_are_bounded() -> None:
    deep: Any = "x"
    for _ in range(30):
        deep = [deep]

    assert refused("x", value=deep).code == "template_invalid"


# ---------------------------------------------------------------- what it may cost


MANY = list(range(1_000))
LONG = "x" * 200_000


@pytest.mark.parametrize(
    "source",
    [
        "x" * 300_000,
        "{{ n }}" * 6_000,
        "{% for a in m %}{% for b in m %}{% endfor %}{% endfor %}",
        "{% for a in m %}{% for b in m %}{% for c in m %}x{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in m %}{{ l }}{% endfor %}",
        "{% for a in m %}{{ l|upper|length }}{% endfor %}",
        "{{ m|join(l) }}",
        "{% for a in l %}{{ a }}{% endfor %}",
        "{{ l }}" * 20,
    ],
    ids=lambda source: source[:90],
)
def test_what_costs_too_much_is_refused(source: str) -> None:
    error: Any = None

    def work() -> None:
        nonlocal error
        error = refused(source, m=MANY, l=LONG, n=1)

    assert steps(work) < 3_000_000
    assert isinstance(error, TemplateTooCostly)


def test_variables_that_are_too_large_are_refused() -> None:
    assert isinstance(refused("x", l=LONG * 2), TemplateTooCostly)
    assert isinstance(refused("x", l=MANY * 300), TemplateTooCostly)


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        ("(", "{{ 1 }}", ")"),
        ("{{", "", ""),
        ("{% if a %}", "", "{% endif %}"),
        ("not ", "{{ 1 }}", ""),
        ("{% for a in m %}", "", "{% endfor %}"),
    ],
)
def test_a_template_that_is_too_deep_is_refused(before: str, between: str, after: str) -> None:
    opened, number, closed = between.partition("1")
    source = f"{opened}{before * 4_000}{number}{after * 4_000}{closed}"

    assert refused(source, m=[1], a=1).code in {"template_invalid", "template_too_costly"}


def test_a_table_of_a_thousand_rows_is_no_trouble() -> None:
    rows = [{"title": f"Item {number}", "price": number / 4} for number in MANY]
    source = "{% for row in rows %}<tr><td>{{ row.title }}<td>{{ row.price|fixed }}{% endfor %}"

    assert render(source, {"rows": rows}, html=True).count("<tr>") == 1_000


def test_the_limits_are_the_operators() -> None:
    with pytest.raises(TemplateTooCostly):
        render("{{ x }}", {"x": "abc"}, limits=TemplateLimits(output=2))
    assert render("{{ x }}", {"x": "ab"}, limits=TemplateLimits(output=2)) == "ab"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
pieces = st.lists(
    st.sampled_from([
        "{{", "}}", "{%", "%}", " for a in x ", " endfor ", " if x ", " else ", " endif ", "x", "a",
        ".y", "[0]", "|", "upper", "join", "default(1)", "items", "fixed", "(", ")", "+", "*", "-",
        " is ", "defined", " in ", "'s'", "1", "{#", "#}", "\n", ",", "loop.index", "~", "=",
    ]),
    max_size=14,
).map("".join)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(pieces, st.dictionaries(st.sampled_from("axy"), values, max_size=3))
def test_whatever_a_template_says_it_is_text_or_a_stable_error(
    source: str, variables: dict[str, Any]
) -> None:
    with suppress(TemplateInvalid):
        assert isinstance(render(source, variables), str)
