"""Writes the figures of a run into the document, between its markers, and the chart beside it."""

from __future__ import annotations

from pathlib import Path

from bench.chart import Line, Mark, chart, label
from bench.report import rows, shown_spread
from bench.results import PENSTOCK, CaseRecord, Results

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmark.md"
CHART = DOCUMENT.parent / "benchmark.svg"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def write(results: Results) -> None:
    write_between(DOCUMENT, BEGIN, END, figures(results))
    CHART.write_text(drawn(results))


def write_between(document: Path, begin: str, end: str, text: str) -> None:
    """Replace what is between two markers of a document."""
    head, _, rest = document.read_text().partition(begin)
    document.write_text(f"{head}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}")


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
    sections = (case_section(results, case) for case in results.cases)
    return "\n".join([setting(results), key_figures(results), *sections])


def setting(results: Results) -> str:
    lines = [f"| {name} | {value} |" for name, value in results.machine.items()]
    lines += [
        f"| {system.name} | "
        + (f"absent: {system.absent}" if system.absent else f"{system.version}, {system.durability}")
        + " |"
        for system in results.systems
    ]
    lines.append(f"| load generator | {results.generator_processes} process(es) |")
    return "\n".join([f"Run: {results.mode}.", "", "| | |", "|---|---|", *lines, ""])


def key_figures(results: Results) -> str:
    found = [f"| {figure.title} | {shown_spread(figure.value)} |" for figure in results.key_figures()]
    return "\n".join(["| key figures | |", "|---|--:|", *found, ""]) if found else ""


def case_section(results: Results, case: CaseRecord) -> str:
    lines = [f"### {case.title}", ""]
    if case.rounds:
        titles, systems = rows(results, case)
        lines += [_row(titles), "|---|" + "--:|" * (len(titles) - 1), *map(_row, systems), ""]
    return "\n".join([*lines, *_failures(case)])


def _failures(case: CaseRecord) -> list[str]:
    shown = [f"{name} failed: {' '.join(reason.split())[:200]}\n" for name, reason in case.failed.items()]
    return [line.replace("|", "\\|").replace("<", "&lt;") for line in shown]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
