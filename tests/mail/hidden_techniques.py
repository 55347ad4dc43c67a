"""Techniques of hiding text in HTML: each with a markup, and what is made of it.

``{}`` is the hidden text. *Hidden* text is reported apart; *doubtful* text stays, and what depends
on it is a conflict.
"""

# ruff: noqa: E501 - markup in one line

from typing import Literal, NamedTuple


class Technique(NamedTuple):
    """One way to hide a text."""

    name: str
    markup: str
    result: Literal["hidden", "doubtful"] = "hidden"


def _style(name: str, style: str, result: Literal["hidden", "doubtful"] = "hidden") -> Technique:
    return Technique(name, f"<p style='{style}'>{{}}</p>", result)


def _rule(name: str, css: str, result: Literal["hidden", "doubtful"] = "hidden") -> Technique:
    return Technique(name, f"<style>{css}</style><div class=d><p class=h>{{}}</p></div>", result)


TECHNIQUES = (
    _style("`display: none`", "display:none"),
    _style("`visibility: hidden`", "visibility:hidden"),
    _style("`visibility: collapse`", "visibility:collapse"),
    _style("`opacity: 0`", "opacity:0"),
    _style("`opacity` by arithmetic", "opacity:calc(1 - 1)"),
    _style("`opacity` by `min()`", "opacity:min(0, 1)"),
    Technique("nested opacities", "<div style='opacity:.2'><p style='opacity:.2'>{}</p></div>"),
    _style("faint `opacity`", "opacity:.1", "doubtful"),
    _style("`filter: opacity()`", "filter:opacity(0)"),
    _style("`filter: blur()`", "filter:blur(20px)"),
    _style("`filter: contrast()`", "filter:contrast(0)", "doubtful"),
    _style("`font-size: 0`", "font-size:0"),
    _style("`font-size` by arithmetic", "font-size:calc(1px - 1px)"),
    _style("`font-size: clamp()`", "font-size:clamp(0px, 0px, 1px)"),
    _style("`font` shorthand", "font:0/0 a"),
    Technique("nested font sizes", "<div style='font-size:.2em'><p style='font-size:.2em'>{}</p></div>"),
    _style("tiny font", "font-size:3px", "doubtful"),
    _style("`font-size-adjust: 0`", "font-size-adjust:0"),
    _style("`zoom`", "zoom:0.01"),
    _style("`scale`", "scale:0"),
    _style("`transform: scale()`", "transform:scale(0)"),
    _style("`transform: scaleX()`", "transform:rotate(3deg) scaleX(0)"),
    _style("`transform: scaleY()`", "transform:scaleY(0)"),
    _style("`transform: matrix()`", "transform:matrix(0,0,0,0,0,0)"),
    _style("`transform: rotateY()`", "transform:rotateY(90deg)"),
    _style("`rotate` around an axis", "rotate:x 90deg"),
    _style("`transform: skew()`", "transform:skew(90deg)"),
    _style("mirrored", "transform:scaleX(-1)", "doubtful"),
    _style("upside down", "transform:rotate(180deg)", "doubtful"),
    _style("`transform: matrix3d()`", "transform:matrix3d(1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1)", "doubtful"),
    _style("`transform: translate()`", "transform:translate(-9999px, 0)"),
    _style("`translate`", "translate:-9999px 0"),
    _style("`position: absolute`, outside", "position:absolute;left:-9999px"),
    _style("`position: fixed` with `inset`", "position:fixed;inset:-200vw"),
    _style("`left: 100%`", "position:absolute;left:100%", "doubtful"),
    _style("`text-indent`", "text-indent:-9999px"),
    _style("`text-indent: 100%`", "text-indent:100%;white-space:nowrap;overflow:hidden"),
    _style("`margin`", "margin:0 0 0 -9999px"),
    _style("`margin-inline-start`", "margin-inline-start:-9999px"),
    _style("`z-index` behind the page", "position:relative;z-index:-1", "doubtful"),
    _style("`height: 0`", "height:0;overflow:hidden"),
    _style("`max-height: 0`", "max-height:0;overflow:clip"),
    _style("`max-inline-size: 0`", "max-inline-size:0;overflow:hidden"),
    _style("`line-height: 0`", "line-height:0;overflow:hidden"),
    _style("low box", "height:6px;overflow:hidden", "doubtful"),
    Technique("`height` attribute", "<table><td height=0 style='overflow:hidden'>{}</td></table>"),
    _style("`contain: strict`", "contain:strict;height:0"),
    _style("`grid-template-rows: 0fr`", "display:grid;grid-template-rows:0fr", "doubtful"),
    _style("`clip`", "position:absolute;clip:rect(1px, 1px, 1px, 1px)"),
    _style("`clip` of a side", "position:absolute;clip:rect(0, 0, auto, auto)"),
    _style("`clip-path: inset(50%)`", "clip-path:inset(50%)"),
    _style("`clip-path: inset()` of a side", "clip-path:inset(0 100% 0 0)"),
    _style("`clip-path: circle()`", "clip-path:circle(0)"),
    _style("`clip-path: ellipse()`", "clip-path:ellipse(0 0)"),
    _style("`clip-path: polygon()`", "clip-path:polygon(0 0, 0 0, 0 0)"),
    _style("`clip-path: rect()`", "clip-path:rect(0 0 0 0)"),
    _style("`clip-path: path()`", 'clip-path:path("M0 0")', "doubtful"),
    _style("`clip-path: url()`", "clip-path:url(#none)", "doubtful"),
    _style("`mask` of nothing", "mask:linear-gradient(transparent, transparent)"),
    _style("`mask-image`", "mask-image:url(x.png)", "doubtful"),
    _style("`content-visibility`", "content-visibility:hidden"),
    _style("`content: url()`", "content:url(x.png)", "doubtful"),
    _style("`-webkit-text-security`", "-webkit-text-security:disc"),
    _style("`letter-spacing`", "letter-spacing:-1em", "doubtful"),
    _style("`mix-blend-mode`", "mix-blend-mode:screen", "doubtful"),
    _style("`offset-path`", "offset-path:circle(900px)", "doubtful"),
    _style("`order`", "order:-1", "doubtful"),
    Technique("`flex-direction`", "<div style='display:flex;flex-direction:row-reverse'><b>{}</b></div>", "doubtful"),
    _style("`unicode-bidi`", "direction:rtl;unicode-bidi:bidi-override", "doubtful"),
    Technique("`bdo`", "<bdo dir=rtl>{}</bdo>", "doubtful"),
    _style("struck through", "text-decoration:line-through", "doubtful"),
    _style("white on white", "color:#fff"),
    _style("almost white on white", "color:#e8e8e8", "doubtful"),
    _style("`hwb()`", "color:hwb(0 100% 0%)"),
    _style("`oklch()`", "color:oklch(1 0 0)", "doubtful"),
    _style("`color: transparent`", "color:transparent"),
    _style("`-webkit-text-fill-color`", "-webkit-text-fill-color:transparent"),
    _style("`background: currentcolor`", "background:currentcolor"),
    _style("gradient of one colour", "color:#fff;background:linear-gradient(#fff, #fff)"),
    _style("white on an image", "color:#fff;background:url(x.png)", "doubtful"),
    _style("black on black", "background:#000", "doubtful"),
    _style("variable", "--d:none;display:var(--d)"),
    _style("variable with a fallback", "display:var(--nothing, none)"),
    _style("unknown variable", "display:var(--nothing)", "doubtful"),
    _rule("inherited variable", ":root{{--d:none}} .h{{display:var(--d)}}"),
    _rule("`:is()`", ":is(.x, .h){{display:none}}"),
    _rule("`:where()`", "p:where(.h){{display:none}}"),
    _rule("`:is()` of ancestors", ":is(.d, .e) > .h{{display:none}}"),
    _rule("`:not(:hover)`", ".h:not(:hover){{display:none}}"),
    _rule("`:not()`", "p:not(.x){{display:none}}", "doubtful"),
    _rule("`:nth-child()`", ".d p:nth-child(1){{display:none}}", "doubtful"),
    _rule("`:has()`", ".d:has(p){{display:none}}", "doubtful"),
    _rule("`::first-line`", ".h::first-line{{font-size:0}}", "doubtful"),
    Technique("sibling", "<style>i + p{{display:none}}</style><i>.</i><p>{}</p>", "doubtful"),
    _rule("nested rule", ".d{{color:red; .h{{display:none}}}}"),
    _rule("nested rule with `&`", ".d{{& .h{{display:none}} color:red}}"),
    _rule("brace in a string", '.x{{content:"}}"}} .h{{content:"}}";display:none}}'),
    Technique("escaped class", "<style>.a\\:b{{display:none}}</style><p class=a:b>{}</p>"),
    _rule("`@media` list", "@media print, screen{{.h{{display:none}}}}"),
    _rule("`@media not print`", "@media not print{{.h{{display:none}}}}"),
    _rule("`@media` range", "@media (width >= 1px){{.h{{display:none}}}}"),
    _rule("`@media` of a feature", "@media (min-resolution:.1dppx){{.h{{display:none}}}}", "doubtful"),
    _rule("`@supports not`", "@supports not (a:b){{.h{{display:none}}}}", "doubtful"),
    _rule("`@layer`", "@layer a{{.h{{display:none}}}}"),
    _rule("`@container`", "@container (width > 0px){{.h{{display:none}}}}", "doubtful"),
    _rule("`@scope`", "@scope (.d){{.h{{display:none}}}}", "doubtful"),
    _rule("animation", "@keyframes a{{to{{opacity:0}}}} .h{{animation:a 1s forwards}}", "doubtful"),
    _rule("font in the mail", "@font-face{{font-family:z;src:url(data:font/woff,x)}} .h{{font-family:z}}", "doubtful"),
    _rule("more rules than are read", "b{{color:red}}" * 2_100 + ".h{{display:none}}", "doubtful"),
    _rule("more selectors than are read", "b i{{color:red}}" * 120 + ".d .h{{display:none}}", "doubtful"),
    Technique("style sheet in a link", "<link rel=stylesheet href='data:text/css,p{{display:none}}'><p>{}</p>", "doubtful"),
    Technique("`hidden`", "<p hidden>{}</p>"),
    Technique("`hidden=until-found`", "<p hidden=until-found>{}</p>"),
    Technique("`dialog`", "<dialog>{}</dialog>"),
    Technique("`popover`", "<div popover>{}</div>"),
    Technique("`details`", "<details><summary>More</summary><p>{}</p></details>", "doubtful"),
    Technique("`option`", "<select><option>One<option>{}</select>", "doubtful"),
    Technique("`svg`", "<svg><text>{}</text></svg>", "doubtful"),
    Technique("`mphantom`", "<math><mphantom><mtext>{}</mtext></mphantom></math>"),
    Technique("collapsed column", "<table><col style='visibility:collapse'><tr><td>{}</td></tr></table>", "doubtful"),
    Technique("`mso-hide`", "<p style='mso-hide:all'>{}</p>"),
)  # fmt: skip


def table() -> str:
    """Return the techniques as a table."""
    rows = [f"| {each.name} | {each.result} |" for each in TECHNIQUES]
    return "\n".join(["", "| technique | result |", "| --- | --- |", *rows, ""])
