"""What the values of a unit's expressions are: one answer to where a value comes from, and what it is.

place.py      an expression, the part of its value that is meant, and the calls that led there
step.py       what one step back from a place leads to
steps.py      that step, for each kind of expression
calls.py      and for calls: functions that are entered, containers that are read, operations of torch
containers.py which module ends a container, and what is put into one
search.py     many steps: everything that makes a value
values.py     in which dtype a value is under autocast
uses.py       what the use of a value shows of it

What an operation of torch does is a row of `models/`. What a name, an object or a function is, `facts/` says.
"""
