"""Writes the figures of a run into the document, between its markers, and the chart beside it."""

from __future__ import annotations

from pathlib import Path

from bench.chart import Line, Mark, chart, label
from bench.figures import METRICS
from bench.report import cell, times
from bench.results import ECHO, PENSTOCK, CaseRecord, Results

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmark.md"
CHART = DOCUMENT.parent / "benchmark.svg"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def write(results: Results) -> None:
    text = DOCUMENT.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCUMENT.write_text(f"{head}{BEGIN}\n\n{figures(results)}\n{END}{tail}")
    CHART.write_text(drawn(results))


def drawn(results: Results) -> str:
    lines = []
    for case in results.cases:
        if case.headline != "cpu_us":
            continue
        marks = [
            Mark(name, value, label(value, case.ratio(name, PENSTOCK) if name != PENSTOCK else None))
            for name in case.rounds
            if (value := case.value(name, "cpu_us")) is not None
        ]
        if marks:
            lines.append(Line(case.title, marks))
    return chart("What a message costs the server", "CPU time per message in µs (times Penstock's)", lines)


def figures(results: Results) -> str:
    return "\n".join([setting(results), *(case_section(case) for case in results.cases)])


def setting(results: Results) -> str:
    rows = [f"| {name} | {value} |" for name, value in results.machine.items()]
    rows += [
        f"| {system.name} | "
        + (f"absent: {system.absent}" if system.absent else f"{system.version}, {system.durability}")
        + " |"
        for system in results.systems
    ]
    rows.append(f"| load generator | {results.generator_processes} process(es) |")
    return "\n".join([f"Run: {results.mode}.", "", "| | |", "|---|---|", *rows, ""])


def case_section(case: CaseRecord) -> str:
    metrics = case.metrics()
    if not metrics:
        return "\n".join([f"### {case.title}", "", *_failures(case)])
    has_limit = ECHO in case.rounds
    ratios = [f"of {PENSTOCK}'s", *(["of the limit"] if has_limit else [])]
    titles = [METRICS[metric].title for metric in metrics]
    columns = ["", titles[0], *ratios, *titles[1:]]
    lines = [f"### {case.title}", "", _row(columns), "|---|" + "--:|" * (len(columns) - 1)]
    for system in case.rounds:
        against = [times(case.ratio(system, PENSTOCK)) if system != PENSTOCK else ""]
        if has_limit:
            against.append(times(case.ratio(system, ECHO)) if system != ECHO else "")
        first, *others = (cell(case, system, metric) for metric in metrics)
        lines.append(_row([system, first, *against, *others]))
    return "\n".join([*lines, "", *_failures(case)])


def _failures(case: CaseRecord) -> list[str]:
    shown = [f"{name} failed: {' '.join(reason.split())[:200]}\n" for name, reason in case.failed.items()]
    return [line.replace("|", "\\|").replace("<", "&lt;") for line in shown]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
