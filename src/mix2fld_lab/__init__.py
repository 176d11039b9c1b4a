"""The evidence behind ``mix2fld``: reproduction of the paper, frontier, audits, test bed.

Nothing in ``mix2fld`` needs it but the commands that run it.
"""
