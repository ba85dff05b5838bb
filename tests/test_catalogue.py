"""The catalogue: every sheet, the derivation of its peaks, and sheets that are wrong."""

import io
import json
import re

import pytest
from rich.console import Console

from sandbox.commands.roofline import main
from sandbox.machine import catalogue, here, sheet
from sandbox.report.machines import listing, sources

SHEETS = {name: sheet.read(catalogue._FOLDER / f"{name}.toml") for name in catalogue.names()}
PEAKS = [
    pytest.param(part, peak, id=f"{name}-{arithmetic}")
    for name, s in SHEETS.items()
    for part in (s.cpu, s.gpu)
    if part
    for arithmetic, peak in part.peaks.items()
    if peak.sheet
]


@pytest.mark.parametrize(("part", "peak"), PEAKS)
def test_units_times_flop_a_clock_times_clock_is_the_peak_of_the_sheet(part, peak):
    assert sheet.derived(part, peak) == pytest.approx(peak.sheet, rel=0.0125)


def test_sparse_rates_would_not_pass():
    part = SHEETS["h100-sxm"].gpu
    sparse = part.peaks["fp16"].model_copy(update={"sheet": 1978.9e12})
    assert sheet.derived(part, sparse) != pytest.approx(sparse.sheet, rel=0.4)


def test_the_machines_that_are_looked_for():
    shown = " ".join(catalogue.names()).replace("-", " ")
    for name in ("gh200", "h100", "h200", "a100", "l40s", "l4", "3090", "4090", "5090", "b200"):
        assert name in shown
    for name in ("zen 2", "zen 3", "zen 4", "zen 5", "skylake sp", "ice lake sp"):
        assert name in shown
    for name in ("sapphire rapids", "neoverse n1", "neoverse v1", "neoverse v2", "apple m1"):
        assert name in shown


@pytest.mark.parametrize("name", SHEETS)
def test_every_machine_has_levels_that_hold_less_the_nearer_they_are(name):
    machine = catalogue.named(name)
    assert machine.units
    for unit in machine.units:
        held = [level.fast_bytes for level in unit.levels]
        assert held == sorted(held, reverse=True)
        assert unit.levels[0].name == "DRAM"
        assert unit.levels[0].bandwidth
        assert all(level.memories * level.fast_bytes <= held[0] for level in unit.levels)


@pytest.mark.parametrize("name", SHEETS)
def test_the_command_takes_every_machine(name, capsys):
    assert main(["--machine", name, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    units = json.loads(out)["units"]
    assert len(units) == len(catalogue.named(name).units)
    assert all(u["levels"][0]["name"] == "DRAM" for u in units)
    assert max(map(len, err.splitlines())) <= 80


def test_a_listing_is_not_saved(capsys, tmp_path):
    with pytest.raises(SystemExit) as end:
        main(["--machines", "--json", str(tmp_path / "x.json")])
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: --machines saves nothing: ")
    assert not list(tmp_path.iterdir())


def test_what_is_unverified_is_shown_as_unverified(capsys):
    assert main(["--machines"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert set(SHEETS) <= set(lines)
    for name, s in SHEETS.items():
        figures = [
            f for part in (s.cpu, s.gpu) if part for f in (part.bandwidth, *part.peaks.values())
        ]
        marks = sum(f.doubt == "unverified" for f in figures)
        shown = sum(line.count("?") for line in [_line(name, d) for d in ("cpu", "gpu")])
        assert shown == marks, name


def _line(name, device):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(listing({name: catalogue.named(name)}))
    found = [x for x in console.export_text().splitlines() if re.match(rf"{name}\s+{device}", x)]
    return "".join(found)


def test_every_figure_has_a_source(capsys):
    for name in SHEETS:
        assert all(fact.source for fact in catalogue.named(name).facts)
    assert sources(catalogue.named("l40s").facts).row_count == len(catalogue.named("l40s").facts)


def test_unknown_hardware_has_no_sheet():
    assert catalogue.microarchitecture("x86_64_v3") is None
    assert catalogue.microarchitecture("zen6") is None
    assert catalogue.gpu("NVIDIA H100 NVL") is None
    assert catalogue.gpu("NVIDIA A100-PCIE-40GB") is None
    assert catalogue.gpu("NVIDIA H200").sms.value == 132
    assert catalogue.microarchitecture("neoverse_v2") == SHEETS["neoverse-v2"].cpu


# Sheets that are wrong.

GOOD = (catalogue._FOLDER / "h200.toml").read_text()
WRONG = {
    "sms = { value = 132": ["sms = { value = -132", "sms = { value = 13.2", 'sms = { value = "x"'],
    "bandwidth = {": ["width = {", "bandwidth = 3\n#{"],
    "value = 4.8e12": ["value = nan", "value = inf", "value = 0.0", "number = 4.8e12"],
    'source = "NVIDIA\'s data sheet"': ['source = ""', "source = 3", ""],
    "[gpu.peaks]": ["[gpu.peaks", "[gpu.peaks]\nint4 = 3"],
    "flop_per_clock = 2048": ["flop_per_clock = 0", "flops_per_clock = 2048"],
    'name = "NVIDIA H200"\n\n[gpu]': [
        "[gpu]",
        'name = "x"\n[tpu]',
        "\0",
        'name = "x"\n[cpu]\n[gpu]',
    ],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "_FOLDER", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(("good", "bad"), [(g, b) for g, all_ in WRONG.items() for b in all_])
@pytest.mark.parametrize("arguments", [("--machine", "mine"), ("--machines",)])
def test_a_malformed_sheet_is_one_line_and_code_2(folder, capsys, good, bad, arguments):
    assert good in GOOD
    (folder / "mine.toml").write_text(GOOD.replace(good, bad, 1))
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "mine.toml: " in err
    assert not here.store().exists()


def test_the_message_names_the_key_and_the_remedy(folder):
    (folder / "mine.toml").write_text(GOOD.replace("sms = { value = 132", "sms = { value = -132"))
    with pytest.raises(ValueError, match=r"mine\.toml: gpu\.sms\.value: .*greater than 0.*correct"):
        catalogue.named("mine")


def test_a_sheet_of_another_encoding(folder):
    (folder / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"mine\.toml: no valid TOML"):
        catalogue.named("mine")


def test_a_sheet_of_nothing(folder):
    (folder / "mine.toml").write_text('name = "nothing"')
    with pytest.raises(ValueError, match="cpu, gpu"):
        catalogue.named("mine")
