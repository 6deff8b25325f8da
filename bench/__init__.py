"""The benchmark: Penstock, an echo that does the least possible, and other servers, on the same requests.

``python -m bench --help`` (or ``make bench``) shows its options; ``python -m bench.path`` counts the calls of one
request. Every request is signed and every answer is checked: a wrong answer is a failed case, not a fast one. Systems
take turns in every round, so that a noisy minute affects all of them. The figure to compare is the server's CPU time
per message as a multiple of the bare echo's: rates depend on what else the machine does. Every case has a time limit.
"""
