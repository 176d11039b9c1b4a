"""What only servers call of protocols, imported when it is first called.

A small device has the protocols, whose devices may take steps of the server, but none of this.
"""

from mix2fld.base.lazy import from_stub

__getattr__, __dir__, __all__ = from_stub(__name__, __file__)
