"""The parent: owns the plan, the rounds and the timeouts; nothing heavy runs in its process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from sandbox import measure, processes
from sandbox.judgement import bound, ranked
from sandbox.machine import cuda, detect
from sandbox.machine.here import this_machine
from sandbox.plan import Plan, expand, fits, select
from sandbox.problem import Problem
from sandbox.processes import Lost, Worker
from sandbox.registry import Variant, discover
from sandbox.result import Result, Verdict
from sandbox.worker import Absent

_BUDGET_S = 2.0  # a row that has been timed this long is left alone after the least rounds
_SPIN_S = 0.06  # after its last call a thread pool spins this long, and would slow the next row
_DRIVER_BYTES = 16 << 30
_LEAST_ROUNDS = 6  # with fewer no distribution-free interval covers 95 %


@dataclass
class Row:
    """One line of the table while it is being found out."""

    v: Variant
    threads: int
    worker: Worker | None = None
    verdict: Verdict | None = None
    skipped: str | None = None
    traceback: str | None = None
    bursts: list[measure.Burst] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)

    def lose(self, why: Lost) -> None:
        """The row ends here, and its worker with it; the others go on."""
        if not self.skipped:
            self.verdict, self.traceback = Verdict(False, None, str(why)), why.traceback
        self.end()

    def end(self) -> None:
        """Without a worker."""
        if self.worker:
            self.worker.end()
        self.worker = None

    @property
    def alive(self) -> bool:
        """Right so far, and to be timed."""
        return self.worker is not None and self.verdict is not None and self.verdict.ok

    @property
    def done(self) -> bool:
        """Timed long enough, however many rounds are left."""
        return len(self.walls) >= _LEAST_ROUNDS and sum(self.walls) > _BUDGET_S


def run(plan: Plan, say: Callable[[str], None] = lambda text: None) -> Iterator[list[Result]]:
    """The results of one problem after the other; `say` hears what is being done.

    An interrupt ends at once: what is finished is yielded, then KeyboardInterrupt raised.
    """
    rows = [Row(v, threads) for v, threads in plan.rows]
    versions: dict[str, str] = {}
    try:
        no_gpu = _no_gpu(rows)
        for problem in plan.problems:
            for row in rows:
                row.verdict = row.traceback = None
                row.skipped = no_gpu if row.v.device == "gpu" else None
                row.bursts, row.walls = [], []
            try:
                _verify(plan, rows, problem, versions, say)
                _time(plan, rows, problem, say)
            except KeyboardInterrupt:
                for row in rows:
                    if row.alive and len(row.bursts) < min(_LEAST_ROUNDS, plan.rounds):
                        row.bursts, row.skipped = [], "interrupted"
                    elif row.verdict is None:
                        row.skipped = row.skipped or "interrupted"
                yield ranked([_result(plan, row, problem, versions) for row in rows])
                raise
            yield ranked([_result(plan, row, problem, versions) for row in rows])
    finally:
        for row in rows:
            row.end()


def _no_gpu(rows: list[Row]) -> str | None:
    """Why rows on a GPU take no part, where there are such rows."""
    if not any(row.v.device == "gpu" for row in rows):
        return None
    return processes.in_child(processes.context(detect.usable_cores()), cuda.missing) or None


def _verify(
    plan: Plan,
    rows: list[Row],
    problem: Problem,
    versions: dict[str, str],
    say: Callable[[str], None],
) -> None:
    """Compile and verify all rows, as many at once as there are cores: nothing is timed yet."""
    cores = detect.usable_cores()
    context = processes.context(cores)
    left = {f"{row.v.name} {row.threads}" for row in rows if not row.skipped}

    def verify(row: Row) -> None:
        try:
            if row.worker is None:
                row.worker = Worker(context, row.v, row.threads, cores)
                versions.update(row.worker.ask("import", plan.timeout, "versions"))
            row.worker.limit_bytes = row.worker.resident_bytes + _memory(row.v, problem)
            found = row.worker.ask("verification", plan.timeout, "verify", problem, plan.cold)
            if isinstance(found, Verdict):
                row.verdict = found
            else:
                row.skipped = found
        except Absent as why:
            row.skipped = str(why)
            row.end()
        except Lost as why:
            row.lose(why)
        left.discard(f"{row.v.name} {row.threads}")
        say(f"{problem.shape}: compiling and verifying, {len(left)} to go")

    say(f"{problem.shape}: compiling and verifying, {len(left)} to go")
    pool = ThreadPoolExecutor(cores)
    pending = [pool.submit(verify, row) for row in rows if not row.skipped]
    try:
        for done in pending:
            done.result()
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        for row in rows:
            if row.verdict is None:  # not the variant's fault
                row.skipped = row.skipped or "interrupted"
        started = [future for future in pending if not future.cancelled()]
        while wait(started, 0.05).not_done:  # a worker may just be starting
            for row in rows:
                row.end()
        raise
    pool.shutdown()


def _memory(v: Variant, problem: Problem) -> int:
    """Bytes of the host's memory that a row may take; a GPU's driver and compiler need more."""
    if v.device == "gpu":
        return _DRIVER_BYTES
    return 2 * (problem.held_bytes + problem.judged_bytes) + processes.SPARE_BYTES


def _time(plan: Plan, rows: list[Row], problem: Problem, say: Callable[[str], None]) -> None:
    """Round after round a burst of every row, in random order, so that all meet the same noise."""
    # Of each row some visits are looked at more closely; the variant cannot know which.
    least = min(_LEAST_ROUNDS, plan.rounds)
    closely = {id(row): random.sample(range(least), (least + 1) // 2) for row in rows}
    for turn in range(plan.rounds):
        say(f"{problem.shape}: timing, round {turn + 1} of {plan.rounds}")
        waiting = [row for row in rows if row.alive and not row.done]
        for row in random.sample(waiting, len(waiting)):
            try:
                _visit(plan, row, turn in closely[id(row)])
            except Lost as why:
                row.lose(why)
            if row.threads > 1:
                time.sleep(_SPIN_S)
    for row in rows:
        if row.alive:
            try:
                _check(plan, row)
            except Lost as why:
                row.lose(why)
        if row.alive:
            row.verdict = _suspicion(row) or row.verdict


def _visit(plan: Plan, row: Row, closely: bool) -> None:
    assert row.worker
    start = measure.clock()
    burst = row.worker.ask("timing", plan.timeout, "burst", closely)
    row.walls.append(measure.clock() - start)
    row.bursts.append(burst)
    if closely:
        _check(plan, row)


def _check(plan: Plan, row: Row) -> None:
    assert row.worker
    found = row.worker.ask("verification", plan.timeout, "check")
    if not found.ok:
        row.verdict = replace(found, reason=f"while it was timed, {found.reason}")


def _suspicion(row: Row) -> Verdict | None:
    if measure.remembers(row.bursts):
        return Verdict(False, None, "remembers: the same numbers again take it far less time")
    if measure.devices_disagree(row.bursts):
        return Verdict(False, None, "the device's clock disagrees with the host's")
    if measure.clocks_disagree(row.walls, row.bursts):
        return Verdict(False, None, "its process's clock disagrees with the judge's")
    return None


def _result(plan: Plan, row: Row, problem: Problem, versions: dict[str, str]) -> Result:
    v = row.v
    unit = v.unit_for(problem.dtype)
    right = row.verdict is not None and row.verdict.ok and row.skipped is None
    bursts = row.bursts if right else []
    eager = [b.eager_s for b in bursts if b.eager_s is not None]
    clocks = [b.clocks for b in bursts if b.clocks is not None]
    return Result(
        variant=v.name,
        device=v.device,
        reference=v.reference,
        unit=unit,
        problem=problem,
        threads=row.threads,
        cache="cold" if plan.cold else "warm",
        verdict=row.verdict,
        timing=measure.timing([b.call_s for b in bursts]) if bursts else None,
        call=measure.timing(eager) if eager else None,
        clocks=min(clocks, key=lambda c: c.sm_hz) if clocks else None,
        uncaptured=bursts[0].uncaptured if bursts else None,
        bound=bound(plan.machine, v, problem, row.threads, plan.cold),
        skipped=row.skipped,
        traceback=row.traceback,
        machine=plan.machine.name,
        versions=versions,
    )


def judge(*names: str, problem: Problem | None = None, threads: int | None = None) -> list[Result]:
    """Judge variants from Python as `compare` does: names, groups or paths of files.

    The problem defaults to 512 x 512 x 512 float32. Raises ValueError for a name that stands for
    nothing, BrokenFile for a file without variants. In a script, call it below
    `if __name__ == "__main__":`, since workers import the script.
    """
    problem = problem or Problem(512, 512, 512)
    chosen = expand(select(discover(), names), threads)
    fits(chosen, [problem])
    machine = this_machine({t for _, t in chosen})
    return next(run(Plan(chosen, [problem], machine)))
