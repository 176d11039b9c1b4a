"""Arguments of the modules that measure: --help measures nothing and writes nothing."""

import argparse
import sys


def arguments(doc: str | None, *forms: str) -> list[str]:
    """The arguments, which follow one of ``forms``, such as ``row NAME``; without any: all of it.

    A form in angle brackets stands for words of its own: one is needed, and none is known.
    """
    given = sys.argv[1:]
    module = sys.modules["__main__"].__spec__
    program = f"python -m {module.name}" if module else sys.argv[0]
    usage = f"{program} {' | '.join(forms)}" if forms else program
    parser = argparse.ArgumentParser(description=doc, usage=usage, add_help=False)
    if {"-h", "--help"} & set(given):
        parser.print_help()
        sys.exit(0)
    words = {form.strip("[]").split()[0] for form in forms}
    free = any(form.startswith("<") for form in forms)
    if (given and given[0] not in words and not free) or (free and not given):
        parser.error(f"{' '.join(given) or 'nothing'}: must be as above")
    return given
