"""Scores on a device, with the logarithms of the processor: those of whole numbers are looked up."""

from weakref import WeakKeyDictionary

import numpy as np

from isobag.backends.arrays import Floats, Term, Terms
from isobag.backends.numpy import value_of_term
from isobag.backends.threads import map_in_threads
from isobag.backends.torch.devices import tensor, torch

_tables: WeakKeyDictionary[Terms, dict[tuple[torch.device, Term], torch.Tensor]] = WeakKeyDictionary()


def add_terms(sums: list[torch.Tensor], terms: Terms, n_jobs: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum of all terms of each row, and of the first, one after the other: (n, L + 1) a view -> (n,), (n,).

    Logarithms differ in their last bits from one library to another, so NumPy's are taken: of every whole number up to
    the largest sum where rows are more than these, else of the sums themselves.
    """
    n, device, tables = len(sums[0]), sums[0].device, _tables.setdefault(terms, {})
    total = torch.zeros(n, dtype=torch.float64, device=device)
    first = torch.zeros_like(total)
    if not n:
        return total, first
    largest = [each.amax(dim=0).tolist() for each in sums]

    def in_host_memory(term: Term) -> Floats | None:
        """What is still to be computed on the processor."""
        most, table = largest[term.view][term.column], tables.get((device, term))
        if term.floor is None or (table is not None and len(table) > most):
            return None
        whole_numbers = np.arange(most + 1) if most < n else sums[term.view][:, term.column].cpu().numpy()
        return value_of_term(whole_numbers, term)

    made = map_in_threads(in_host_memory, terms.terms, n_jobs)
    for number, (term, values) in enumerate(zip(terms.terms, made, strict=True)):
        column = sums[term.view][:, term.column]
        if term.floor is None:
            shares = column.to(torch.float64)
            total += shares.div_(torch.full_like(shares, term.divisor)).mul_(-term.weight)
        elif values is not None and largest[term.view][term.column] >= n:
            total += tensor(values, device)
        else:
            if values is not None:
                tables[device, term] = tensor(values, device)
            total += tables[device, term][column]
        if number == terms.n_first - 1:
            first = total.clone()
    return total, first
