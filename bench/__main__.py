"""``python -m bench``: the whole benchmark in one command.

Results go to .bench/results.json and .bench/benchmark.svg; --document writes the figures of an earlier run into
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
from bench.cases import CASES as QUEUE_CASES
from bench.cases import KEY_CASES, QUICK, Bench, Case, Plan
from bench.generator import Generator
from bench.peers import HOME, PEERS
from bench.process import Checkout
from bench.report import case_table, show_key_figures, show_setting
from bench.results import BARE_ECHO, OPEN, PENSTOCK, UNMETERED, Results
from bench.run import Turns, start, warm_up
from bench.systems import Echo, Endpoint, Installed, Penstock, System
from bench.topic_cases import TOPIC_CASES

CASES = (*QUEUE_CASES, *TOPIC_CASES)
KEY_SYSTEMS = "penstock,open,bare,elasticmq"


def endpoint(text: str) -> Endpoint:
    """``name=url,pid=N``; without the pid there are no CPU figures."""
    name, _, rest = text.partition("=")
    url, _, pid = rest.partition(",pid=")
    if not url.startswith("http://"):
        raise argparse.ArgumentTypeError(
            f"invalid peer {text!r}: expected name=http://host:port or name=http://host:port,pid=N"
        )
    return Endpoint(name, url, int(pid) if pid else None)


def checkout(text: str) -> Checkout:
    if not (Path(text) / "src" / "penstock").is_dir():
        raise argparse.ArgumentTypeError(f"invalid checkout {text!r}: expected a directory with src/penstock")
    return Checkout(Path(text))


def options() -> argparse.Namespace:
    names = ", ".join(case.name for case in CASES)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, epilog=f"cases: {names}")
    add = parser.add_argument
    add("--quick", action="store_true", help="fewer cases and rounds: about two minutes")
    add(
        "--key-figures",
        action="store_true",
        help=f"only the cases behind the key figures ({','.join(KEY_CASES)}), on {KEY_SYSTEMS}",
    )
    add("--only", metavar="CASE,...", help="only these cases")
    add(
        "--systems",
        metavar="NAME,...",
        help="only these systems (penstock, open, unmetered, shards, memory, bare, echo, moto, ...)",
    )
    add(
        "--against",
        metavar="DIR",
        type=checkout,
        help="another checkout of Penstock, measured in turn with this one",
    )
    add(
        "--peer",
        metavar="NAME=URL[,pid=N]",
        type=endpoint,
        action="append",
        default=[],
        help="one more endpoint, which runs already",
    )
    add("--durability", choices=("commit", "interval", "system"), default="commit", help="of Penstock")
    add("--rounds", type=int, help="how often each case is measured")
    add("--processes", type=int, help="processes of the load generator")
    add("--results", type=Path, default=HOME / "results.json")
    add("--document", action="store_true", help="only write docs/benchmark.md from the results")
    return parser.parse_args()  # fmt: skip


def chosen_cases(given: argparse.Namespace) -> list[Case]:
    if given.only is None and not given.key_figures:
        return [case for case in CASES if case.quick or not given.quick]
    wanted = given.only.split(",") if given.only else KEY_CASES
    unknown = set(wanted) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"unknown cases: {', '.join(sorted(unknown))}")
    return [case for case in CASES if case.name in wanted]


def chosen_systems(given: argparse.Namespace) -> list[System]:
    flags = ("--durability", given.durability)
    data = HOME / "data"
    known: dict[str, System] = {
        "penstock": Penstock(PENSTOCK, data, *flags, secured=True),
        "open": Penstock(OPEN, data, *flags, is_variant=True),
        "unmetered": Penstock(UNMETERED, data, *flags, "--metrics-size", "0", is_variant=True),
        "shards": Penstock(f"{OPEN}, 3 shards", data, *flags, "--shards", "3", is_variant=True),
        "memory": Penstock(f"{OPEN}, in memory", None, is_variant=True),
        "bare": Echo(BARE_ECHO, "bench.bare_echo"),
        "echo": Echo("echo on our transport", "bench.echo"),
        **{peer.name.lower(): Installed(peer) for peer in PEERS},
    }
    usual = [name for name in known if name not in ("unmetered", "shards", "memory")]
    default = KEY_SYSTEMS.split(",") if given.key_figures else usual
    wanted = given.systems.split(",") if given.systems else default
    unknown = set(wanted) - set(known)
    if unknown:
        raise SystemExit(f"unknown systems: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    systems = [known[name] for name in wanted]
    if (other := given.against) is not None:
        for name in ("penstock", "open"):
            if name in wanted:
                system = known[name]
                system.before = f"{system.name} ({other.root.name})"
                before = Penstock(
                    system.before, data, *flags, secured=name == "penstock", checkout=other,
                    is_variant=system.is_variant,
                )  # fmt: skip
                systems.insert(systems.index(system) + 1, before)
    return [*systems, *given.peer]


def run(given: argparse.Namespace, console: Console) -> None:
    plan = QUICK if given.quick else Plan()
    plan = plan._replace(rounds=given.rounds or plan.rounds)
    cases, systems = chosen_cases(given), chosen_systems(given)
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
                # Variants take part in the central cases, and in those that were asked for by name.
                central = case.quick or given.only or given.key_figures
                fitting = [each for each in running if case.fits(each) and (central or not each.is_variant)]
                record = Turns(bench, case, fitting, say).play()
                outcome.cases.append(record)
                outcome.save(given.results)
                console.print(case_table(outcome, record))
                progress.advance(bar)
        finally:
            for system in systems:
                with suppress(OSError):
                    system.stop()
    show_key_figures(console, outcome)
    given.results.with_name("benchmark.svg").write_text(document.drawn(outcome))
    console.print(f"all rounds: {given.results}")


def main() -> None:
    # SIGTERM ends the servers that were started, like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = options()
    if given.document:
        document.write(results.load(given.results))
    else:
        console = Console()
        try:
            run(given, console if console.is_terminal else Console(width=140))
        except KeyboardInterrupt:
            raise SystemExit("stopped; the cases that were done are in the results") from None


if __name__ == "__main__":
    main()
