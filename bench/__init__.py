"""The benchmark: Penstock, the limit of its own transport and its peers, side by side on the same requests.

``python -m bench --help`` (or ``make bench``) is the way in. Rules:

1. Every request is signed and every answer is checked. A wrong answer is a failed case, not a fast one.
2. Systems take turns, round by round, so that a noisy minute hits all of them.
3. The figure to trust is the server's CPU time per message: rates depend on what else the machine does.
4. Nothing waits for ever: each case has a time limit, and what failed is shown with its reason.
"""
