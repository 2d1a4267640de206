"""What Numba compiles for: the features of its target, which need not be the host's."""

from numba.core import codegen, config


def _has_feature(name: str) -> bool:
    """Whether the target has one: NUMBA_CPU_FEATURES if set, none for NUMBA_CPU_NAME=generic, else those of the host."""
    chosen = config.CPU_FEATURES  # type: ignore[attr-defined]  # set when Numba reads its environment
    return f"+{name}" in (codegen.get_host_cpu_features() if chosen is None else chosen).split(",")


HAS_AVX512 = _has_feature("avx512f")
