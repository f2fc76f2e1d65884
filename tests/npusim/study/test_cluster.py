"""A Dask cluster over TCP: the same study as on one machine, whoever dies."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npusim.isa.base.errors import NpusimError
from npusim.study.cluster import DaskCluster, Tls, _connect, tls
from npusim.study.evaluate import Job, Record
from npusim.study.explore import explore
from npusim.study.space_file import SpaceFile
from npusim.study.study import Study, write_tables
from tests.examples import NIGHT

from .spaces import digits, sampling, space_file

pytest.importorskip("distributed")

PARAMETERS = {
    "mac_array.rows": [4, 8, 16],
    "scratchpad.size_kib": [16, 32, 64],
    "dram.bandwidth_gb_per_s": [0.5, 1, 2],
    "clock_mhz": [200, 400, 600],
}


class Cluster:
    """A scheduler and workers as processes on 127.0.0.1."""

    def __init__(self, folder: Path, *tls: str) -> None:
        self.folder, self.tls = folder, tls
        self.processes: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        local = ["--host", "127.0.0.1", "--no-dashboard"]
        self.start("scheduler", *local, "--port", "0", "--scheduler-file", str(self.file), *tls)
        deadline = time.monotonic() + 600  # it takes seconds of CPU time, of which a busy computer gives few
        while not self.file.exists():
            assert self.processes[0].poll() is None, (self.folder / "0.log").read_text()
            assert time.monotonic() < deadline, "no scheduler after ten minutes"
            time.sleep(0.05)

    @property
    def address(self) -> str:
        import json

        address: str = json.loads(self.file.read_text())["address"]
        return address

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words], stdout=log, stderr=log, cwd=self.folder
            )
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        """A worker without a nanny: nobody starts it again."""
        return self.start(
            "worker", self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard",
            *(word for word in self.tls if word not in ("--protocol", "tls")),
        )  # fmt: skip

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    yield running
    running.close()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def study_in(folder: Path, file: SpaceFile, how: Any, **more: Any) -> Study:
    made = explore([digits()], file.space, how, folder, **more)
    write_tables(made)
    return made


@pytest.mark.slow
def test_workers_come_and_die(cluster: Cluster, tmp_path: Path) -> None:
    file, how = space_file(PARAMETERS), sampling("nsga2", points=60 if NIGHT else 32)
    first, second = cluster.worker(), cluster.worker()
    seen: list[int] = []
    third: list[subprocess.Popen[bytes]] = []

    def watch(record: Record, total: int) -> None:
        seen.append(record.point)
        if len(seen) == 12:
            os.kill(first.pid, signal.SIGKILL)
            third.append(cluster.worker())
        if len(seen) == 24:
            os.kill(second.pid, signal.SIGKILL)

    def make(job: Job) -> DaskCluster:
        executor = DaskCluster(job, cluster.address)
        executor._client.wait_for_workers(2, timeout=600)
        return executor

    study_in(tmp_path / "cluster", file, how, make_executor=make, watch=watch)
    assert first.wait() == second.wait() == -signal.SIGKILL
    assert third[0].poll() is None
    study_in(tmp_path / "local", file, how)
    assert files_of(tmp_path / "cluster") == files_of(tmp_path / "local")
    assert len(seen) == len(set(seen))


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate with its key that it signed: PEM files."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes", "-subj")
    openssl(*new, "/CN=authority", "-x509", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "/CN=localhost", "-keyout", "me.key", "-out", "me.csr")
    signed = (
        "x509",
        "-req",
        "-in",
        "me.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
    )
    openssl(*signed, "-out", "me.pem")
    return folder / "ca.pem", folder / "me.pem", folder / "me.key"


@pytest.mark.slow
def test_a_cluster_behind_tls(tmp_path: Path) -> None:
    ca, cert, key = certificates(tmp_path)
    words = ("--tls-ca-file", str(ca), "--tls-cert", str(cert), "--tls-key", str(key), "--protocol", "tls")
    cluster = Cluster(tmp_path, *words)
    try:
        cluster.worker()
        assert cluster.address.startswith("tls://")
        file = space_file({"mac_array.rows": [4, 8]})
        trusted = tls(cluster.address, ca, cert, key)
        study = study_in(
            tmp_path / "study", file, sampling("grid"),
            make_executor=lambda job: DaskCluster(job, cluster.address, trusted),
        )  # fmt: skip
        assert len(study.feasible) == 2
        # Who has no certificate of the authority is not let in, whatever it trusts itself.
        (tmp_path / "stranger").mkdir()
        stranger = Tls(ca, *certificates(tmp_path / "stranger")[1:])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("npusim.study.cluster.CONNECT_S", 2)
            with pytest.raises(NpusimError, match=r"--dask tls://.*: "):
                _connect(cluster.address, stranger)
            with pytest.raises(NpusimError, match=r"--dask tls://.*: "):
                _connect(cluster.address)
    finally:
        cluster.close()


def test_half_of_tls_is_refused(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    assert tls("tcp://host:1", None, None, None) is None
    with pytest.raises(NpusimError, match="give all three, or none"):
        tls("tls://host:1", ca, None, None)
    with pytest.raises(NpusimError, match="the address must begin with tls://"):
        tls("tcp://host:1", ca, ca, ca)
    ca.write_text("not a certificate")
    with pytest.raises(NpusimError, match=r"--dask-tls-ca .*ca.pem: not a PEM file"):
        Tls(ca, ca, ca).security()


def test_nobody_answers() -> None:
    from npusim.study import cluster

    def connect() -> None:
        # Dask asserts that its thread starts within 10 s, which a busy machine does not always give it.
        for _ in range(5):
            with contextlib.suppress(AssertionError):
                cluster._connect("tcp://127.0.0.1:9")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "CONNECT_S", 0.5)
        with pytest.raises(NpusimError, match=r"--dask tcp://127.0.0.1:9: no scheduler answers there: "):
            connect()


def test_another_version_is_refused() -> None:
    from npusim.study.cluster import make_evaluator

    with pytest.raises(
        NpusimError, match=r"a worker has npusim .*, this is 9.9: install the same everywhere"
    ):
        make_evaluator(b"", "9.9")
