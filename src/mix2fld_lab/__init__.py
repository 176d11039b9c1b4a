"""The evidence behind ``mix2fld``: reproduction of the paper, frontier, audits, trials.

Nothing in ``mix2fld`` needs it but the commands that run it.
"""
