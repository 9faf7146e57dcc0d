"""Every finding: its code, what it is about, why it matters, what to do by hand, and what could help.

A rule is one object in the module of its theme. Whoever reports it imports it from there, so that a run loads the rules
that it needs; `catalogue.py` has all of them by their codes.

Codes are stable and never reused: AMP0xx are source forms (`source_forms.py`), AMP1xx go with a unit that is migrated,
AMP301 to AMP319 with the spelling of native AMP, AMP401 to AMP419 with mistakes in native AMP that was there before us,
AMP420 to AMP439 with what `judge` has against a migration, AMP9xx with a unit that is left alone, AMP99x with a file
that could not be processed.
"""
