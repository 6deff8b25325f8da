"""The coverage-guided engine, for one target in this process: ``python -m fuzz.engine sigv4 FOLDER [OPTION...]``.

The options are libFuzzer's. It starts from the seeds and keeps inputs that reached new code in FOLDER/corpus. An
input that fails a check, takes too long or needs too much memory ends the process and is kept in FOLDER/crashes.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import atheris

SECONDS_PER_INPUT_MAX = 10
MEMORY_MIB_MAX = 2048
INPUT_BYTES_MAX = 4096

with atheris.instrument_imports(include=["penstock"]):
    from fuzz.targets import Target, load


def main() -> None:
    name, folder, *options = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
    logging.getLogger().addHandler(logging.NullHandler())
    with atheris.instrument_imports(include=["penstock"]):
        target = load(name)
    corpus, crashes = folder / "corpus", folder / "crashes"
    for each in (corpus, crashes):
        each.mkdir(parents=True, exist_ok=True)
    _write_seeds(corpus, target)
    dictionary = folder / "words"
    dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    arguments = [
        sys.argv[0],
        f"-dict={dictionary}",
        f"-artifact_prefix={crashes}/",
        f"-timeout={SECONDS_PER_INPUT_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-max_len={INPUT_BYTES_MAX}",
        "-print_final_stats=1",
        *options,
        str(corpus),
    ]
    atheris.Setup(arguments, _timed(target))
    atheris.Fuzz()


def _write_seeds(corpus: Path, target: Target) -> None:
    for seed in target.seeds:
        (corpus / sha256(seed).hexdigest()[:16]).write_bytes(seed)


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _timed(target: Target) -> Callable[[bytes], None]:
    """Prints the time of each input that takes clearly longer than all before it: libFuzzer prints none."""
    slowest = 0.0

    def check(data: bytes) -> None:
        nonlocal slowest
        begun = time.perf_counter()
        target.check(data)
        taken = time.perf_counter() - begun
        if taken > slowest * 1.2:
            slowest = taken
            print(f"slowest: {taken * 1000:.1f} ms", file=sys.stderr, flush=True)

    return check


if __name__ == "__main__":
    main()
