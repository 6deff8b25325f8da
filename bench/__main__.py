"""``python -m bench``: the whole benchmark in one command.

Results go to .bench/results.json and .bench/benchmark.svg; --document puts the figures of an earlier run into
docs/benchmark.md.
"""

from __future__ import annotations

import argparse
import signal
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import document, machine, results, signature
from bench.cases import CASES, QUICK, Bench, Case, Plan
from bench.generator import Generator
from bench.peers import HOME, PEERS
from bench.report import case_table, show_setting
from bench.results import ECHO, PENSTOCK, Results
from bench.run import Turns, start, warm_up
from bench.systems import Echo, Endpoint, Installed, Penstock, System, Variant


def endpoint(text: str) -> Endpoint:
    """``name=url,pid=N``; without the pid there are no CPU figures."""
    name, _, rest = text.partition("=")
    url, _, pid = rest.partition(",pid=")
    if not url.startswith("http://"):
        raise argparse.ArgumentTypeError(
            "a peer is given as name=http://host:port or name=http://host:port,pid=N"
        )
    return Endpoint(name, url, int(pid) if pid else None)


def options() -> argparse.Namespace:
    names = ", ".join(case.name for case in CASES)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, epilog=f"cases: {names}")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: about two minutes")
    parser.add_argument("--only", metavar="CASE,...", help="only these cases")
    parser.add_argument(
        "--systems", metavar="NAME,...", help="only these systems (penstock, echo, moto, ...)"
    )
    parser.add_argument("--peer", metavar="NAME=URL[,pid=N]", type=endpoint, action="append", default=[],
                        help="one more endpoint, run by somebody else")  # fmt: skip
    parser.add_argument(
        "--durability", choices=("commit", "interval", "system"), default="commit", help="of Penstock"
    )
    parser.add_argument("--rounds", type=int, help="how often each case is measured")
    parser.add_argument("--processes", type=int, help="processes of the load generator")
    parser.add_argument("--results", type=Path, default=HOME / "results.json")
    parser.add_argument(
        "--document", action="store_true", help="only write docs/benchmark.md from the results"
    )
    return parser.parse_args()


def chosen_cases(only: str | None, quick: bool) -> list[Case]:
    if only is None:
        return [case for case in CASES if case.quick or not quick]
    wanted = only.split(",")
    unknown = set(wanted) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"unknown cases: {', '.join(sorted(unknown))}")
    return [case for case in CASES if case.name in wanted]


def chosen_systems(names: str | None, durability: str, peers: list[Endpoint]) -> list[System]:
    known: dict[str, System] = {
        "penstock": Penstock(PENSTOCK, HOME / "data", "--durability", durability, locks="signed"),
        "sealed": Variant(
            f"{PENSTOCK}, encrypted", HOME / "data", "--durability", durability, locks="sealed"
        ),
        "open": Variant(f"{PENSTOCK}, open", HOME / "data", "--durability", durability),
        "memory": Variant(f"{PENSTOCK}, open, in memory", None),
        "echo": Echo(ECHO),
        **{peer.name.lower(): Installed(peer) for peer in PEERS},
    }
    wanted = names.split(",") if names else [name for name in known if name != "memory"]
    unknown = set(wanted) - set(known)
    if unknown:
        raise SystemExit(f"unknown systems: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [*(known[name] for name in wanted), *peers]


def run(given: argparse.Namespace, console: Console) -> None:
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(rounds=given.rounds or plan.rounds)
    cases = chosen_cases(given.only, given.quick)
    systems = chosen_systems(given.systems, given.durability, given.peer)
    HOME.mkdir(exist_ok=True)
    (HOME / ".gitignore").write_text("*\n")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Generator(given.processes) as generator,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        bar = progress.add_task("", total=len(cases))

        def say(text: str) -> None:
            progress.update(bar, description=text)

        say("looking at the machine")
        about = machine.described(HOME / "data")
        about["one signature verified"] = f"{min(signature.rounds(5, 4_000)):.1f} µs of CPU, without a socket"
        try:
            running, records = start(systems, say)
            outcome = Results(
                mode=f"{'quick' if given.quick else 'full'}, {plan.rounds} rounds", machine=about,
                generator_processes=generator.processes, systems=records,
            )  # fmt: skip
            show_setting(console, outcome)
            bench = Bench(generator, plan)
            warm_up(bench, running, say)
            for case in cases:
                record = Turns(bench, case, running, say).play()
                outcome.cases.append(record)
                outcome.save(given.results)
                console.print(case_table(record))
                progress.advance(bar)
        finally:
            for system in systems:
                with suppress(OSError):
                    system.stop()
    given.results.with_name("benchmark.svg").write_text(document.drawn(outcome))
    console.print(f"all rounds: {given.results}")


def main() -> None:
    # Whatever ends us, the servers we started end with us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = options()
    if given.document:
        document.write(results.load(given.results))
    else:
        console = Console()
        try:
            run(given, console if console.is_terminal else Console(width=120))
        except KeyboardInterrupt:
            raise SystemExit("stopped; the cases that were done are in the results") from None


if __name__ == "__main__":
    main()
