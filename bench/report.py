"""Tables for the terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.figures import GENERATOR_BUSY_MAX, METRICS, Spread, shown
from bench.results import ECHO, PENSTOCK, CaseRecord, Results

_WITH_SPREAD = {"rate"}


def times(ratio: Spread | None) -> str:
    return "" if ratio is None else f"{shown(ratio.median)}x ({shown(ratio.least)}-{shown(ratio.most)})"


def cell(case: CaseRecord, system: str, metric: str) -> str:
    value = case.value(system, metric)
    if value is None:
        return ""
    if metric == "generator_busy":
        return f"{value.median:.0%}"
    text = shown(value.median)
    if metric == case.headline or metric in _WITH_SPREAD:
        text += f" ({shown(value.least)}-{shown(value.most)})"
    busy = case.value(system, "generator_busy")
    if metric == "rate" and busy is not None and busy.median > GENERATOR_BUSY_MAX:
        text = f"≥ {text}"  # the generator could not ask for more
    return text


def case_table(case: CaseRecord) -> RenderableType:
    table = Table(title=f"{case.title} [dim]({case.name})[/dim]", title_justify="left", title_style="bold")
    table.add_column("")
    metrics = case.metrics()
    for i, metric in enumerate(metrics):
        table.add_column(METRICS[metric].title, justify="right")
        if i == 0:
            table.add_column(f"of {PENSTOCK}'s", justify="right")
            if ECHO in case.rounds:
                table.add_column("of the limit", justify="right")
    for system in case.rounds:
        ratios = [times(case.ratio(system, PENSTOCK) if system != PENSTOCK else None)]
        if ECHO in case.rounds:
            ratios.append(times(case.ratio(system, ECHO) if system != ECHO else None))
        first, *others = (cell(case, system, metric) for metric in metrics)
        table.add_row(system, first, *ratios, *others)
    failures = [Text(f"  {name} failed: {reason}", style="red") for name, reason in case.failed.items()]
    return Group(table, *failures)


def show_setting(console: Console, results: Results) -> None:
    for name, value in results.machine.items():
        console.print(f"  {name:<18} {value}", highlight=False)
    for system in results.systems:
        text = f"absent: {system.absent}" if system.absent else f"{system.version}, {system.durability}"
        console.print(f"  {system.name:<22} {text}", highlight=False)
    console.print(
        f"  {results.generator_processes} generator process(es), every request signed, every answer checked"
    )
