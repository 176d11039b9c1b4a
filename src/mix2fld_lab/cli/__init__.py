"""Commands of ``mix2fld`` that gather evidence."""
