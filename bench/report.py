"""Figures as text, and tables for the terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.results import GENERATOR_BUSY_MAX, METRICS, CaseRecord, Results, Spread

_WITH_SPREAD = {"rate"}


def shown(value: float) -> str:
    """Three digits: a measurement is not more exact."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def shown_spread(value: Spread) -> str:
    return f"{shown(value.median)} ({shown(value.least)}-{shown(value.most)})"


def cell(case: CaseRecord, system: str, metric: str) -> str:
    value = case.value(system, metric)
    if value is None:
        return ""
    if metric == "generator_busy":
        return f"{value.median:.0%}"
    text = shown_spread(value) if metric == case.headline or metric in _WITH_SPREAD else shown(value.median)
    busy = case.value(system, "generator_busy")
    if metric == "rate" and busy is not None and busy.median > GENERATOR_BUSY_MAX:
        text = f"≥ {text}"  # the generator could not ask for more
    return text


def rows(results: Results, case: CaseRecord) -> tuple[list[str], list[list[str]]]:
    """(the titles of the columns, a row for each system): the headline, its ratios, the other figures."""
    first, *others = case.metrics()
    columns = results.ratios(case)
    titles = ["", METRICS[first].title, *columns, *(METRICS[name].title for name in others)]
    lines = []
    for system in case.rounds:
        ratios = [column.get(system) for column in columns.values()]
        compared = ["" if ratio is None else shown_spread(ratio) for ratio in ratios]
        lines.append(
            [system, cell(case, system, first), *compared, *(cell(case, system, name) for name in others)]
        )
    return titles, lines


def case_table(results: Results, case: CaseRecord) -> RenderableType:
    table = Table(title=f"{case.title} [dim]({case.name})[/dim]", title_justify="left", title_style="bold")
    if case.rounds:
        titles, lines = rows(results, case)
        for i, title in enumerate(titles):
            table.add_column(title, justify="right" if i else "left")
        for line in lines:
            table.add_row(*line)
    failures = [Text(f"  {name} failed: {reason}", style="red") for name, reason in case.failed.items()]
    return Group(table, *failures)


def show_setting(console: Console, results: Results) -> None:
    for name, value in results.machine.items():
        console.print(f"  {name:<22} {value}", highlight=False)
    for system in results.systems:
        text = f"absent: {system.absent}" if system.absent else f"{system.version}, {system.durability}"
        console.print(f"  {system.name:<22} {text}", highlight=False)
    processes = results.generator_processes
    console.print(f"  {processes} generator process(es), every request signed, every answer checked")


def show_key_figures(console: Console, results: Results) -> None:
    table = Table("key figures (medians of paired rounds)", "", title_justify="left")
    for figure in results.key_figures():
        table.add_row(figure.title, shown_spread(figure.value))
    if table.row_count:
        console.print(table)
