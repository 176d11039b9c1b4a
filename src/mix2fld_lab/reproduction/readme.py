"""The parts of the README that records decide: they are written here, never by hand."""

from mix2fld.base.errors import InputError


def with_sections(text: str, sections: dict[str, str]) -> str:
    """The text with new contents between the marks of each section that it has."""
    for name, contents in sections.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if start not in text:
            continue
        before, rest = text.split(start, 1)
        if end not in rest:
            raise InputError(field="README.md", value=start.strip(), hint=f"{end} must follow")
        text = f"{before}{start}{contents}\n{end}{rest.split(end, 1)[1]}"
    return text
