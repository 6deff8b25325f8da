"""Moving in: configuration files of other servers, read and written again as ours.

Rule 1: what is carried over means the same here. Rule 2: what is not carried over is named, with the reason.
Rule 3: what is written is taken by our own reader as it stands.
"""
