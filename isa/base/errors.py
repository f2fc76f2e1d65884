"""The faults that npusim reports to its user: one line that says where, what is, what may be, what to do."""

from npusim.isa.base.printable import within


class NpusimError(Exception):
    """A mistake in what the user gave us; the command line prints its text and exits with status 2."""

    def __str__(self) -> str:
        """Return the message, shortened, because names and lists in it come from files of any size."""
        return within(super().__str__())


class FormatError(NpusimError):
    """A model file that cannot be read."""


class GraphError(NpusimError):
    """A graph whose operators, shapes or types do not fit together."""


class HardwareError(NpusimError):
    """A hardware description with faults; its text lists all of them."""


class ProgramError(NpusimError):
    """A program image that is damaged, too new, or breaks a rule of the instruction set."""


class CompileError(NpusimError):
    """A model that does not fit the hardware it is compiled for."""


class SimulationError(NpusimError):
    """A program that cannot finish: instructions that wait for each other, or wrong inputs."""


class OperandFault(SimulationError):
    """Values that an operation cannot take, such as an index outside; says what, and whoever executes it adds where."""
