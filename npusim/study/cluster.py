"""The executor of a search on a Dask cluster, whose workers may come, go and die while the search runs.

A Dask scheduler and its workers run any code that reaches their ports, and this process unpickles their answers. So a
cluster needs a network of trusted machines, or TLS, whose certificates define who may take part.
"""

from __future__ import annotations

import pickle
import ssl
import threading
import warnings
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from npusim.base.extras import missing
from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.study.evaluate import Evaluator, Job, Record, order
from npusim.study.executors import ATTEMPTS, chunks, died

CONNECT_S = 15
LEAST_IN_FLIGHT = 16
CHUNKS_PER_THREAD = 3
"""Tasks in flight per thread: enough that no worker idles, and few enough to keep the scheduler's state small."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS identity of a cluster: PEM files of the authority, and of this side's certificate and key."""

    ca: Path
    cert: Path
    key: Path

    def require_sound(self) -> None:
        """Raise NpusimError for a file that cannot be read or is no PEM file."""
        for option, file in (("ca", self.ca), ("cert", self.cert), ("key", self.key)):
            text = user_file.text(file, user_file.PEM)
            if "-----BEGIN " not in text:
                raise NpusimError(f"--dask-tls-{option} {file}: not {user_file.PEM.noun}")

    def security(self) -> Any:
        """Return the `Security` of Dask that refuses connections without TLS. Raises NpusimError for a bad file."""
        self.require_sound()
        return _distributed().Security(
            tls_ca_file=str(self.ca),
            tls_client_cert=str(self.cert),
            tls_client_key=str(self.key),
            require_encryption=True,
        )


def tls(address: str, ca: Path | None, cert: Path | None, key: Path | None) -> Tls | None:
    """Return the TLS files that a command line names, or None without any. Raises NpusimError for an incomplete set."""
    if ca is None and cert is None and key is None:
        return None
    if ca is None or cert is None or key is None:
        raise NpusimError("--dask-tls-ca, --dask-tls-cert and --dask-tls-key: give all three, or none")
    if not address.startswith("tls://"):
        raise NpusimError(f"--dask {address}: with --dask-tls-ca the address must begin with tls://")
    certificates = Tls(ca, cert, key)
    certificates.require_sound()
    return certificates


_COMPUTING = threading.Lock()
"""Threads of one worker share an evaluator and its caches: one of them computes."""


def make_evaluator(payload: bytes, version: str) -> Evaluator:
    """Return the evaluator of a job; one worker builds it, the others copy it, and a lost one is built again."""
    if npusim_version() != version:
        raise NpusimError(
            f"a worker has npusim {npusim_version()}, this is {version}: install the same everywhere"
        )
    job = pickle.loads(payload)
    assert isinstance(job, Job)
    return Evaluator(job)


def compute(evaluator: Evaluator, points: Sequence[int]) -> list[Record]:
    """Compute the records of some points; it runs on a worker."""
    with _COMPUTING:
        return [evaluator.record(point) for point in points]


class DaskCluster:
    """The executor that sends points in small groups to a cluster as tasks.

    The models are sent to the scheduler once, and then from worker to worker. A task whose worker dies goes to another
    worker, which computes all its points again.
    """

    def __init__(self, job: Job, address: str, tls: Tls | None = None) -> None:
        self._space, self._address = job.space, address
        self._client = _connect(address, tls)
        payload = pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
        self._name = f"npusim-{sha256(payload).hexdigest()[:16]}"
        self._evaluator = self._submit("job", make_evaluator, payload, _version())
        self._submitted = 0

    def _submit(self, name: str, function: Any, *arguments: Any) -> Any:
        with warnings.catch_warnings():
            # Models of many megabytes are meant to travel in the task, so that the scheduler keeps them.
            warnings.simplefilter("ignore", UserWarning)
            return self._client.submit(function, *arguments, key=f"{self._name}-{name}", pure=False)

    def _send(self, points: Sequence[int]) -> Any:
        self._submitted += 1
        return self._submit(f"{self._submitted}", compute, self._evaluator, list(points))

    def records(self, points: Sequence[int]) -> Iterator[Record]:
        """Yield the records of points as they are ready. Raises NpusimError if the cluster is lost."""
        todo = iter(chunks(order(self._space, points), max(1, self._threads())))
        running: dict[Any, list[int]] = {}
        attempts: dict[int, int] = {}
        done = _distributed().as_completed([], loop=self._client.loop)

        def send(chunk: list[int]) -> None:
            future = self._send(chunk)
            running[future.key] = chunk
            done.add(future)

        self._fill(todo, running, send)
        for future in done:
            chunk = running.pop(future.key)
            records = self._result(future)
            if records is not None:
                yield from records
            for point in chunk if records is None else ():
                attempts[point] = attempts.get(point, 0) + 1
                if attempts[point] < ATTEMPTS:
                    send([point])
                else:
                    yield died(point)
            self._fill(todo, running, send)

    def _fill(self, todo: Iterator[list[int]], running: dict[Any, list[int]], send: Any) -> None:
        """Submit tasks until all threads of the present workers have enough to do."""
        wanted = max(LEAST_IN_FLIGHT, CHUNKS_PER_THREAD * self._threads())
        while len(running) < wanted:
            chunk = next(todo, None)
            if chunk is None:
                return
            send(chunk)

    def _threads(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return sum(threads.values())

    def _result(self, future: Any) -> list[Record] | None:
        """Return the result of a task; None if it killed several workers."""
        try:
            records: list[Record] = future.result()
        except _distributed().KilledWorker:
            return None
        except NpusimError:
            raise
        except ModuleNotFoundError as fault:
            raise NpusimError(
                f"--dask {self._address}: a worker has no {fault.name}: install npusim there"
            ) from None
        except BaseException as fault:
            if type(fault).__name__ in ("CancelledError", "FutureCancelledError", "CommClosedError"):
                raise NpusimError(
                    f"--dask {self._address}: the cluster is gone; the points so far are kept, the same command "
                    "goes on when it is back"
                ) from None
            raise
        finally:
            future.release()
        return records

    def close(self) -> None:
        """Cancel the tasks and disconnect from the cluster, which keeps running."""
        self._evaluator.release()
        self._client.close(timeout=5)


def _version() -> str:
    return str(npusim_version())


def _distributed() -> Any:
    """Import the package distributed. Raises NpusimError that says what to install."""
    try:
        import distributed
    except ImportError:
        raise missing("--dask", "cluster") from None
    return distributed


def _connect(address: str, tls: Tls | None = None) -> Any:
    # Without --dask-tls-* Dask looks into its own configuration (distributed.comm.tls), as for any program.
    security = {"security": tls.security()} if tls else {}
    try:
        return _distributed().Client(address, timeout=CONNECT_S, set_as_default=False, **security)
    except ssl.SSLError as fault:
        raise NpusimError(f"--dask {address}: certificate and key do not serve: {fault}") from None
    except TypeError:  # what Dask says to an address of TLS without certificates
        raise NpusimError(
            f"--dask {address}: needs --dask-tls-ca, --dask-tls-cert and --dask-tls-key, or Dask's own configuration"
        ) from None
    except (OSError, ValueError) as fault:
        raise NpusimError(f"--dask {address}: no scheduler answers there: {fault}") from None
